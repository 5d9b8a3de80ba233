//! A look into a group: which keys are affected, and what the payloads of a sample have in common.
//!
//! Made from the newest letters only, and bounded in every direction, so that it costs the same for a group of ten and of
//! ten million. What is hidden stays hidden: whoever calls masks keys and payloads first.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::words;

/// Fields that are told, values told of one field, characters told of one value or path, and values counted of one field.
const FIELDS: usize = 40;
const VALUES: usize = 5;
const VALUE: usize = 120;
const COUNTED: usize = 200;
/// Keys that are told.
const KEYS: usize = 50;
/// Bytes of a payload that is looked into.
pub const LOOKED_INTO: usize = 256 * 1024;

/// What a sample of letters tells.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Sample {
    /// Letters looked at.
    pub letters: usize,
    /// Of these, how many had a JSON payload that could be looked into.
    pub documents: usize,
    /// Distinct keys of the sample.
    pub distinct_keys: usize,
    /// The most frequent keys, most first.
    pub keys: Vec<Counted>,
    /// Fields by how telling they are: those with few values in many letters first.
    pub fields: Vec<Field>,
}

/// A value and how many letters of the sample have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    pub value: String,
    pub count: usize,
    /// Of the letters that were looked at for it.
    pub share: f64,
}

/// A JSON field over the sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// `customer.country`; positions in arrays are left out.
    pub path: String,
    /// The same, name by name: a name may hold a dot itself.
    #[serde(skip)]
    pub names: Vec<String>,
    /// Letters that have it.
    pub count: usize,
    pub distinct: usize,
    /// More values than are counted.
    pub many: bool,
    /// The most frequent values, most first.
    pub values: Vec<Counted>,
}

/// One letter of a sample: its key and its payload, masked already.
pub type Looked<'a> = (Option<&'a [u8]>, &'a [u8]);

/// Breaks a sample down.
pub fn break_down<'a>(letters: impl IntoIterator<Item = Looked<'a>>) -> Sample {
    let mut sample = Sample::default();
    let mut keys: BTreeMap<String, usize> = BTreeMap::new();
    let mut fields: BTreeMap<Vec<String>, Tally> = BTreeMap::new();
    for (key, payload) in letters {
        sample.letters += 1;
        if let Some(key) = key {
            *keys.entry(shown(&String::from_utf8_lossy(key))).or_default() += 1;
        }
        if payload.len() > LOOKED_INTO {
            continue;
        }
        let Ok(document) = serde_json::from_slice::<serde_json::Value>(payload) else { continue };
        sample.documents += 1;
        words::json_fields(&document, &mut |path, value| {
            let path = names(path);
            if fields.contains_key(&path) || fields.len() < FIELDS * 10 {
                fields.entry(path).or_default().add(sample.letters, value);
            }
        });
    }
    sample.distinct_keys = keys.len();
    sample.keys = most(keys, sample.letters, KEYS);
    sample.fields = tell(fields, sample.documents);
    sample
}

/// Values of one field. A letter that has a value several times counts once for it.
#[derive(Debug, Default)]
struct Tally {
    letters: usize,
    last: usize,
    values: BTreeMap<String, (usize, usize)>,
    many: bool,
}

impl Tally {
    fn add(&mut self, letter: usize, value: &str) {
        if self.last != letter {
            self.last = letter;
            self.letters += 1;
        }
        let value = shown(value);
        if !self.values.contains_key(&value) && self.values.len() >= COUNTED {
            self.many = true;
            return;
        }
        let (count, last) = self.values.entry(value).or_default();
        if *last != letter {
            *last = letter;
            *count += 1;
        }
    }
}

fn tell(fields: BTreeMap<Vec<String>, Tally>, documents: usize) -> Vec<Field> {
    let mut told: Vec<Field> = fields
        .into_iter()
        .map(|(names, tally)| Field {
            path: shown(&names.join(".")),
            names,
            count: tally.letters,
            distinct: tally.values.len(),
            many: tally.many,
            values: most(
                tally.values.into_iter().map(|(value, (count, _))| (value, count)).collect(),
                documents,
                VALUES,
            ),
        })
        .collect();
    // A field whose top value most letters share tells more than one that differs in each.
    let top = |field: &Field| field.values.first().map_or(0, |value| value.count);
    told.sort_by(|one, other| {
        (top(other), other.count, one.distinct)
            .cmp(&(top(one), one.count, other.distinct))
            .then(one.path.cmp(&other.path))
    });
    told.truncate(FIELDS);
    told
}

