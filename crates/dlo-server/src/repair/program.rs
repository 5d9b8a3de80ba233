//! A repair expression: jq, compiled once, run over one letter at a time. Runs inside the worker only.
//!
//! It sees the payload as `.`, and `$key`, `$headers` and `$letter`; it sees nothing else of the world. What would
//! (`env`, `input`, `import`, `debug`, local time) is refused when it is compiled. The result is the new payload, or, after
//! `set_key` and `set_header`, a message.

use std::sync::LazyLock;

use dlo_core::limits;
use jaq_core::load::lex::Tok;
use jaq_core::load::{self, Arena, File, Lexer, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars, compile, data::JustLut, unwrap_valr};
use jaq_json::{Map, Val};

use super::json::{self, Layout};
use super::same::is_same;
use super::wire::{Answer, Change, KeyChange, Letter, OwnPairs};
use super::{BadExpression, hide};

type Kind = JustLut<Val>;

/// What jq has and a repair does not: it would read or tell something beside its letter.
const ABSENT: [&str; 14] = [
    "env",
    "input",
    "inputs",
    "input_filename",
    "input_line_number",
    "halt",
    "halt_error",
    "debug",
    "debug_empty",
    "stderr",
    "stderr_empty",
    "localtime",
    "strflocaltime",
    "get_search_list",
];

/// Variables, in the order in which their values are given.
const VARIABLES: [&str; 3] = ["$key", "$headers", "$letter"];

const PAYLOAD: &str = "$payload";
const KEY: &str = "$key";
const HEADERS: &str = "$headers";

