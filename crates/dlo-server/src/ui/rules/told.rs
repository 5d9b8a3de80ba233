//! Rules in words, and as the text that a trial begins with.

use dlo_core::automation::Action;
use dlo_core::redact::RedactRules;
use serde::Serialize;

/// What a trial shows where the config has no rule yet.
pub(super) const CLASSIFY: &str = r#"[{"when": {"class": "KeyError"}, "verdict": "dead_letter"}]"#;
pub(super) const OWNERS: &str = r#"[{"when": {"source": "orders"}, "owner": "payments"}]"#;
pub(super) const AUTOMATION: &str =
    r#"[{"name": "old telemetry", "query": "source:telemetry age:>7d", "action": "discard"}]"#;

/// Every field of a condition that is given, as `class = KeyError`.
pub(super) fn condition(when: &impl Serialize) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(when) else { return String::new() };
    let one = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(all) => {
            let texts = all.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_string));
            texts.collect::<Vec<_>>().join(" or ")
        }
        other => other.to_string(),
    };
    let all = fields.iter().map(|(name, value)| format!("{} is {}", name.replace('_', " "), one(value)));
    all.collect::<Vec<_>>().join(", and ")
}

/// Rules as JSON for a person who edits them; what is ours always becomes JSON.
pub(super) fn json(rules: &impl Serialize) -> String {
    serde_json::to_string_pretty(rules).unwrap_or_default()
}

/// The rules in force, or an example.
pub(super) fn sample<T: Serialize>(rules: &[T], example: &str) -> String {
    if rules.is_empty() { example.to_string() } else { json(&rules) }
}

pub(super) fn action(action: &Action) -> String {
    match action {
        Action::Hold => "held for a person, whatever later rules say".to_string(),
        Action::Discard => "discarded".to_string(),
        Action::Archive => "archived".to_string(),
        Action::Route(queue) => format!("sent to the queue {queue}"),
        Action::Replay(schedule) => {
            let health = match &schedule.health {
                Some(url) => format!(", when {url} answers"),
                None => String::new(),
            };
            format!(
                "replayed after {}, then each time {} as long up to {}, {} times at most{health}",
                schedule.after, schedule.factor, schedule.cap, schedule.times
            )
        }
    }
}

/// What is hidden, by kind.
pub(super) fn redaction(rules: &RedactRules) -> Vec<(&'static str, Vec<String>)> {
    let detect = rules.detect.iter().map(|detector| json(detector).trim_matches('"').to_string()).collect();
    let all = [
        ("Fields of JSON payloads", rules.fields.clone()),
        ("Headers", rules.headers.clone()),
        ("Patterns in any text", rules.patterns.clone()),
        ("Known kinds of secrets", detect),
    ];
    all.into_iter().filter(|(_, rules)| !rules.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_reads_as_words() {
        let when: dlo_core::classify::When =
            serde_json::from_str(r#"{"class":["KeyError","IndexError"],"http_status":404}"#).unwrap();
        assert_eq!(condition(&when), "class is KeyError or IndexError, and http status is 404");
    }
}
