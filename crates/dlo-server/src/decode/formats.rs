//! Schemas of binary formats that the config names: which payloads of a source are read by which.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::avro::Avro;
use super::proto::Proto;

/// Bytes of a schema.
const LARGEST: usize = 4 * 1024 * 1024;

/// One schema, ready to read by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format(pub(super) Arc<Kind>);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Avro(Avro),
    Proto(Proto),
}

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFormat(String);

impl Format {
    /// An Avro schema, as `.avsc` files hold it.
    pub fn avro(text: &str) -> Result<Self, BadFormat> {
        bounded(text.len())?;
        Avro::parse(text).map(|avro| Self(Arc::new(Kind::Avro(avro)))).map_err(BadFormat)
    }

    /// A descriptor set of Protocol Buffers, as `protoc --descriptor_set_out` writes it.
    pub fn protobuf(bytes: &[u8]) -> Result<Self, BadFormat> {
        bounded(bytes.len())?;
        Proto::parse(bytes).map(|proto| Self(Arc::new(Kind::Proto(proto)))).map_err(BadFormat)
    }
}

fn bounded(length: usize) -> Result<(), BadFormat> {
    if length > LARGEST {
        return Err(BadFormat(format!("a schema has at most {LARGEST} bytes, found {length}")));
    }
    Ok(())
}

/// Schemas by source, and by type of event inside a source.
#[derive(Debug, Clone, Default)]
pub struct Formats {
    by_source: BTreeMap<String, Format>,
    by_type: BTreeMap<(String, String), Format>,
}

impl Formats {
    pub fn of_source(&mut self, source: &str, format: Format) {
        self.by_source.insert(source.to_string(), format);
    }

    pub fn of_type(&mut self, source: &str, event_type: &str, format: Format) {
        self.by_type.insert((source.to_string(), event_type.to_string()), format);
    }

    /// The one for a payload; that of its type goes before.
    pub(super) fn get(&self, source: &str, event_type: Option<&str>) -> Option<&Kind> {
        let typed = event_type.and_then(|kind| self.by_type.get(&(source.to_string(), kind.to_string())));
        typed.or_else(|| self.by_source.get(source)).map(|format| &*format.0)
    }
}
