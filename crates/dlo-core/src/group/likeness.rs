//! Why letters are one group, and which other groups are like it.
//!
//! Likeness is for people who look: it never merges anything by itself. Bounded: a template is short, and only so many
//! groups are compared and named.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Group;
use crate::id::GroupId;
use crate::words;

/// One part of a fingerprint, as the group has it, or the condition by which it was split off. All letters of a group have
/// all of them in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part<'g> {
    pub name: &'static str,
    /// `None`: the letters do not say.
    pub value: Option<&'g str>,
}

/// A group that is like another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Similar {
    pub id: GroupId,
    /// 0 to 1.
    pub likeness: f64,
    /// What they share, in words: `same class`, `same words`.
    pub because: Vec<&'static str>,
}

/// Groups named at most.
const NAMED: usize = 10;
/// Less than this is chance.
const ENOUGH: f64 = 0.5;

/// Which parts made the fingerprint. An overflow group was made by its source alone.
pub fn why(group: &Group) -> Vec<Part<'_>> {
    let source = Part { name: "source", value: Some(&group.source) };
    if group.overflow {
        return vec![source];
    }
    let mut parts = vec![
        source,
        Part { name: "queue", value: Some(&group.queue) },
        Part { name: "consumer", value: group.consumer.as_deref() },
        Part { name: "event_type", value: group.event_type.as_deref() },
        Part { name: "error_class", value: group.error_class.as_deref() },
        Part { name: "template", value: Some(&group.template) },
    ];
    parts.extend(group.split.as_ref().map(|split| Part { name: "where", value: Some(&split.condition) }));
    parts
}

/// The groups most like this one: their templates share words, or the same class of error happened elsewhere.
pub fn similar<'g>(group: &Group, others: impl IntoIterator<Item = &'g Group>) -> Vec<Similar> {
    let mine = tokens(&group.template);
    let candidates = others.into_iter().filter(|other| other.id != group.id && !other.overflow);
    let mut found: Vec<Similar> = candidates.filter_map(|other| liken(group, &mine, other)).collect();
    found.sort_by(|one, other| other.likeness.total_cmp(&one.likeness).then(one.id.cmp(&other.id)));
    found.truncate(NAMED);
    found
}

fn liken(group: &Group, mine: &BTreeSet<String>, other: &Group) -> Option<Similar> {
    if group.overflow {
        return None;
    }
    let overlap = overlap(mine, &tokens(&other.template));
    let same_class = group.error_class.is_some() && group.error_class == other.error_class;
    let same_consumer = group.consumer.is_some() && group.consumer == other.consumer;
    // Words speak loudest; a class is often as common as `Error`, so it needs a little company.
    let likeness = 0.6 * overlap + if same_class { 0.3 } else { 0.0 } + if same_consumer { 0.1 } else { 0.0 };
    let facts =
        [(same_class, "same class"), (overlap >= ENOUGH, "same words"), (same_consumer, "same consumer")];
    let because = facts.iter().filter(|(holds, _)| *holds).map(|(_, fact)| *fact).collect();
    let elsewhere = same_class && (mine.is_empty() || overlap > 0.0);
    (likeness >= ENOUGH || elsewhere).then_some(Similar { id: other.id, likeness, because })
}

/// Shared words as a share of all words of both.
fn overlap(mine: &BTreeSet<String>, theirs: &BTreeSet<String>) -> f64 {
    let all = mine.union(theirs).count();
    if all == 0 { 0.0 } else { mine.intersection(theirs).count() as f64 / all as f64 }
}

fn tokens(template: &str) -> BTreeSet<String> {
    words::fold(template).split(' ').filter(|word| word.len() > 1).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::group;
    use super::*;

    fn of(number: u128, class: &str, template: &str) -> Group {
        Group {
            error_class: Some(class.into()),
            template: template.into(),
            consumer: Some("pricing".into()),
            ..group("orders", number)
        }
    }

    #[test]
    fn groups_whose_words_overlap_come_before_those_with_the_same_class_only() {
        let asked = of(1, "KeyError", "pin <n> not in tax table");
        let others = [
            of(2, "Timeout", "call to stock service took too long"),
            of(3, "KeyError", "customer not found"),
            of(4, "LookupError", "pin <n> not in old tax table"),
            of(5, "KeyError", "pin <n> not in tax table of state"),
        ];
        let found = similar(&asked, &others);
        let ids: Vec<u128> = found.iter().map(|similar| similar.id.0.as_u128()).collect();
        assert_eq!(ids, [5, 4, 3]);
        assert_eq!(found[0].because, ["same class", "same words", "same consumer"]);
        assert!(found.iter().all(|similar| (0.0..=1.0).contains(&similar.likeness)), "{found:?}");
    }

    #[test]
    fn a_group_is_not_similar_to_itself_and_an_overflow_group_to_none() {
        let asked = of(1, "KeyError", "pin <n> not in tax table");
        let overflow = Group { overflow: true, ..of(2, "KeyError", "pin <n> not in tax table") };
        assert_eq!(similar(&asked, [&asked, &overflow]), []);
        assert_eq!(similar(&overflow, [&asked]), []);
    }

    #[test]
    fn why_names_every_part_of_the_fingerprint() {
        let asked = of(1, "KeyError", "pin <n>");
        let names: Vec<&str> = why(&asked).iter().map(|part| part.name).collect();
        assert_eq!(names, ["source", "queue", "consumer", "event_type", "error_class", "template"]);
        assert_eq!(why(&Group { overflow: true, ..asked }).len(), 1);
    }
}
