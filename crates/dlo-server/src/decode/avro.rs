//! Avro's binary encoding by a schema that is at hand. The bytes say nothing of themselves: with the wrong schema they are
//! refused, or read as something that was never meant.

use std::collections::BTreeMap;

use serde_json::Value;

use super::reading::{Reading, Step, Stop};
use super::writing::Writing;

/// Levels of a schema.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    /// Int and long are one on the wire.
    Whole,
    Float,
    Double,
    Bytes,
    String,
    Record(Vec<(String, Kind)>),
    Enum(Vec<String>),
    Array(Box<Kind>),
    Map(Box<Kind>),
    Union(Vec<Kind>),
    Fixed(usize),
    /// One that is defined elsewhere in the schema.
    Named(String),
}

/// A schema, ready to read by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Avro {
    root: Kind,
    /// Records, enums and fixed by their full names.
    names: BTreeMap<String, Kind>,
}

impl Avro {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let mut names = BTreeMap::new();
        let root = Parser { names: &mut names }.kind(&document, "", 0)?;
        let avro = Self { root, names };
        match avro.unknown(&avro.root).or_else(|| avro.names.values().find_map(|kind| avro.unknown(kind))) {
            Some(name) => Err(format!("it names the type `{name}` and does not define it")),
            None => Ok(avro),
        }
    }

    /// A name that is used and not defined.
    fn unknown<'k>(&self, kind: &'k Kind) -> Option<&'k str> {
        match kind {
            Kind::Named(name) => (!self.names.contains_key(name)).then_some(name.as_str()),
            Kind::Record(fields) => fields.iter().find_map(|(_, kind)| self.unknown(kind)),
            Kind::Array(inner) | Kind::Map(inner) => self.unknown(inner),
            Kind::Union(all) => all.iter().find_map(|kind| self.unknown(kind)),
            _ => None,
        }
    }

    /// The whole of `bytes` as one value.
    pub(super) fn read(&self, bytes: &[u8], to: &mut Writing) -> Step {
        let mut from = Reading(bytes);
        self.value(&self.root, &mut from, to)?;
        if from.is_empty() { Ok(()) } else { Err(Stop::Wrong) }
    }

    fn value(&self, kind: &Kind, from: &mut Reading<'_>, to: &mut Writing) -> Step {
        match kind {
            Kind::Null => to.put("null"),
            Kind::Boolean => match from.byte()? {
                0 => to.put("false"),
                1 => to.put("true"),
                _ => Err(Stop::Wrong),
            },
            Kind::Whole => to.put(from.zigzag()?),
            Kind::Float => to.single(f32::from_le_bytes(from.array()?)),
            Kind::Double => to.float(f64::from_le_bytes(from.array()?)),
            Kind::Bytes => to.bytes(sized(from)?),
            Kind::String => to.text(sized(from)?),
            Kind::Fixed(size) => to.bytes(from.take(*size)?),
            Kind::Enum(symbols) => {
                let symbol = usize::try_from(from.zigzag()?).ok().and_then(|at| symbols.get(at));
                to.string(symbol.ok_or(Stop::Wrong)?)
            }
            Kind::Union(all) => {
                let branch = usize::try_from(from.zigzag()?).ok().and_then(|at| all.get(at));
                let branch = branch.ok_or(Stop::Wrong)?;
                // A name that leads to itself has no bracket that would count its levels.
                to.deeper(|to| self.value(branch, from, to))
            }
            Kind::Named(name) => {
                let named = self.names.get(name).ok_or(Stop::Wrong)?;
                to.deeper(|to| self.value(named, from, to))
            }
            Kind::Record(fields) => {
                to.open('{')?;
                for (name, kind) in fields {
                    to.next()?;
                    to.string(name)?;
                    to.put(": ")?;
                    self.value(kind, from, to)?;
                }
                to.close('}')
            }
            Kind::Array(inner) => self.blocks(inner, false, from, to),
            Kind::Map(inner) => self.blocks(inner, true, from, to),
        }
    }

    /// Elements in blocks, each with its count; a negative one has its size behind it.
    fn blocks(&self, inner: &Kind, keyed: bool, from: &mut Reading<'_>, to: &mut Writing) -> Step {
        to.open(if keyed { '{' } else { '[' })?;
        loop {
            let count = from.zigzag()?;
            if count == 0 {
                return to.close(if keyed { '}' } else { ']' });
            }
            if count < 0 {
                from.zigzag()?;
            }
            // An element may take no byte at all, but it always writes one: there cannot be more than are shown.
            for _ in 0..count.unsigned_abs() {
                to.next()?;
                if keyed {
                    to.text(sized(from)?)?;
                    to.put(": ")?;
                }
                self.value(inner, from, to)?;
            }
        }
    }
}