fn most(counts: BTreeMap<String, usize>, of: usize, told: usize) -> Vec<Counted> {
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    counts.truncate(told);
    let share = |count: usize| if of == 0 { 0.0 } else { count as f64 / of as f64 };
    counts.into_iter().map(|(value, count)| Counted { value, count, share: share(count) }).collect()
}

/// The names of a path, cut: they come from outside, and a long one stands above every field below it.
fn names(path: &[&str]) -> Vec<String> {
    let (mut names, mut left) = (Vec::new(), VALUE);
    for name in path {
        let Some((at, _)) = name.char_indices().nth(left) else {
            left = left.saturating_sub(name.chars().count() + 1);
            names.push((*name).to_owned());
            continue;
        };
        names.push(format!("{}…", &name[..at]));
        break;
    }
    names
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(VALUE) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_with_the_share_of_letters_that_have_a_value() {
        let letters: [Looked<'_>; 4] = [
            (Some(b"C-1"), br#"{"country":"IN","order":{"id":1},"tags":["a","a"]}"#),
            (Some(b"C-1"), br#"{"country":"IN","order":{"id":2}}"#),
            (Some(b"C-2"), br#"{"country":"DE","order":{"id":3}}"#),
            (None, b"no document"),
        ];
        let sample = break_down(letters);
        assert_eq!((sample.letters, sample.documents, sample.distinct_keys), (4, 3, 2));
        assert_eq!((sample.keys[0].value.as_str(), sample.keys[0].count), ("C-1", 2));
        let country = &sample.fields[0];
        assert_eq!((country.path.as_str(), country.count, country.distinct), ("country", 3, 2));
        assert_eq!((country.values[0].value.as_str(), country.values[0].count), ("IN", 2));
        let tags = sample.fields.iter().find(|field| field.path == "tags").unwrap();
        assert_eq!((tags.count, tags.values[0].count), (1, 1));
    }

    #[test]
    fn a_name_with_a_dot_in_it_is_not_a_field_within_a_field() {
        let letters: [Looked<'_>; 2] = [(None, br#"{"a.b":1}"#), (None, br#"{"a":{"b":1}}"#)];
        let sample = break_down(letters);
        let mut names: Vec<_> = sample.fields.iter().map(|field| field.names.clone()).collect();
        names.sort();
        assert_eq!(names, [vec!["a".to_string(), "b".to_string()], vec!["a.b".to_string()]]);
    }

    #[test]
    fn a_sample_of_anything_is_bounded() {
        let many = |count: usize, of: &dyn Fn(usize) -> String| {
            format!("{{{}}}", (0..count).map(of).collect::<Vec<_>>().join(","))
        };
        let long = |n: usize| format!("\"f{n}\":\"{}\"", "x".repeat(300));
        let named = format!("{{\"{}\":{}}}", "n".repeat(100_000), many(500, &|n| format!("\"f{n}\":{n}")));
        let (document, huge) = (many(700, &long), vec![b'1'; LOOKED_INTO + 1]);
        assert!(document.len() <= LOOKED_INTO && named.len() <= LOOKED_INTO);
        let sample = break_down([(None, document.as_bytes()), (None, named.as_bytes()), (None, &huge[..])]);
        assert_eq!((sample.letters, sample.documents, sample.fields.len()), (3, 2, FIELDS));
        let short = |text: &str| text.chars().count() <= VALUE + 1;
        assert!(sample.fields.iter().all(|field| short(&field.path)));
        assert!(sample.fields.iter().flat_map(|f| &f.values).all(|v| short(&v.value)));
        let cut = break_down([(None, named.as_bytes())]).fields;
        assert_eq!((cut.len(), cut[0].path.chars().count()), (1, VALUE + 1));
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_in_a_payload_is_broken_down(payload: Vec<u8>, key: Option<Vec<u8>>) {
            let sample = break_down([(key.as_deref(), &payload[..])]);
            proptest::prop_assert_eq!(sample.letters, 1);
        }
    }
}
