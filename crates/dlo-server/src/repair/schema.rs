//! JSON Schemas that a repaired payload has to fit, by source and by type of event.
//!
//! A schema is a local file that the config names; what it refers to is in it. Patterns run in linear time: the schema is
//! ours, the payload is not. What is said of a misfit names the place and what was expected there, never the value.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Bytes of a schema.
const SCHEMA: usize = 1024 * 1024;
/// Misfits that are told of one payload.
const TOLD: usize = 3;
/// Misfits that are compared before and after a repair.
const COMPARED: usize = 100;

/// One schema, ready to use.
#[derive(Debug, Clone)]
pub struct Schema(Arc<Validator>);

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSchema(String);

impl Schema {
    pub fn parse(text: &str) -> Result<Self, BadSchema> {
        if text.len() > SCHEMA {
            return Err(BadSchema(format!("a schema has at most {SCHEMA} bytes")));
        }
        let document: Value =
            serde_json::from_str(text).map_err(|error| BadSchema(format!("it is not JSON: {error}")))?;
        refuse_remote(&document)?;
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(&document).map_err(|error| {
            let place = error.instance_path().as_str().to_string();
            let place = if place.is_empty() { "its root".to_string() } else { format!("`{place}`") };
            BadSchema(format!("it is not a JSON Schema at {place}: {error}"))
        })?;
        Ok(Self(Arc::new(validator)))
    }

    fn check(&self, payload: &[u8]) -> Result<(), String> {
        let misfits = self.misfits(payload, TOLD)?;
        if misfits.is_empty() { Ok(()) } else { Err(told(&misfits)) }
    }

    /// Where the payload does not fit, and what was expected there.
    fn misfits(&self, payload: &[u8], most: usize) -> Result<Vec<String>, String> {
        let document: Value = serde_json::from_slice(payload).map_err(|_| {
            "it cannot be compared with its schema: it is no JSON, or nested too deep".to_string()
        })?;
        let misfits = self
            .0
            .iter_errors(&document)
            .take(most)
            .map(|error| {
                let place = error.instance_path().as_str();
                let place = if place.is_empty() { "/" } else { place };
                format!("`{place}`: {}", error.masked())
            })
            .collect();
        Ok(misfits)
    }
}

fn told(misfits: &[String]) -> String {
    format!("it does not fit its schema at {}", misfits.join("; "))
}

/// A reference to elsewhere would be fetched, or would be refused only when a letter needs it.
fn refuse_remote(document: &Value) -> Result<(), BadSchema> {
    let mut left = vec![document];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if let ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) =
                        (name.as_str(), member)
                        && !to.starts_with('#')
                    {
                        let what = format!(
                            "`{name}` to \"{to}\" leads out of the file; put what it means under `$defs`"
                        );
                        return Err(BadSchema(what));
                    }
                    left.push(member);
                }
            }
            Value::Array(items) => left.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(())
}

/// Which schema is whose.
#[derive(Debug, Clone, Default)]
pub struct Schemas(BTreeMap<String, SourceSchemas>);

#[derive(Debug, Clone, Default)]
struct SourceSchemas {
    every: Option<Schema>,
    types: BTreeMap<String, Schema>,
}

impl Schemas {
    /// Every payload of the source has to fit it, unless its type has one of its own.
    pub fn of_source(&mut self, source: &str, schema: Schema) {
        self.0.entry(source.to_string()).or_default().every = Some(schema);
    }

    pub fn of_type(&mut self, source: &str, event_type: &str, schema: Schema) {
        self.0.entry(source.to_string()).or_default().types.insert(event_type.to_string(), schema);
    }

    /// The one that a payload has to fit.
    fn find(&self, source: &str, event_type: Option<&str>) -> Option<&Schema> {
        let source = self.0.get(source)?;
        event_type.and_then(|name| source.types.get(name)).or(source.every.as_ref())
    }

    /// Whether the payload fits; `Ok(false)` where no schema is named for it.
    pub(super) fn check(
        &self,
        source: &str,
        event_type: Option<&str>,
        payload: &[u8],
    ) -> Result<bool, String> {
        match self.find(source, event_type) {
            Some(schema) => schema.check(payload).map(|()| true),
            None => Ok(false),
        }
    }

    /// The same for copies of a payload with other values in it: what did not fit before the repair is no fault of it.
    pub(super) fn check_copy(
        &self,
        source: &str,
        event_type: Option<&str>,
        before: &[u8],
        after: &[u8],
    ) -> Result<bool, String> {
        let Some(schema) = self.find(source, event_type) else { return Ok(false) };
        let known = schema.misfits(before, COMPARED).unwrap_or_default();
        let mut misfits = schema.misfits(after, COMPARED)?;
        misfits.retain(|misfit| !known.contains(misfit));
        misfits.truncate(TOLD);
        if misfits.is_empty() { Ok(true) } else { Err(told(&misfits)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = r##"{"$defs":{"cents":{"type":"integer","minimum":1}},"type":"object",
        "required":["amount"],"properties":{"amount":{"$ref":"#/$defs/cents"},"card":{"maxLength":4}}}"##;

    #[test]
    fn a_misfit_names_its_place_and_what_was_expected_and_no_value() {
        let schema = Schema::parse(ORDER).unwrap();
        schema.check(br#"{"amount":1999}"#).unwrap();
        let why = schema.check(br#"{"amount":19.99,"card":"4111 1111"}"#).unwrap_err();
        assert!(why.contains("`/amount`") && why.contains("integer") && why.contains("`/card`"), "{why}");
        assert!(!why.contains("19.99") && !why.contains("4111"), "{why}");
        assert!(schema.check(b"{}").unwrap_err().contains("amount"));
        assert!(schema.check(b"x").is_err());
    }

    #[test]
    fn what_leads_out_of_the_file_or_is_no_schema_is_refused() {
        for (text, said) in [
            (r#"{"$ref":"https://example.com/x.json"}"#, "leads out of the file"),
            (r#"{"items":[{"$ref":"other.json"}]}"#, "leads out of the file"),
            (r#"{"type":"ordr"}"#, "not a JSON Schema"),
            ("{", "not JSON"),
        ] {
            let why = Schema::parse(text).unwrap_err().to_string();
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn a_type_of_its_own_goes_before_the_source() {
        let mut schemas = Schemas::default();
        schemas.of_source("orders", Schema::parse(r#"{"type":"object"}"#).unwrap());
        schemas.of_type("orders", "order.counted", Schema::parse(r#"{"type":"integer"}"#).unwrap());
        assert_eq!(schemas.check("orders", None, b"{}"), Ok(true));
        assert_eq!(schemas.check("orders", Some("order.counted"), b"7"), Ok(true));
        assert!(schemas.check("orders", Some("order.counted"), b"{}").is_err());
        assert_eq!(schemas.check("invoices", None, b"7"), Ok(false));
    }
}