/// A result that has `$payload` is a message: what follows changes its key and headers.
const OURS: &str = r#"
def message: if isobject and has("$payload") then . else {"$payload": .} end;
def set_key(f): message | .["$key"] = (.["$payload"] | f);
def set_header($name; f): message | (.["$payload"] | f) as $value
  | .["$headers"] = ((.["$headers"] // {}) + {($name): $value});
def drop_header($name): set_header($name; null);
"#;

pub(super) struct Program {
    filter: Filter<Kind>,
    source: String,
}

impl Program {
    pub(super) fn compile(source: &str) -> Result<Self, BadExpression> {
        refuse_imports(source)?;
        let arena = Arena::default();
        let ours = load::parse(OURS, |parser| parser.defs()).unwrap_or_default();
        let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(ours);
        let defs = defs.filter(|def| !ABSENT.contains(&def.name));
        let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let funs = funs.filter(|fun| !ABSENT.contains(&fun.0));
        let modules = Loader::new(defs)
            .load(&arena, File { code: source, path: () })
            .map_err(|errors| not_read(source, errors))?;
        let filter = Compiler::<_, Kind>::default()
            .with_funs(funs)
            .with_global_vars(VARIABLES)
            .compile(modules)
            .map_err(|errors| not_known(source, errors))?;
        Ok(Self { filter, source: source.to_string() })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Runs over one letter. What it says of a failure names no value of the payload.
    pub(super) fn run(&self, letter: &Letter<'_>) -> Answer {
        self.try_run(letter).unwrap_or_else(Answer::Failed)
    }

    fn try_run(&self, letter: &Letter<'_>) -> Result<Answer, String> {
        let payload = json::read(letter.payload).map_err(|cause| {
            format!(
                "the payload cannot be repaired by an expression: {cause}; give it another one as a whole"
            )
        })?;
        let variables = [bytes(letter.key), headers(letter), facts(letter)];
        let ctx = Ctx::<Kind>::new(&self.filter.lut, Vars::new(variables));
        let mut results = self.filter.id.run((ctx, payload)).map(unwrap_valr);
        let result = match results.next() {
            Some(Ok(result)) => result,
            Some(Err(error)) => return Err(hide::error(&error, &self.source)),
            None => return Err("the expression yields nothing; a repair yields one payload".to_string()),
        };
        if results.next().is_some() {
            return Err("the expression yields more than one result; a repair yields one payload".to_string());
        }
        let (value, mut change) = message(result)?;
        let written =
            json::write(&value, Layout::Compact, limits::PAYLOAD).map_err(|cause| cause.to_string())?;
        if !is_same(letter.payload, &written, &value) {
            change.payload = Some(written);
        }
        Ok(if change.is_none() { Answer::Same } else { Answer::Changed(change) })
    }
}

/// Directives stand at the beginning or nowhere.
fn refuse_imports(source: &str) -> Result<(), BadExpression> {
    let Ok(tokens) = Lexer::new(source).lex() else { return Ok(()) };
    match tokens.first() {
        Some(token) if matches!(token.1, Tok::Word) && matches!(token.0, "import" | "include" | "module") => {
            let what = format!("`{}` is not available: a repair reads nothing but its letter", token.0);
            Err(BadExpression { at: load::span(source, token.0).start, what })
        }
        _ => Ok(()),
    }
}

fn not_read(source: &str, errors: load::Errors<&str, ()>) -> BadExpression {
    let place = |part: &str| load::span(source, part).start.min(source.len());
    let first = errors.into_iter().next().map(|(_, error)| error);
    let (at, what) = match first {
        Some(load::Error::Lex(errors)) => match errors.first() {
            Some((expected, found)) => (place(found), misread(expected.as_str(), found)),
            None => (0, "not understood".to_string()),
        },
        Some(load::Error::Parse(errors)) => match errors.first() {
            Some((expected, found)) => (place(found), misread(expected.as_str(), found)),
            None => (0, "not understood".to_string()),
        },
        Some(load::Error::Io(errors)) => {
            let at = errors.first().map_or(0, |(path, _)| place(path));
            (at, "modules are not available: a repair reads nothing but its letter".to_string())
        }
        None => (0, "not understood".to_string()),
    };
    BadExpression { at, what }
}

/// What stands where something else belongs; the end of an expression is the place most often meant.
fn misread(expected: &str, found: &str) -> String {
    match found.split_whitespace().next() {
        None => format!("expected {expected}, and the expression ends"),
        Some(word) => format!("expected {expected}, found `{}`", word.chars().take(20).collect::<String>()),
    }
}

fn not_known(source: &str, errors: compile::Errors<&str, ()>) -> BadExpression {
    let Some((name, kind)) = errors.into_iter().flat_map(|(_, errors)| errors).next() else {
        return BadExpression { at: 0, what: "not understood".to_string() };
    };
    let at = if source.as_bytes().as_ptr_range().contains(&name.as_ptr()) {
        load::span(source, name).start
    } else {
        0
    };
    let what = match kind {
        compile::Undefined::Filter(_) if ABSENT.contains(&name) => {
            format!("`{name}` is not available: a repair sees its letter and nothing else")
        }
        compile::Undefined::Var if matches!(name, "$ENV" | "$__prog_args") => {
            format!("`{name}` is not available: a repair sees its letter and nothing else")
        }
        compile::Undefined::Var => {
            format!("there is no variable `{name}`; there are {}", VARIABLES.join(", "))
        }
        compile::Undefined::Filter(arity) => format!("there is no filter `{name}` of {arity} arguments"),
        other => format!("there is no {} `{name}`", other.as_str()),
    };
    BadExpression { at, what }
}

/// Bytes as jq has them: a text where they are one.
fn bytes(given: Option<&[u8]>) -> Val {
    match given {
        None => Val::Null,
        Some(bytes) if std::str::from_utf8(bytes).is_ok() => Val::utf8_str(bytes.to_vec()),
        Some(bytes) => Val::byte_str(bytes.to_vec()),
    }
}

/// By name; of those that repeat, the last.
fn headers(letter: &Letter<'_>) -> Val {
    let pairs = letter.headers.iter().map(|(name, value)| (Val::utf8_str(name.to_string()), bytes(*value)));
    Val::obj(pairs.collect())
}

fn facts(letter: &Letter<'_>) -> Val {
    let pairs = letter.facts.iter().map(|(name, value)| (Val::utf8_str(name.to_string()), bytes(*value)));
    Val::obj(pairs.collect())
}

static MEMBERS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| [PAYLOAD, KEY, HEADERS].map(|name| name.into()));

/// The payload of a result, and what it says about key and headers.
fn message(result: Val) -> Result<(Val, Change), String> {
    let mut change = Change::default();
    let name = |text: &str| Val::utf8_str(text.to_string());
    let Val::Obj(members) = &result else { return Ok((result, change)) };
    // Most results are no message: the first look allocates nothing more than the name.
    let Some(payload) = members.get(&name(PAYLOAD)) else { return Ok((result, change)) };
    let known = |key: &Val| matches!(key, Val::TStr(key) if MEMBERS.iter().any(|known| known[..] == key[..]));
    if !members.keys().all(known) {
        return Err(format!("a result with `{PAYLOAD}` has beside it only `{KEY}` and `{HEADERS}`"));
    }
    if let Some(key) = members.get(&name(KEY)) {
        change.key = match changed_bytes(key, "the key")? {
            None => KeyChange::Removed,
            Some(key) if key.len() > limits::KEY => {
                return Err(format!("a key has at most {} bytes", limits::KEY));
            }
            Some(key) => KeyChange::Set(key),
        };
    }
    match members.get(&name(HEADERS)) {
        None | Some(Val::Null) => {}
        Some(Val::Obj(headers)) => change.headers = changed_headers(headers)?,
        Some(_) => return Err(format!("`{HEADERS}` is an object of names and texts")),
    }
    Ok((payload.clone(), change))
}

fn changed_headers(headers: &Map<Val, Val>) -> Result<OwnPairs, String> {
    let mut changed = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let name = match name {
            Val::TStr(name) => String::from_utf8(name.to_vec()).ok(),
            _ => None,
        };
        let fit = |name: &String| !name.is_empty() && !name.chars().any(char::is_control);
        let Some(name) = name.filter(fit) else {
            return Err("the name of a header is a text without control characters".to_string());
        };
        if name.to_ascii_lowercase().starts_with("dlo-") {
            return Err("headers that begin with `dlo-` are the office's own".to_string());
        }
        changed.push((name, changed_bytes(value, "a header")?));
    }
    Ok(changed)
}

fn changed_bytes(value: &Val, what: &str) -> Result<Option<Vec<u8>>, String> {
    match value {
        Val::Null => Ok(None),
        Val::TStr(text) | Val::BStr(text) => Ok(Some(text.to_vec())),
        Val::Bool(_) | Val::Num(_) | Val::Arr(_) | Val::Obj(_) => {
            Err(format!("{what} is set to a text, or to null to take it away; `tostring` makes one"))
        }
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
