//! W4 on RabbitMQ: beside its own shovel, which is the server talking to itself, and aio-pika with 500 in flight.

use std::time::{Duration, Instant};

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use lapin::options::QueuePurgeOptions;
use lapin::{Channel, Connection, ConnectionProperties};

use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::runner::{self, Runner};
use crate::{Asked, message, peer, shovel};

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W4 redrive on RabbitMQ, {} letters, {} rounds", asked.letters, asked.rounds);
    let server = Rabbitmq::shared().await;
    let (url, management) = (server.url(), server.management());
    let place = Place::new(format!("kind = \"rabbitmq\"\nurl = \"{url}\"")).await;
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("connect");
    let channel = connection.create_channel().await.expect("a channel");
    let mut ours = Runner::new("dlo, from its store");
    let mut its_own = Runner::new("RabbitMQ's own shovel");
    let mut aio_pika = Runner::new("aio-pika, 500 in flight");
    // How long each takes to begin is shown, and is no part of its speed.
    let mut ours_asked = Runner::new("dlo, from the asking");
    let mut its_own_asked = Runner::new("shovel, from the asking");
    for round in 0..=asked.rounds {
        let office = Office::start(asked.scratch, &place.section, QUEUE, DEAD);
        let done = tokio::task::block_in_place(|| {
            office.fill(asked.letters);
            office.redrive(asked.letters)
        });
        drop(office);
        check(&place, &channel, asked.letters).await;
        message::fill(&place.broker, DEAD, asked.letters).await;
        let shoveled = shovel::run(&place, &management, &url, asked.letters).await;
        check(&place, &channel, asked.letters).await;
        // A share of the letters: it takes as long.
        let few = (asked.letters / 5).max(1_000);
        message::fill(&place.broker, DEAD, few).await;
        let scripted =
            tokio::task::block_in_place(|| peer::run("redrive_rabbitmq.py", &[&url, DEAD, QUEUE], few));
        check(&place, &channel, few).await;
        // The first round warms everything up and does not count.
        if round > 0 {
            ours.did(&done);
            its_own.did(&shoveled);
            aio_pika.did(&scripted);
            ours_asked.did(&done.since_asked());
            its_own_asked.did(&shoveled.since_asked());
        }
    }
    runner::show("W4", "RabbitMQ", &[&ours, &ours_asked, &its_own, &its_own_asked, &aio_pika]);
    ours_asked.beside(&its_own_asked);
    ours.against(&its_own, "redrive.rabbitmq.shovel");
    ours.against(&aio_pika, "redrive.rabbitmq.aio-pika");
    ours.costs("redrive.rabbitmq.cpu");
}

/// Everything is in the queue, once, and nothing is left behind; then the queue is emptied. The last acknowledgements of
/// whoever was faster than the server may still be on their way.
async fn check(place: &Place, channel: &Channel, count: u64) {
    let began = Instant::now();
    while place.depth(DEAD).await > 0 && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((place.depth(QUEUE).await, place.depth(DEAD).await), (count, 0), "moved, and left behind");
    channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await.expect("purge");
}
