//! The pace of a loop in Python that publishes to Redis and sleeps until the next message is due: what people write who need
//! a rate. It has no store to read from and records nothing. Seen from the queue, as ours is.

use crate::arrivals::{Watch, beyond, error_of_mean};
use crate::place::{Place, QUEUE};
use crate::record::Parts;
use crate::{Asked, interpreter, peer};

/// It need not be watched for as long: it does the same all the time.
const SECONDS: u64 = 10;

/// What is taken at each rate; the worst counts.
pub(crate) struct Sleeper {
    there: bool,
    mean: Parts<'static>,
    burst: Parts<'static>,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        let mean = Parts::new("rate.sleeper-mean", "%");
        Self { there: interpreter::has("redis"), mean, burst: Parts::new("rate.sleeper-burst", "messages") }
    }

    /// On the server at `url`, which is that of `place`.
    pub(crate) async fn one(&mut self, asked: Asked<'_>, place: &Place, url: &str, rate: u64) {
        if !self.there {
            return;
        }
        let count = rate * asked.seconds.min(SECONDS);
        let watch = Watch::begin("redis", place).await;
        tokio::task::block_in_place(|| peer::run("sleeper.py", &[url, QUEUE, &rate.to_string()], count));
        let arrivals = watch.end().await;
        assert_eq!(arrivals.len() as u64, count, "a sleeper at {rate}/s: arrived, and sent");
        let at = |what: &str| format!("a sleeper in Python on Redis at {rate}/s: {what}");
        self.mean.part(&at("error of the mean"), error_of_mean(&arrivals, rate));
        self.burst.part(&at("fullest 100 ms beyond the rate"), beyond(&arrivals, rate));
    }

    pub(crate) fn worst(self) {
        self.mean.worst();
        self.burst.worst();
    }
}
