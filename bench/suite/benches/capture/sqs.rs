//! W3: an SQS queue into the store, beside a boto3 script. ElasticMQ stands in for Amazon's: what it can do bounds both.
//!
//! Every runner of every round has a queue of its own: one that was drained may still hide what it had handed out.

use std::sync::Arc;

use dlo_core::broker::{Broker, TopologySpec};
use dlo_testkit::harness::sqs::Sqs;

use crate::runner::{self, Runner};
use crate::{Asked, message, office, python};

/// The server is slower than those of the others: a share of the letters says the rate as well.
const MOST: u64 = 5_000;

pub(crate) async fn run(asked: Asked<'_>) {
    let letters = asked.letters.min(MOST);
    println!("W3 capture from SQS, {letters} letters, {} rounds", asked.rounds);
    let endpoint = &Sqs::elasticmq().await.endpoint;
    let section = format!(
        "kind = \"sqs\"\nregion = \"elasticmq\"\nendpoint = \"{endpoint}\"\naccess_key_id = \"x\"\nsecret_access_key = \"x\"\nwait = \"1s\""
    );
    let broker = office::broker(&section).await;
    let source = |queue: &str, dead: &str| {
        format!(
            "[brokers.shop]\n{section}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{queue}\"\ndlq = \"{dead}\"\n"
        )
    };
    if let Some(against) = asked.against {
        let mut run = 0;
        let once = async |program: &std::path::Path| {
            run += 1;
            let (queue, dead) = filled(&broker, &format!("run-{run}"), letters).await;
            tokio::task::block_in_place(|| {
                office::drain_with(program, asked.scratch, &source(&queue, &dead), letters)
            })
        };
        return against.compare("capture from SQS", "letter", once).await;
    }
    let mut ours = Runner::new("dlo, SQS to SQLite");
    let mut batch = Runner::new("boto3, a commit a batch");
    for round in 0..=asked.rounds {
        let (queue, dead) = filled(&broker, &format!("ours-{round}"), letters).await;
        let source = source(&queue, &dead);
        let drained = tokio::task::block_in_place(|| office::drain(asked.scratch, &source, letters));
        let (_, dead) = filled(&broker, &format!("boto3-{round}"), letters).await;
        let database = asked.scratch.join(format!("sqs-{round}.db")).to_string_lossy().into_owned();
        let batched =
            tokio::task::block_in_place(|| python::drain("sqs.py", &[endpoint, &dead, &database], letters));
        if round > 0 {
            ours.did(drained);
            batch.did(batched);
        }
    }
    runner::show("W3", "SQS", &[&ours, &batch]);
    ours.against(&batch, "capture.sqs.boto3");
}

/// A queue and its dead-letter queue, which has so many letters.
async fn filled(broker: &Arc<dyn Broker>, name: &str, letters: u64) -> (String, String) {
    let (queue, dead) = (format!("orders-{name}"), format!("orders-{name}-dlq"));
    broker.topology().apply(&TopologySpec::new(&queue, &dead, 5)).await.expect("make the queues");
    message::fill(broker, &dead, letters).await;
    (queue, dead)
}
