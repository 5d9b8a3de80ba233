//! The office is killed at random instants while letters come in. What it answered as stored is there; nothing is there twice.
//!
//! `DLO_KILL_ROUNDS` says how often (8 by default); the bar of the project is 100.

mod plan;
mod restore;
mod sidecar;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;
use serde_json::{Value, json};

use crate::office::Office;

/// Letters of one request.
const BATCH: u64 = 40;
/// Senders at once.
const SENDERS: u64 = 3;

/// What the office said of each offset: the id it gave.
type Answered = BTreeMap<u64, String>;

fn rounds() -> u64 {
    std::env::var("DLO_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Sends batches until the office is gone; every second one as NDJSON. Returns what was answered.
fn send(address: &str, next: &AtomicU64) -> Answered {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(30))).build().into();
    let mut answered = Answered::new();
    for turn in 0_u64.. {
        let first = next.fetch_add(BATCH, Ordering::Relaxed);
        let letters: Vec<Value> = (first..first + BATCH).map(letter).collect();
        let (kind, body) = if turn % 2 == 0 {
            ("application/x-ndjson", letters.iter().map(|letter| format!("{letter}\n")).collect::<String>())
        } else {
            ("application/json", Value::Array(letters).to_string())
        };
        let request = agent
            .post(format!("{address}/api/v1/letters"))
            .header("content-type", kind)
            .header("accept", "application/json");
        let Ok(mut answer) = request.send(body) else { return answered };
        // An answer that broke off is no answer: only what was read whole counts.
        let Ok(answer) = answer.body_mut().read_json::<Value>() else { return answered };
        for (offset, result) in (first..).zip(answer["results"].as_array().unwrap()) {
            assert_eq!(result["status"], "stored", "{result}");
            answered.insert(offset, result["id"].as_str().unwrap().to_string());
        }
    }
    answered
}

fn letter(offset: u64) -> Value {
    json!({
        "source": format!("source-{}", offset % 3), "queue": "orders", "partition": 0, "offset": offset,
        "payload": {"order": offset}, "error_class": "KeyError", "error_message": format!("pin {offset} not found"),
    })
}

/// One life of the office: it is killed after a random while, in the middle of whatever it does.
fn one_round(data: &Path, next: &AtomicU64, answered: &mut Answered) {
    let office = Office::at(data, &[]);
    let address = office.address.clone();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(|| send(&address, next))).collect();
        let wait = rand::rng().random_range(0..400);
        std::thread::sleep(Duration::from_millis(wait));
        office.kill();
        for sender in senders {
            answered.extend(sender.join().unwrap());
        }
    });
}

/// Every letter that is there, by offset.
fn kept(office: &Office) -> BTreeMap<u64, Vec<String>> {
    let mut kept: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut cursor = Vec::new();
    loop {
        let args = [
            &["letters", "list", "--json", "--limit", "50000"][..],
            &cursor.iter().map(String::as_str).collect::<Vec<_>>(),
        ];
        let listed = office.dlo(&args.concat()).json();
        for letter in listed["letters"].as_array().unwrap() {
            let id = letter["id"].as_str().unwrap().to_string();
            kept.entry(letter["offset"].as_u64().unwrap()).or_default().push(id);
        }
        let Some(next) = listed["next_cursor"].as_str() else { return kept };
        cursor = vec!["--cursor".to_string(), next.to_string()];
    }
}

#[test]
fn what_was_answered_as_stored_survives_sigkill_at_any_instant_and_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (next, mut answered) = (AtomicU64::new(0), Answered::new());
    let begun = Instant::now();
    for _ in 0..rounds() {
        one_round(&data, &next, &mut answered);
    }
    let office = Office::at(&data, &[]);
    let kept = kept(&office);
    assert!(!answered.is_empty(), "nothing was stored before the kills");
    for (offset, id) in &answered {
        assert_eq!(kept.get(offset), Some(&vec![id.clone()]), "offset {offset}");
    }
    for (offset, ids) in &kept {
        assert_eq!(ids.len(), 1, "offset {offset} is there {} times", ids.len());
    }
    let ids: BTreeSet<&String> = kept.values().flatten().collect();
    assert_eq!(ids.len(), kept.len(), "an id was given twice");
    // Sent again, each is recognised.
    let again = office.post(&Value::Array(answered.keys().take(100).map(|offset| letter(*offset)).collect()));
    assert_eq!(again["duplicate"], answered.len().min(100), "{again}");
    office.dlo(&["audit", "verify"]).ok();
    println!(
        "{} rounds, {} letters answered, {} kept, {:?}",
        rounds(),
        answered.len(),
        kept.len(),
        begun.elapsed()
    );
}
