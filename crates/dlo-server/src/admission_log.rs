//! `message.dead_lettered`: one structured line for each stored letter, after it is durable (C5).
//!
//! At tens of thousands of letters a second a line must cost little: what is known before the commit is
//! written into one buffer for the whole batch, ids are filled in afterwards, and the sink is written once.
//! No line carries payload, key, header or error text, and masking rules apply to the names.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlo_core::letter::NewLetter;
use dlo_core::redact::Redactor;
use dlo_core::time::Timestamp;
use dlo_store::Inserted;
use serde::Serialize;

/// Where the lines go, if anywhere.
pub struct AdmissionLog(Option<Mutex<Box<dyn Write + Send>>>);

impl std::fmt::Debug for AdmissionLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "AdmissionLog(on)" } else { "AdmissionLog(off)" })
    }
}

/// The lines of one batch, each without its beginning, which needs the letter's id.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    text: Vec<u8>,
    ends: Vec<usize>,
}

#[derive(Serialize)]
struct Fields<'a> {
    group_id: &'a dlo_core::id::GroupId,
    source: &'a str,
    queue: &'a str,
    consumer: Option<Cow<'a, str>>,
    event_type: Option<Cow<'a, str>>,
    error_class: Option<Cow<'a, str>>,
    reason: dlo_core::reason::Reason,
    verdict: dlo_core::verdict::VerdictKind,
    attempts: u32,
    replay_id: Option<Cow<'a, str>>,
}

/// A name as it may be shown.
fn shown<'a>(name: &'a Option<String>, rules: Option<&Redactor>) -> Option<Cow<'a, str>> {
    let name = name.as_deref()?;
    Some(rules.map_or(Cow::Borrowed(name), |rules| rules.text(name)))
}

impl AdmissionLog {
    pub fn off() -> Self {
        Self(None)
    }

    pub fn to(sink: Box<dyn Write + Send>) -> Self {
        Self(Some(Mutex::new(sink)))
    }

    /// What the lines of a batch will say, gathered before the store takes the letters.
    pub(crate) fn prepare(&self, letters: &[NewLetter], rules: Option<&Redactor>) -> Lines {
        let mut lines = Lines::default();
        if self.0.is_none() {
            return lines;
        }
        lines.text.reserve(letters.len() * 320);
        for letter in letters {
            let fields = Fields {
                group_id: &letter.fingerprint.group,
                source: &letter.source,
                queue: &letter.origin.queue,
                consumer: shown(&letter.consumer, rules),
                event_type: shown(&letter.event_type, rules),
                error_class: shown(&letter.error_class, rules),
                reason: letter.reason,
                verdict: letter.verdict,
                attempts: letter.attempts,
                replay_id: shown(&letter.replay_id, rules),
            };
            // Writing to memory; a struct of texts and numbers has no way to fail.
            if serde_json::to_writer(&mut lines.text, &fields).is_err() {
                lines.text.truncate(lines.ends.last().copied().unwrap_or(0));
            }
            lines.ends.push(lines.text.len());
        }
        lines
    }

    /// Writes the lines of the letters that are new, with the ids that they got.
    pub(crate) fn write(&self, lines: &Lines, inserted: &[Inserted], now: Timestamp) {
        let Some(sink) = &self.0 else { return };
        let mut out = Vec::with_capacity(lines.text.len() + inserted.len() * 140);
        let at = now.to_string();
        let mut begin = 0;
        for (result, &end) in inserted.iter().zip(&lines.ends) {
            // What the line says stands between the braces that `Fields` wrote.
            let fields = lines.text.get(begin + 1..end).unwrap_or_default();
            begin = end;
            let (id, again) = match result {
                Inserted::Stored(id) => (id, false),
                Inserted::DiedAgain(id) => (id, true),
                Inserted::Duplicate(_) => continue,
            };
            let head = write!(
                out,
                "{{\"event\":\"message.dead_lettered\",\"at\":\"{at}\",\"letter_id\":\"{id}\",\"died_again\":{again},"
            );
            if head.is_ok() && !fields.is_empty() {
                out.extend_from_slice(fields);
                out.push(b'\n');
            }
        }
        if let Err(error) = lock(sink).write_all(&out) {
            tracing::warn!(%error, "the admission log could not be written");
        }
    }

    pub(crate) fn flush(&self) {
        if let Some(sink) = &self.0
            && let Err(error) = lock(sink).flush()
        {
            tracing::warn!(%error, "the admission log could not be written");
        }
    }
}

/// A writer that panicked once is still a writer.
fn lock(sink: &Mutex<Box<dyn Write + Send>>) -> MutexGuard<'_, Box<dyn Write + Send>> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dlo_core::id::LetterId;

    use super::*;
    use crate::admit::tests::admitted;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_new_letter_is_one_line_without_payload_key_or_message() {
        let sink = Shared::default();
        let log = AdmissionLog::to(Box::new(sink.clone()));
        let letter = admitted(
            r#"{"source":"orders","payload":{"card":"4111"},"key":"C-441","error_class":"KeyError","error_message":"pin 560001"}"#,
        );
        let lines = log.prepare(&[letter.clone(), letter], None);
        let id = |n| LetterId::new(Timestamp::from_millis(n), [1; 10]);
        log.write(&lines, &[Inserted::Duplicate(id(1)), Inserted::Stored(id(2))], Timestamp::from_millis(5));

        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).expect("one line of JSON");
        assert_eq!(line["event"], "message.dead_lettered");
        assert_eq!(line["letter_id"], id(2).to_string());
        assert_eq!((&line["source"], &line["error_class"]), (&"orders".into(), &"KeyError".into()));
        assert_eq!(line["reason"], "processing_error");
        for secret in ["4111", "C-441", "560001"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn a_log_that_is_off_prepares_nothing() {
        let lines = AdmissionLog::off().prepare(&[admitted(r#"{"source":"orders","payload":1}"#)], None);
        assert!(lines.text.is_empty() && lines.ends.is_empty());
    }
}
