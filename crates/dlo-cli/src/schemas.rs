//! Schemas that the config names by their files: read once, at the start, and by `dlo check`.
//!
//! What a file holds is said by its ending: `.avsc` is Avro and `.desc`, `.binpb` and `.pb` are descriptor sets of Protocol
//! Buffers, by which payloads are shown; everything else is a JSON Schema, which repaired payloads have to fit.

use std::path::{Path, PathBuf};

use dlo_server::{Format, Formats, Schema, Schemas};

use crate::config::Config;
use crate::exit::{Failure, Outcome};

/// Bytes of a schema file that are read; a longer one is refused.
const LARGEST: u64 = 1024 * 1024;

/// Every schema of the config, of either kind.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) schemas: Schemas,
    pub(crate) formats: Formats,
}

enum One {
    Schema(Schema),
    Format(Format),
}

/// Reads them all. The first that cannot be used is refused with its source and file.
pub(crate) fn read(config: &Config) -> Outcome<Read> {
    let mut all = Read::default();
    for source in &config.sources {
        if let Some(file) = &source.schema {
            match one(config, &source.name, file)? {
                One::Schema(schema) => all.schemas.of_source(&source.name, schema),
                One::Format(format) => all.formats.of_source(&source.name, format),
            }
        }
        for (event_type, file) in &source.schemas {
            match one(config, &source.name, file)? {
                One::Schema(schema) => all.schemas.of_type(&source.name, event_type, schema),
                One::Format(format) => all.formats.of_type(&source.name, event_type, format),
            }
        }
    }
    Ok(all)
}

/// How many the config names.
pub(crate) fn count(config: &Config) -> usize {
    config.sources.iter().map(|source| usize::from(source.schema.is_some()) + source.schemas.len()).sum()
}

fn one(config: &Config, source: &str, file: &str) -> Outcome<One> {
    let fail = |what: String| {
        let line = config.sources.iter().find(|known| known.name == source).and_then(|known| known.line);
        let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        Failure::usage(format!("the schema {file} of source `{source}`{line} cannot be used: {what}"))
    };
    if file.contains("://") {
        return Err(fail("a schema is a local file; keep a copy of it beside the config".to_string()));
    }
    let path = beside(config, file);
    let length = std::fs::metadata(&path).map_err(|cause| fail(cause.to_string()))?.len();
    if length > LARGEST {
        return Err(fail(format!("it has {length} bytes, and at most {LARGEST} are read")));
    }
    let bytes = std::fs::read(&path).map_err(|cause| fail(cause.to_string()))?;
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if matches!(ending, "desc" | "binpb" | "pb") {
        return Format::protobuf(&bytes).map(One::Format).map_err(|bad| fail(bad.to_string()));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8".to_string()))?;
    if ending == "avsc" {
        return Format::avro(&text).map(One::Format).map_err(|bad| fail(bad.to_string()));
    }
    Schema::parse(&text).map(One::Schema).map_err(|bad| fail(bad.to_string()))
}

/// Files stand beside the config file, wherever the office is started.
fn beside(config: &Config, file: &str) -> PathBuf {
    let directory = config.file.as_deref().and_then(Path::parent);
    directory.map_or_else(|| PathBuf::from(file), |directory| directory.join(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(directory: &Path, text: &str) -> Config {
        let file = directory.join("dlo.toml");
        std::fs::write(&file, text).unwrap();
        Config::load(Some(&file)).unwrap()
    }

    #[test]
    fn schemas_stand_beside_the_config_and_a_bad_one_is_refused_with_its_source() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("order.json"), r#"{"type":"object"}"#).unwrap();
        std::fs::write(directory.path().join("far.json"), r#"{"$ref":"https://example.com/x"}"#).unwrap();
        let source = "[[sources]]\nname = \"orders\"\n";
        let good =
            format!("{source}schema = \"order.json\"\nschemas = {{ \"order.placed\" = \"order.json\" }}\n");
        let good = config(directory.path(), &good);
        assert_eq!(count(&good), 2);
        read(&good).unwrap();
        for (file, said) in [
            ("none.json", "No such file"),
            ("far.json", "leads out of the file"),
            ("https://example.com/order.json", "a schema is a local file"),
        ] {
            let bad = config(directory.path(), &format!("{source}schema = \"{file}\"\n"));
            let words = read(&bad).unwrap_err().words;
            assert!(words.contains("source `orders` (line 1)") && words.contains(said), "{words}");
        }
    }
}
