//! Bento, the general stream processor, from a queue into the table of the bare loops.
//!
//! It inserts a batch with one statement, which is one transaction. Batches of 500 and four in flight are its best: it
//! makes the next statement while one is written, and its statement of 1,000 rows takes it longer to make.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::runner::Round;
use crate::sink::Sink;
use crate::{go, watched};

/// It is slower than what it stands beside: a share of the letters says its rate as well.
const MOST: u64 = 30_000;
/// Twice what can be in its hands: four batches that are written, and one that is gathered.
const PREFETCH: u64 = 5_000;

/// Where it takes from.
pub(crate) struct Input {
    yaml: String,
    /// What tells a message from all others, in its language.
    origin: &'static str,
}

impl Input {
    pub(crate) fn rabbitmq(url: &str, queue: &str) -> Self {
        let yaml = format!("amqp_0_9: {{urls: [\"{url}\"], queue: \"{queue}\", prefetch_count: {PREFETCH}}}");
        // It passes on no number of a delivery: it counts them itself.
        Self { yaml, origin: "counter().string()" }
    }

    /// It acknowledges entries and cannot delete them: it does less than the others do.
    pub(crate) fn redis(url: &str, stream: &str) -> Self {
        let yaml = format!(
            "redis_streams: {{url: \"{url}\", streams: [\"{stream}\"], body_key: payload, limit: 1000, \
             client_id: one, consumer_group: bento}}"
        );
        Self { yaml, origin: "metadata(\"redis_stream\")" }
    }
}

/// The program, with an input.
pub(crate) struct Bento {
    program: PathBuf,
    input: Input,
    /// How many letters it is given.
    pub(crate) letters: u64,
}

impl Bento {
    /// Nothing where it could not be built, which was said.
    pub(crate) fn new(input: Input, letters: u64) -> Option<Self> {
        Some(Self { program: go::program("bento")?, input, letters: letters.min(MOST) })
    }

    /// Drains what its queue was filled with.
    pub(crate) fn drain(&self, scratch: &Path) -> Round {
        let place = scratch.join("bento");
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).expect("a directory");
        let (config, database) = (place.join("bento.yaml"), place.join("letters.db"));
        let sink = Sink::open(&database);
        std::fs::write(&config, self.config(&database)).expect("write the config");
        let mut command = Command::new(&self.program);
        command.arg("run").arg(&config);
        let round = watched::drain(&mut command, &place.join("log"), self.letters, || sink.newest());
        assert_eq!(sink.count(), self.letters, "Bento stored another number");
        round
    }

    fn config(&self, database: &Path) -> String {
        let Input { yaml, origin } = &self.input;
        let database = database.display();
        format!(
            r#"http: {{enabled: false}}
logger: {{level: WARN}}
input:
  {yaml}
output:
  sql_insert:
    driver: sqlite
    dsn: "file:{database}?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
    table: dead_letters
    columns: [origin, event_type, error_class, error_message, group_id, status, failed_at, payload]
    args_mapping: |
      root = [
        {origin},
        metadata("event_type"),
        metadata("error_class"),
        metadata("error_message"),
        metadata("event_type").length() * 100 + metadata("error_class").length(),
        "open",
        timestamp_unix_micro(),
        content(),
      ]
    max_in_flight: 4
    batching: {{count: 500, period: 100ms}}
"#
        )
    }
}
