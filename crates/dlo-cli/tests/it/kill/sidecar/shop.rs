//! A queue with its dead-letter queue, a handler, and a sidecar that is started, killed and stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, Destination, Outgoing, Settlement, TopologySpec};
use dlo_core::message::{Message, Payload};

use super::handler::Handler;
use crate::office::{Office, dlo};
use crate::stories::broker;

const GROUP: &str = "pricing";
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Shop {
    directory: tempfile::TempDir,
    broker: Arc<dyn Broker>,
    queue: String,
    dlq: String,
    pub(super) handler: Handler,
    /// Every dead letter that was found so far.
    pub(super) letters: Vec<Message>,
}

impl Shop {
    pub(super) async fn open(section: String, more: &str) -> Self {
        let broker = broker(&section).await;
        let queue = format!("killed-sidecar-{:x}", rand::random::<u64>());
        let dlq = format!("{queue}-dlq");
        let mut spec = TopologySpec::new(&queue, &dlq, 4);
        spec.group = Some(GROUP.to_owned());
        spec.retry_delays = vec![Duration::from_secs(1)];
        broker.topology().apply(&spec).await.unwrap();
        let handler = Handler::start();
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "[consume]\nlisten = \"127.0.0.1:0\"\ndata = \"state\"\n[brokers.shop]\n{section}\n\
             [[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{queue}\"\ndlq = \"{dlq}\"\n\
             [[consumers]]\nsource = \"orders\"\ngroup = \"{GROUP}\"\nhandler = \"http://127.0.0.1:{}/\"\n\
             retry = {{ attempts = 4, base = \"100ms\", cap = \"500ms\", quick = 0 }}\nbrake = \"off\"\n\
             budget = {{ share = 1.0, floor = 1000 }}\n{more}\n",
            handler.port
        );
        std::fs::write(directory.path().join("dlo.toml"), config).unwrap();
        Self { directory, broker, queue, dlq, handler, letters: Vec::new() }
    }

    pub(super) fn sidecar(&self) -> Office {
        let mut command = dlo();
        command.args(["consume", "--log-level", "warn"]).current_dir(self.directory.path());
        Office::spawn(command, self.directory.path())
    }

    pub(super) async fn publish(&self, orders: std::ops::Range<u64>) {
        let outgoing = orders.map(|order| Outgoing {
            to: Destination::queue(&self.queue),
            message: Message {
                payload: Payload::from(format!("{{\"order\":{order}}}")),
                ..Message::default()
            },
            delay: None,
        });
        for result in self.broker.publisher().publish(outgoing.collect()).await {
            result.unwrap();
        }
    }

    /// Waits until the handler was asked at least `more` times from now on. `false`: there is nothing to ask for.
    pub(super) async fn until_asked(&self, more: u64) -> bool {
        let (before, until) = (self.handler.requests(), Instant::now() + Duration::from_secs(5));
        while self.handler.requests() < before + more {
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        true
    }

    /// Waits until the handler was asked for `order` more than `asked` times. How often that is.
    pub(super) async fn until_next_request(&self, order: u64, asked: u32) -> u32 {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.handler.done().requests.get(&order).copied().unwrap_or_default();
            if now > asked {
                return now;
            }
            assert!(Instant::now() < until, "the handler was asked {now} times for order {order}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until no message of the work queue is left anywhere, and takes every letter.
    pub(super) async fn until_empty(&mut self, sidecar: &Office) {
        let until = Instant::now() + PATIENCE;
        while self.left(sidecar).await > 0 {
            assert!(Instant::now() < until, "{} messages are left", self.left(sidecar).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.take_letters().await;
    }

    /// Messages that wait, wait for their retry, or are unsettled.
    async fn left(&self, sidecar: &Office) -> u64 {
        let mut left = unsettled(sidecar);
        for queue in [self.queue.clone(), format!("{}.retry.1s", self.queue)] {
            // A broker without retry queues has none of that name.
            let Ok(state) = self.broker.inspector().inspect(&queue, Some(GROUP)).await else { continue };
            left += state.depth.unwrap_or(0) + state.in_flight.unwrap_or(0);
        }
        // A message may have moved behind our back: from the sidecar to a retry queue.
        left + unsettled(sidecar)
    }

    pub(super) async fn take_letters(&mut self) {
        let mut source = self.broker.drain(&self.dlq).await.unwrap();
        let settler = source.settler();
        loop {
            let came = source.receive(1_000, Duration::from_millis(500)).await.unwrap();
            if came.is_empty() {
                break;
            }
            self.letters.extend(came.iter().map(|one| one.message.clone()));
            settler.settle(came.into_iter().map(|one| one.settle(Settlement::Done)).collect()).await.unwrap();
        }
        source.close().await.unwrap();
    }
}

/// What the sidecar has received and not settled, by its metrics. One that does not answer has not begun.
fn unsettled(sidecar: &Office) -> u64 {
    let Ok(mut page) = ureq::get(format!("{}/metrics", sidecar.address)).call() else { return 1 };
    let page = page.body_mut().read_to_string().unwrap_or_default();
    let line = page.lines().find(|line| line.starts_with("dlo_consumer_unsettled{"));
    line.and_then(|line| line.rsplit(' ').next()).and_then(|number| number.parse().ok()).unwrap_or(1)
}
