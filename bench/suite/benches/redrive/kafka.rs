//! W4 on Kafka: beside a confluent-kafka script that waits for delivery reports, commits and records nothing.

use std::path::Path;

use dlo_testkit::harness::kafka::Kafka;

use crate::done::Done;
use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::runner::{self, Round, Runner};
use crate::{Asked, dlo, message, peer};

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W4 redrive on Kafka, {} letters, {} rounds", asked.letters, asked.rounds);
    let server = Kafka::in_earnest().await;
    let bootstrap = server.bootstrap.clone();
    let place = Place::new(format!("kind = \"kafka\"\nbootstrap = \"{bootstrap}\"")).await;
    if let Some(against) = asked.against {
        let once = async |program: &Path| Round::from(&redrive(program, asked, &place).await);
        return against.compare("redrive on Kafka", "letter", once).await;
    }
    // A log is not emptied by reading it: the script reads the same records each time, in a group of its own.
    message::fill(&place.broker, DEAD, asked.letters).await;
    let mut ours = Runner::new("dlo, from its store");
    let mut script = Runner::new("confluent-kafka");
    for round in 0..=asked.rounds {
        let done = redrive(&dlo::program(), asked, &place).await;
        let after = place.ends(QUEUE).await;
        let scripted = tokio::task::block_in_place(|| {
            peer::run("redrive_kafka.py", &[&bootstrap, DEAD, QUEUE], asked.letters)
        });
        assert_eq!(place.ends(QUEUE).await, after + asked.letters, "the script moved another number");
        if round > 0 {
            ours.did(&done);
            script.did(&scripted);
        }
    }
    runner::show("W4", "Kafka", &[&ours, &script]);
    ours.against(&script, "redrive.kafka.confluent-kafka");
}

/// One replay by an office that this `dlo` runs.
async fn redrive(program: &Path, asked: Asked<'_>, place: &Place) -> Done {
    let before = place.ends(QUEUE).await;
    // A queue of its own: the office would capture the script's dead letters meanwhile.
    let office = Office::start_with(program, asked.scratch, &place.section, QUEUE, "nobody.dlq");
    let done = tokio::task::block_in_place(|| {
        office.fill(asked.letters);
        office.redrive(asked.letters)
    });
    drop(office);
    // Each transaction or fence may leave a marker in the log.
    let after = place.ends(QUEUE).await;
    assert!(after >= before + asked.letters, "{before}, then {after}");
    done
}
