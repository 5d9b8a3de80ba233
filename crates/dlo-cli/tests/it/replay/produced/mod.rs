//! What is replayed is what was produced: clients of other teams produce, fail, park and read on real brokers.
//!
//! Each test compares the message that a reader gets after a replay with the one that was produced, part by part. Only
//! the documented marks of a replay may be added.

mod kafka;
mod rabbitmq;
mod redis;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::office::{Office, dlo};

const PATIENCE: Duration = Duration::from_secs(60);
/// What a replay adds, by its documentation.
const MARKS: [&str; 3] = ["x-replayed-from-dlq", "dlo-replay-id", "dlo-replay-count"];

/// An office that captures one dead-letter queue.
struct Desk {
    office: Office,
    _directory: tempfile::TempDir,
}

impl Desk {
    /// `broker` and `source` are lines of the config; `replay` are further keys of the source's replay settings.
    fn open(broker: &str, queue: &str, dlq: &str, replay: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("dlo.toml");
        let text = format!(
            "[brokers.shop]\n{broker}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{queue}\"\ndlq = \"{dlq}\"\n\
             replay = {{ canary = 0, window = \"1s\", ramp = 1, limit = 9{replay} }}\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = dlo();
        command.arg("--config").arg(&config).args(["serve", "--listen", "127.0.0.1:0"]);
        command.current_dir(directory.path());
        let office = Office::spawn(command, &directory.path().join("data"));
        Self { office, _directory: directory }
    }

    fn until(&self, what: &str, fact: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !fact() {
            let letters = self.office.get("/api/v1/letters");
            let replays = self.office.get("/api/v1/replays?limit=3");
            assert!(Instant::now() < deadline, "it did not happen that {what}: {letters:#} {replays:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn until_open(&self, wanted: u64) {
        let open = || self.office.get("/api/v1/stats")["letters"]["open"].as_u64();
        self.until(&format!("{wanted} letters are open"), || open() == Some(wanted));
    }

    /// Plans a replay of every open letter. What the command prints, and the plan.
    fn plan(&self) -> (String, Value) {
        let said = self.office.dlo(&["replay", "plan", "status:open", "--reason", "fixed"]).ok();
        let replays = self.office.get("/api/v1/replays?limit=1");
        let id = replays["replays"][0]["id"].as_str().unwrap();
        (said, self.office.get(&format!("/api/v1/replays/{id}")))
    }

    /// Sends every open letter of `count` and returns when the broker has them.
    fn replay(&self, count: u64) -> Value {
        self.until_open(count);
        let (_, plan) = self.plan();
        self.send(&plan)
    }

    fn send(&self, plan: &Value) -> Value {
        let id = plan["id"].as_str().unwrap();
        self.office.dlo(&["replay", "start", id, "--yes"]).ok();
        let replay = || self.office.get(&format!("/api/v1/replays/{id}"));
        self.until("every letter is sent or refused", || {
            let replay = replay();
            let number = |key: &str| replay[key].as_u64().unwrap_or(0);
            number("sent") + number("refused") == number("total")
        });
        replay()
    }
}

/// A name that no other test uses.
fn named(name: &str) -> String {
    format!("produced-{name}-{}", std::process::id())
}

/// The headers or fields without the marks of a replay, in their order. Each mark must be there once.
fn unmarked(pairs: &Value) -> Vec<(String, Value)> {
    let pairs: Vec<(String, Value)> = match pairs {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        Value::Array(list) => {
            list.iter().map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone())).collect()
        }
        other => panic!("no pairs: {other}"),
    };
    for mark in MARKS {
        let count = pairs.iter().filter(|(name, _)| name == mark).count();
        assert_eq!(count, 1, "the mark {mark} in {pairs:?}");
    }
    pairs.into_iter().filter(|(name, _)| !MARKS.contains(&name.as_str())).collect()
}
