//! An owners file, in the manner of CODEOWNERS: a pattern and a team on each line, and the last line that fits wins.
//!
//! ```text
//! # pattern                  team
//! *                          platform
//! orders*                    payments
//! type:invoice.*             billing
//! orders consumer:mail*      crm
//! ```
//!
//! A bare pattern is held against the source and the queue, as a path is in CODEOWNERS, or against the one of them that the
//! line does not name; `source:`, `queue:`, `type:`, `consumer:` and `class:` say which word is meant, and several patterns
//! on a line must all fit. `#` begins a comment, an
//! `@` before the team is left out.

use super::{OwnerRule, OwnerWhen, Owners};
use crate::limits;
use crate::pattern::{OneOrMany, RULES};

/// Bytes of a file.
pub const LARGEST: usize = 1024 * 1024;

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct BadLine {
    pub line: usize,
    pub problem: String,
}

/// The rules of a file, in the order in which rules are asked: the last line first. Everything that is wrong is told.
pub fn read(text: &str) -> Result<Vec<OwnerRule>, Vec<BadLine>> {
    let mut rules = Vec::new();
    let mut bad = Vec::new();
    if text.len() > LARGEST {
        let problem = format!("an owners file has at most {LARGEST} bytes, this one has {}", text.len());
        return Err(vec![BadLine { line: 1, problem }]);
    }
    for (line, written) in (1..).zip(text.lines()) {
        let written = written.split('#').next().unwrap_or_default();
        let words: Vec<&str> = written.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        match of_line(&words) {
            Ok(of_line) => rules.extend(of_line),
            Err(problem) => bad.push(BadLine { line, problem }),
        }
    }
    if rules.len() > RULES {
        let problem = format!("a file makes at most {RULES} rules, this one makes {}", rules.len());
        bad.push(BadLine { line: text.lines().count(), problem });
    }
    rules.reverse();
    if bad.is_empty() { Ok(rules) } else { Err(bad) }
}

/// A bare pattern makes two rules, one for the source and one for the queue; one rule where the line names one of them.
fn of_line(words: &[&str]) -> Result<Vec<OwnerRule>, String> {
    let [patterns @ .., team] = words else { return Err("expected a pattern and a team".into()) };
    let team = team.trim_start_matches('@');
    if patterns.is_empty() || team.is_empty() {
        return Err(format!("expected a pattern and a team, found `{}`", cut(&words.join(" "))));
    }
    if team.contains(':') || team.contains('*') {
        return Err(format!("expected a team at the end of the line, found the pattern `{}`", cut(team)));
    }
    let mut when = OwnerWhen::default();
    let mut bare = None;
    for pattern in patterns.iter().copied() {
        let (field, value) = pattern.split_once(':').unwrap_or(("", pattern));
        let slot = match field {
            "source" => &mut when.source,
            "queue" => &mut when.queue,
            "type" => &mut when.event_type,
            "consumer" => &mut when.consumer,
            "class" => &mut when.class,
            "" => &mut bare,
            other => {
                return Err(format!(
                    "unknown field `{}`, expected one of source, queue, type, consumer, class",
                    cut(other)
                ));
            }
        };
        if slot.replace(OneOrMany::from(value)).is_some() {
            let which = if field.is_empty() { "a bare pattern" } else { field };
            return Err(format!("{which} stands twice on the line"));
        }
    }
    let rule = |when: OwnerWhen| OwnerRule { when, owner: team.to_string() };
    let rules = match bare {
        None => vec![rule(when)],
        Some(name) => {
            let by_queue = || OwnerWhen { queue: Some(name.clone()), ..when.clone() };
            let by_source = || OwnerWhen { source: Some(name.clone()), ..when.clone() };
            match (&when.source, &when.queue) {
                (None, None) => vec![rule(by_queue()), rule(by_source())],
                (None, Some(_)) => vec![rule(by_source())],
                (Some(_), None) => vec![rule(by_queue())],
                (Some(_), Some(_)) => {
                    return Err("a bare pattern means the source or the queue, and the line names both; \
                                expected no bare pattern here"
                        .into());
                }
            }
        }
    };
    Owners::compile(rules.clone()).map_err(|bad| bad.problem)?;
    Ok(rules)
}

fn cut(text: &str) -> String {
    let mut text = text.to_string();
    limits::cut(&mut text, 64);
    text
}

#[cfg(test)]
mod tests {
    use super::super::Subject;
    use super::*;

    const FILE: &str = "
# everything else
*                      @platform
orders*                payments   # the shop
type:invoice.*         billing
orders consumer:mail*  crm
class:TaxError         tax
";

    fn owner(subject: Subject<'_>) -> Option<String> {
        let owners = Owners::compile(read(FILE).unwrap()).unwrap();
        owners.owner_of(&subject).map(String::from)
    }

    #[test]
    fn the_last_line_that_fits_names_the_team() {
        let order = Subject { source: "orders.eu", queue: "q", ..Subject::default() };
        assert_eq!(owner(order).as_deref(), Some("payments"));
        assert_eq!(owner(Subject { source: "x", queue: "orders.eu", ..order }).as_deref(), Some("payments"));
        let invoice = Subject { event_type: Some("invoice.paid"), ..order };
        assert_eq!(owner(invoice).as_deref(), Some("billing"));
        let mail = Subject { source: "orders", consumer: Some("mailer"), ..invoice };
        assert_eq!(owner(mail).as_deref(), Some("crm"));
        assert_eq!(owner(Subject { class: Some("TaxError"), ..mail }).as_deref(), Some("tax"));
        assert_eq!(owner(Subject { source: "stock", ..Subject::default() }).as_deref(), Some("platform"));
    }

    #[test]
    fn a_bare_pattern_beside_a_source_or_a_queue_means_the_other_one() {
        let owner = |file: &str, source, queue| {
            let owners = Owners::compile(read(file).unwrap()).unwrap();
            owners.owner_of(&Subject { source, queue, ..Subject::default() }).map(String::from)
        };
        let crm = Some("crm".to_string());
        assert_eq!(owner("orders queue:refunds* crm", "orders", "refunds.eu"), crm);
        assert_eq!(owner("orders queue:refunds* crm", "stock", "refunds.eu"), None);
        assert_eq!(owner("refunds* source:orders crm", "orders", "refunds.eu"), crm);
        assert_eq!(owner("refunds* source:orders crm", "orders", "orders"), None);
        let told = read("x source:orders queue:refunds crm").unwrap_err()[0].to_string();
        assert!(told.starts_with("line 1: a bare pattern means the source or the queue"), "{told}");
    }

    #[test]
    fn every_line_that_cannot_be_used_is_told() {
        let bad = read("orders\ntopic:x team\n* ok\norders payments:*\na b c d\n").unwrap_err();
        let told: Vec<String> = bad.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].starts_with("line 1: expected a pattern and a team"), "{told:?}");
        assert!(told[1].starts_with("line 2: unknown field `topic`"), "{told:?}");
        assert!(told[2].starts_with("line 4: expected a team at the end"), "{told:?}");
        assert!(told[3].starts_with("line 5: a bare pattern stands twice"), "{told:?}");
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_in_a_file_is_read_or_refused(text in "\\PC{0,200}") {
            let _ = read(&text);
        }
    }
}
