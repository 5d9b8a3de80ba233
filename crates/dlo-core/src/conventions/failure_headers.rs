//! Which header names tell of a failure, found by their first byte.
//!
//! A replay asks this of every header that it sends, so a header of a business costs one look-up, as in `scan.rs`.

use std::sync::LazyLock;

use super::catalogue::{ALL, Mark};
use super::mapper;
use crate::message::{Headers, transport_fact};

/// Conventions with plain names, such as `ErrorCode` and `failed-at`: one of them alone proves nothing.
const PLAIN: [&str; 7] =
    ["brighter", "karafka.pro", "lambda.async", "pulsar", "rocketmq", "silverback", "wolverine"];

/// Marks of header names by their first byte in lower case, each with a number of its convention.
type ByFirstByte = [Vec<(usize, Mark)>; 256];

/// Of conventions whose names no application uses.
static CERTAIN: LazyLock<ByFirstByte> =
    LazyLock::new(|| by_first_byte(ALL.iter().filter(|one| !PLAIN.contains(&one.id)).map(|one| one.strip)));

/// Of conventions with plain names, numbered as in [`PLAIN_MARKS`].
static PLAIN_NAMES: LazyLock<ByFirstByte> = LazyLock::new(|| by_first_byte(PLAIN_MARKS.iter().copied()));

static PLAIN_MARKS: LazyLock<Vec<&'static [Mark]>> =
    LazyLock::new(|| ALL.iter().filter(|one| PLAIN.contains(&one.id)).map(|one| one.strip).collect());

fn by_first_byte(conventions: impl Iterator<Item = &'static [Mark]>) -> ByFirstByte {
    let mut table = [const { Vec::new() }; 256];
    for (number, marks) in conventions.enumerate() {
        for mark in marks {
            if let Mark::Name(text) | Mark::Prefix(text) = mark
                && let Some(first) = text.bytes().next()
            {
                table[usize::from(first.to_ascii_lowercase())].push((number, *mark));
            }
        }
    }
    table
}

/// The numbers of the conventions that have this name.
fn conventions_of<'t>(table: &'t ByFirstByte, name: &'t str) -> impl Iterator<Item = usize> + 't {
    let first = name.bytes().next().map_or(0, |first| usize::from(first.to_ascii_lowercase()));
    table[first].iter().filter(move |(_, mark)| mark.is(name, false)).map(|(number, _)| *number)
}

/// Whether a header of that name tells of a failure, in any convention whose names no application uses: what a replay
/// takes off.
pub fn tells_of_a_failure(name: &str) -> bool {
    let bare = bare(name);
    conventions_of(&CERTAIN, bare).next().is_some() || mapper::tells_of_a_failure(bare)
}

/// Conventions with plain names, if the message has at least two of their headers. All headers of these are taken off.
#[derive(Debug)]
pub(crate) struct PlainStories(Vec<&'static [Mark]>);

impl PlainStories {
    pub(crate) fn of(headers: &Headers) -> Self {
        let mut counts = [0; PLAIN.len()];
        for header in headers.iter() {
            let mut seen = [false; PLAIN.len()];
            conventions_of(&PLAIN_NAMES, bare(&header.name)).for_each(|number| seen[number] = true);
            counts.iter_mut().zip(seen).for_each(|(count, seen)| *count += usize::from(seen));
        }
        let told = PLAIN_MARKS.iter().zip(counts).filter(|(_, count)| *count >= 2);
        Self(told.map(|(marks, _)| *marks).collect())
    }

    pub(crate) fn have(&self, name: &str) -> bool {
        self.0.iter().flat_map(|marks| marks.iter()).any(|mark| mark.is(bare(name), false))
    }
}

/// A header's name as a convention writes it, without what an adapter puts in front.
fn bare(name: &str) -> &str {
    let bare = transport_fact(name).unwrap_or(name);
    bare.strip_prefix("annotation:").unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_every_convention_is_found_in_any_case() {
        for convention in ALL {
            for mark in convention.strip {
                let (Mark::Name(name) | Mark::Prefix(name)) = mark else { continue };
                for name in [(*name).to_owned(), name.to_uppercase(), format!("amqp1:annotation:{name}")] {
                    let mut headers = Headers::new();
                    [&name, &name].into_iter().for_each(|name| headers.push_text(name, "1"));
                    let found = match PLAIN.contains(&convention.id) {
                        true => PlainStories::of(&headers).have(&name),
                        false => tells_of_a_failure(&name),
                    };
                    assert!(found, "{name}");
                }
            }
        }
        let mut headers = Headers::new();
        ["tenant", "tenant", "", ""].into_iter().for_each(|name| headers.push_text(name, "1"));
        let stories = PlainStories::of(&headers);
        for name in ["tenant", ""] {
            assert!(!tells_of_a_failure(name) && !stories.have(name), "{name}");
        }
    }

    #[test]
    fn one_header_of_a_plain_convention_proves_nothing() {
        for marks in PLAIN_MARKS.iter() {
            let Some(Mark::Name(name) | Mark::Prefix(name)) = marks.first() else { continue };
            let mut headers = Headers::new();
            headers.push_text(*name, "1");
            assert!(!PlainStories::of(&headers).have(name), "{name}");
        }
    }
}
