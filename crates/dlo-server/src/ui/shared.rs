//! What the payloads of a group share: fields with their values, drawn, each a click away from the letters that have it.

use dlo_core::query::Matcher;
use dlo_core::redact::MASK;
use dlo_core::sample::{Counted, Field, Sample};

use super::draw::{Svg, meter};

/// Fields told.
const FIELDS: usize = 8;

/// A sample, ready to be shown.
pub(crate) struct Shared {
    pub(crate) looked: usize,
    pub(crate) keys: String,
    pub(crate) fields: Vec<FieldLine>,
}

pub(crate) struct FieldLine {
    pub(crate) path: String,
    pub(crate) distinct: String,
    pub(crate) values: Vec<ValueLine>,
}

pub(crate) struct ValueLine {
    pub(crate) value: String,
    /// What finds the letters that have it, encoded; not where the value is hidden or cut.
    pub(crate) query: Option<String>,
    pub(crate) percent: String,
    pub(crate) bar: Svg,
}

impl Shared {
    pub(crate) fn new(sample: &Sample) -> Self {
        Self { looked: sample.letters, keys: keys(sample), fields: fields(sample) }
    }
}

fn keys(sample: &Sample) -> String {
    match (sample.distinct_keys, sample.keys.first()) {
        (0, _) | (_, None) => "The letters carry no keys.".to_string(),
        (1, Some(key)) => format!("All of one key: {}", key.value),
        (many, Some(key)) => format!(
            "{many} different keys among the newest {}; most often {} ({})",
            sample.letters, key.value, key.count
        ),
    }
}

fn fields(sample: &Sample) -> Vec<FieldLine> {
    let line = |field: &Field| FieldLine {
        path: field.path.clone(),
        distinct: if field.many {
            "very many values".into()
        } else if field.distinct == 1 {
            "one value".into()
        } else {
            format!("{} values", field.distinct)
        },
        values: field.values.iter().map(|value| value_line(field, value)).collect(),
    };
    sample.fields.iter().take(FIELDS).map(line).collect()
}

fn value_line(field: &Field, value: &Counted) -> ValueLine {
    let percent = format!("{:.0} %", value.share * 100.0);
    let (part, whole) = (value.count as u64, field.count as u64);
    let cut = field.path.ends_with('…') || value.value.ends_with('…');
    let shown = !cut && value.value != MASK;
    let finds = || Matcher::Payload { path: field.names.clone(), value: value.value.clone() }.to_string();
    ValueLine {
        query: shown.then(|| super::encoded(&finds())),
        bar: meter(&format!("{}: {percent}", value.value), part, whole, 0),
        value: value.value.clone(),
        percent,
    }
}