fn sized<'a>(from: &mut Reading<'a>) -> Step<&'a [u8]> {
    let length = usize::try_from(from.zigzag()?).map_err(|_| Stop::Wrong)?;
    from.take(length)
}

struct Parser<'n> {
    names: &'n mut BTreeMap<String, Kind>,
}

impl Parser<'_> {
    fn kind(&mut self, schema: &Value, space: &str, level: usize) -> Result<Kind, String> {
        if level > DEEPEST {
            return Err(format!("it has more than {DEEPEST} levels"));
        }
        match schema {
            Value::String(name) => Ok(primitive(name).unwrap_or_else(|| Kind::Named(full(name, space)))),
            Value::Array(all) => {
                let kinds = all.iter().map(|one| self.kind(one, space, level + 1));
                Ok(Kind::Union(kinds.collect::<Result<_, _>>()?))
            }
            Value::Object(members) => match members.get("type") {
                Some(Value::String(name)) => self.complex(name, schema, space, level),
                Some(inner) => self.kind(inner, space, level + 1),
                None => Err("a type has no `type`".to_string()),
            },
            _ => Err("a type is a name, a list or an object".to_string()),
        }
    }

    fn complex(&mut self, word: &str, schema: &Value, space: &str, level: usize) -> Result<Kind, String> {
        let missing = |what: &str| format!("a type `{word}` has no `{what}`");
        match word {
            "array" => {
                let inner = schema.get("items").ok_or_else(|| missing("items"))?;
                Ok(Kind::Array(Box::new(self.kind(inner, space, level + 1)?)))
            }
            "map" => {
                let inner = schema.get("values").ok_or_else(|| missing("values"))?;
                Ok(Kind::Map(Box::new(self.kind(inner, space, level + 1)?)))
            }
            "record" | "error" | "enum" | "fixed" => {
                let name = schema["name"].as_str().ok_or_else(|| missing("name"))?;
                let space = schema["namespace"].as_str().unwrap_or(space);
                let name = full(name, space);
                let space = name.rsplit_once('.').map_or("", |(space, _)| space).to_string();
                let kind = match word {
                    "enum" => Kind::Enum(texts(&schema["symbols"]).ok_or_else(|| missing("symbols"))?),
                    "fixed" => {
                        let size = schema["size"].as_u64().and_then(|size| usize::try_from(size).ok());
                        Kind::Fixed(size.ok_or_else(|| missing("size"))?)
                    }
                    _ => Kind::Record(
                        self.fields(schema, &space, level)
                            .map_err(|what| what.unwrap_or_else(|| missing("fields")))?,
                    ),
                };
                self.names.insert(name.clone(), kind);
                Ok(Kind::Named(name))
            }
            other => Ok(primitive(other).unwrap_or_else(|| Kind::Named(full(other, space)))),
        }
    }

    fn fields(
        &mut self,
        schema: &Value,
        space: &str,
        level: usize,
    ) -> Result<Vec<(String, Kind)>, Option<String>> {
        let fields = schema["fields"].as_array().ok_or(None)?;
        let field = |field: &Value| {
            let name = field["name"].as_str().ok_or_else(|| Some("a field has no `name`".to_string()))?;
            let kind = field.get("type").ok_or_else(|| Some(format!("the field `{name}` has no `type`")))?;
            Ok((name.to_string(), self.kind(kind, space, level + 1).map_err(Some)?))
        };
        fields.iter().map(field).collect()
    }
}

fn texts(list: &Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|text| text.as_str().map(str::to_string)).collect()
}

fn primitive(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" | "long" => Kind::Whole,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

fn full(name: &str, space: &str) -> String {
    if name.contains('.') || space.is_empty() { name.to_string() } else { format!("{space}.{name}") }
}
