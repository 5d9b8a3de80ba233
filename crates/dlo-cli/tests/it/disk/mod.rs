//! The disk of the office is full: letters are refused with the reason, everything else goes on, and all of it works again
//! when there is space.
//!
//! Every round fills a real small file system to its last byte. `DLO_DISK_ROUNDS` says how often (3 by default); the bar of the
//! project is 20.

mod asked;
mod capture;
mod volume;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::office::Office;
use asked::{Answer, WAYS, Way, get, is_not_ready, refuses, send};
use volume::Volume;

/// Letters of one request.
const BATCH: u64 = 20;
/// The office has seen by then that the disk is full, or that it is not any more.
const SEEN: Duration = Duration::from_secs(10);

fn rounds() -> u64 {
    std::env::var("DLO_DISK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// What the office answered, and how long its slowest answer took.
#[derive(Debug, Default)]
struct Sender {
    next: u64,
    /// The id that the office gave to each offset.
    stored: BTreeMap<u64, String>,
    refused: u64,
    slowest: Duration,
}

impl Sender {
    /// Sends a batch; returns the answer.
    fn send(&mut self, office: &Office, way: Way) -> Answer {
        let count = if matches!(way, Way::One) { 1 } else { BATCH };
        let first = self.next;
        self.next += count;
        let answer = send(office, way, first..first + count);
        self.slowest = self.slowest.max(answer.took);
        if answer.status == 200 {
            for (offset, result) in (first..).zip(answer.json()["results"].as_array().unwrap()) {
                assert_eq!(result["status"], "stored", "{result}");
                self.stored.insert(offset, result["id"].as_str().unwrap().to_owned());
            }
        } else {
            self.refused += count;
        }
        answer
    }

    /// Sends until the office refuses or stores, as is expected.
    #[track_caller]
    fn until(&mut self, office: &Office, status: u16) {
        let deadline = Instant::now() + SEEN;
        loop {
            let answer = self.send(office, Way::Lines);
            if answer.status == status {
                return;
            }
            assert!(Instant::now() < deadline, "{status} is expected: {answer:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything that people read is there, the letters that were answered as stored among it.
    #[track_caller]
    fn reads(&self, office: &Office) {
        let (_, id) = self.stored.last_key_value().unwrap();
        let paths = [
            "/",
            "/letters",
            "/groups",
            "/audit",
            "/api/v1/letters",
            "/api/v1/stats",
            "/api/v1/audit",
            "/metrics",
        ];
        let of_one = [
            "/letters/{id}",
            "/api/v1/letters/{id}",
            "/api/v1/letters/{id}/payload",
            "/api/v1/letters/{id}/timeline",
        ];
        let searches = ["/api/v1/letters?q=class%3AKeyError", "/api/v1/letters?q=payload.order%3A3"];
        let paths = paths.into_iter().chain(searches).map(str::to_owned);
        for path in paths.chain(of_one.map(|path| path.replace("{id}", id))) {
            let answer = get(office, &path);
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        }
        let export = get(office, "/api/v1/letters/export");
        assert_eq!(export.status, 200, "{export:?}");
        for id in self.stored.values() {
            assert!(export.body.contains(id), "{id} is not in the export");
        }
    }
}

/// Fills, looks, frees, looks. Every second office is stopped or killed on the full disk and starts again there.
fn one_round(volume: &mut Volume, mut office: Office, sender: &mut Sender, round: u64) -> Office {
    sender.until(&office, 200);
    let filled = volume.fill();
    sender.until(&office, 507);
    is_not_ready(&office);
    for way in WAYS {
        let offset = sender.next;
        sender.slowest = sender.slowest.max(refuses(&office, way, offset));
    }
    sender.reads(&office);
    // Others take what the office gave away.
    volume.fill();
    sender.reads(&office);
    if round % 2 == 1 {
        if round % 4 == 1 {
            office.kill();
        } else {
            office.end();
        }
        volume.fill();
        office = volume.office(None);
        is_not_ready(&office);
        refuses(&office, Way::Array, sender.next);
        sender.reads(&office);
    }
    volume.free();
    let freed = Instant::now();
    sender.until(&office, 200);
    println!("round {round}: {filled} bytes filled it, letters again after {:?}", freed.elapsed());
    assert_eq!(get(&office, "/readyz").status, 200);
    sender.reads(&office);
    office
}

/// Every letter that is there, by offset.
fn kept(office: &Office) -> BTreeMap<u64, Vec<String>> {
    let mut kept: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let export = get(office, "/api/v1/letters/export").body;
    for line in export.lines() {
        let letter: Value = serde_json::from_str(line).unwrap();
        if let Some(offset) = letter["offset"].as_u64() {
            kept.entry(offset).or_default().push(letter["id"].as_str().unwrap().to_owned());
        }
    }
    kept
}

fn endures(mut volume: Volume) {
    let mut office = volume.office(None);
    let mut sender = Sender::default();
    for round in 0..rounds() {
        office = one_round(&mut volume, office, &mut sender, round);
    }
    let kept = kept(&office);
    for (offset, id) in &sender.stored {
        assert_eq!(kept.get(offset), Some(&vec![id.clone()]), "offset {offset}");
    }
    assert_eq!(kept.len(), sender.stored.len(), "a letter that was refused is there");
    office.dlo(&["audit", "verify"]).ok();
    println!(
        "{} rounds, {} letters stored, {} refused, none lost or doubled, slowest answer {:?}",
        rounds(),
        sender.stored.len(),
        sender.refused,
        sender.slowest
    );
}

#[test]
fn a_full_disk_refuses_letters_and_nothing_else() {
    endures(Volume::tmpfs(64));
}

#[test]
fn a_full_ext4_refuses_letters_and_nothing_else() {
    endures(Volume::ext4(64));
}
