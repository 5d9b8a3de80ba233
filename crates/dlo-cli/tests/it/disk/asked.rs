//! What the office answers on a full disk, with the time that each answer took.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::office::Office;

/// The longest that ingest may take to say that the disk is full.
const SOON: Duration = Duration::from_secs(1);
/// Bytes of the largest answer, an export of all letters.
const LARGEST: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) retry_after: Option<u32>,
    pub(super) body: String,
    pub(super) took: Duration,
}

impl Answer {
    fn new(begun: Instant, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Self {
        let mut answer = answer.unwrap();
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (kind, retry_after) = (header("content-type").unwrap_or_default(), header("retry-after"));
        let body = answer.body_mut().with_config().limit(LARGEST).read_to_string().unwrap();
        Self {
            status: answer.status().as_u16(),
            kind,
            retry_after: retry_after.map(|text| text.parse().unwrap()),
            body,
            took: begun.elapsed(),
        }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|bad| panic!("{bad}: {self:?}"))
    }

    /// A problem that names the file system by its role, and no path.
    #[track_caller]
    fn names_the_disk(&self, office: &Office) {
        assert_eq!(self.kind, "application/problem+json", "{self:?}");
        assert!(self.retry_after.is_some_and(|seconds| seconds > 0), "{self:?}");
        assert!(self.body.contains("the file system of the data directory is full"), "{self:?}");
        assert!(!self.body.contains(office.data.to_str().unwrap()), "{self:?}");
        assert!(!self.body.contains("/tmp"), "{self:?}");
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(Duration::from_secs(60))).build().into()
}

pub(super) fn get(office: &Office, path: &str) -> Answer {
    let begun = Instant::now();
    Answer::new(begun, agent().get(format!("{}{path}", office.address)).call())
}

/// The three ways of sending letters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    One,
    Array,
    Lines,
}

pub(super) const WAYS: [Way; 3] = [Way::One, Way::Array, Way::Lines];

/// A letter with a payload of about two kilobytes that does not compress.
fn letter(offset: u64) -> Value {
    let noise: String = (0..120).map(|_| format!("{:016x}", rand::random::<u64>())).collect();
    json!({
        "source": "orders", "queue": "orders", "partition": 0, "offset": offset, "error_class": "KeyError",
        "error_message": format!("pin {offset} not found"), "payload": {"order": offset, "noise": noise},
    })
}

/// Sends letters with these offsets.
pub(super) fn send(office: &Office, way: Way, offsets: std::ops::Range<u64>) -> Answer {
    let letters: Vec<Value> = offsets.map(letter).collect();
    let (kind, body) = match way {
        Way::One => ("application/json", letters[0].to_string()),
        Way::Array => ("application/json", Value::Array(letters).to_string()),
        Way::Lines => {
            ("application/x-ndjson", letters.iter().map(|letter| format!("{letter}\n")).collect::<String>())
        }
    };
    let request = agent().post(format!("{}/api/v1/letters", office.address));
    let begun = Instant::now();
    Answer::new(begun, request.header("content-type", kind).send(body))
}

/// Ingest refuses as it should on a full disk; how long it took.
#[track_caller]
pub(super) fn refuses(office: &Office, way: Way, offset: u64) -> Duration {
    let answer = send(office, way, offset..offset + 5);
    assert_eq!(answer.status, 507, "{way:?}: {answer:?}");
    assert_eq!(answer.json()["code"], "disk_full", "{answer:?}");
    assert!(answer.took < SOON, "{way:?}: {answer:?}");
    answer.names_the_disk(office);
    answer.took
}

/// Probes hear why the office takes no letters.
#[track_caller]
pub(super) fn is_not_ready(office: &Office) {
    let answer = get(office, "/readyz");
    assert_eq!(answer.status, 503, "{answer:?}");
    answer.names_the_disk(office);
}
