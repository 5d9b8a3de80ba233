//! W4 on RabbitMQ: beside its own shovel, which is the server talking to itself, directly and over TCP, aio-pika with 500 in
//! flight, pika with a confirm for each message before the next, and Bento.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use lapin::options::QueuePurgeOptions;
use lapin::{Channel, Connection, ConnectionProperties};

use crate::bento::Bento;
use crate::done::Done;
use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::runner::{self, Round, Runner};
use crate::{Asked, dlo, message, peer, shovel};

const PATIENCE: Duration = Duration::from_secs(10);
/// The script that waits for every confirm is given a small share: it would take all day.
const ONE_BY_ONE: u64 = 2_000;

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W4 redrive on RabbitMQ, {} letters, {} rounds", asked.letters, asked.rounds);
    let server = Rabbitmq::shared().await;
    let bench = Bench::new(asked, server.url(), server.management()).await;
    if let Some(against) = asked.against {
        let once = async |program: &Path| Round::from(&bench.redrive_with(program, asked).await);
        return against.compare("redrive on RabbitMQ", "letter", once).await;
    }
    let mut ours = Runner::new("dlo, from its store");
    let mut its_own = Runner::new("RabbitMQ's own shovel, directly");
    let mut over_tcp = Runner::new("RabbitMQ's own shovel, over TCP");
    let mut aio_pika = Runner::new("aio-pika, 500 in flight");
    let mut pika = Runner::new("pika, a confirm a message");
    let mut bento = Runner::new("Bento, 500 in flight");
    // How long each takes to begin is shown, and is no part of its speed.
    let mut ours_asked = Runner::new("dlo, from the asking");
    let mut its_own_asked = Runner::new("shovel, from the asking");
    for round in 0..=asked.rounds {
        let done = bench.ours(asked).await;
        let shoveled = bench.shovel(shovel::DIRECT, asked.letters).await;
        let wired = bench.shovel(&bench.url, asked.letters).await;
        // A share of the letters: it takes as long.
        let scripted = bench.script("redrive_rabbitmq.py", (asked.letters / 5).max(1_000)).await;
        let one_by_one = bench.script("redrive_rabbitmq_pika.py", ONE_BY_ONE.min(asked.letters)).await;
        let streamed = bench.bento(asked.letters).await;
        // The first round warms everything up and does not count.
        if round > 0 {
            ours.did(&done);
            its_own.did(&shoveled);
            over_tcp.did(&wired);
            aio_pika.did(&scripted);
            pika.did(&one_by_one);
            streamed.iter().for_each(|done| bento.did(done));
            ours_asked.did(&done.since_asked());
            its_own_asked.did(&shoveled.since_asked());
        }
    }
    runner::show("W4", "RabbitMQ", &[&ours, &ours_asked, &its_own, &its_own_asked]);
    runner::show("W4", "RabbitMQ", &[&over_tcp, &aio_pika, &pika]);
    ours_asked.beside(&its_own_asked);
    ours.against(&its_own, "redrive.rabbitmq.shovel");
    ours.against(&over_tcp, "redrive.rabbitmq.shovel-tcp");
    ours.against(&aio_pika, "redrive.rabbitmq.aio-pika");
    ours.against(&pika, "redrive.rabbitmq.pika");
    if bench.bento.is_some() {
        runner::show("W4", "RabbitMQ", &[&bento]);
        ours.against(&bento, "redrive.rabbitmq.bento");
    }
    ours.costs("redrive.rabbitmq.cpu");
}

/// The server with both queues, and who takes turns on it. Each run leaves it empty.
struct Bench {
    url: String,
    management: String,
    place: Place,
    /// Kept: a channel ends with its connection.
    _connection: Connection,
    channel: Channel,
    /// Where it could be built.
    bento: Option<Bento>,
}

impl Bench {
    async fn new(asked: Asked<'_>, url: String, management: String) -> Self {
        let place = Place::new(format!("kind = \"rabbitmq\"\nurl = \"{url}\"")).await;
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("connect");
        let channel = connection.create_channel().await.expect("a channel");
        // Peers take no part in a comparison of two builds.
        let bento = if asked.against.is_some() { None } else { Bento::rabbitmq(asked.scratch, &url) };
        Self { url, management, place, _connection: connection, channel, bento }
    }

    async fn ours(&self, asked: Asked<'_>) -> Done {
        self.redrive_with(&dlo::program(), asked).await
    }

    /// One replay by an office that this `dlo` runs.
    async fn redrive_with(&self, program: &Path, asked: Asked<'_>) -> Done {
        let office = Office::start_with(program, asked.scratch, &self.place.section, QUEUE, DEAD);
        let done = tokio::task::block_in_place(|| {
            office.fill(asked.letters);
            office.redrive(asked.letters)
        });
        drop(office);
        self.check(asked.letters).await;
        done
    }

    /// `by` is the address by which the shovel reaches the server.
    async fn shovel(&self, by: &str, count: u64) -> Done {
        message::fill(&self.place.broker, DEAD, count).await;
        let done = shovel::run(&self.place, &self.management, by, count).await;
        self.check(count).await;
        done
    }

    async fn script(&self, name: &str, count: u64) -> Done {
        message::fill(&self.place.broker, DEAD, count).await;
        let done = tokio::task::block_in_place(|| peer::run(name, &[&self.url, DEAD, QUEUE], count));
        self.check(count).await;
        done
    }

    async fn bento(&self, count: u64) -> Option<Done> {
        let bento = self.bento.as_ref()?;
        message::fill(&self.place.broker, DEAD, count).await;
        let done = bento.run(count, async || self.place.depth(QUEUE).await).await;
        self.check(count).await;
        Some(done)
    }

    /// Everything is in the queue, once, and nothing is left behind; then the queue is emptied. The last acknowledgements of
    /// whoever was faster than the server may still be on their way.
    async fn check(&self, count: u64) {
        let began = Instant::now();
        while self.place.depth(DEAD).await > 0 && began.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let depths = (self.place.depth(QUEUE).await, self.place.depth(DEAD).await);
        assert_eq!(depths, (count, 0), "moved, and left behind");
        self.channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await.expect("purge");
    }
}
