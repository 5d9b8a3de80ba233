//! A consumer on our runtime is killed in the middle of its work (W6), and another goes on with the same journal.
//!
//! It is a process of its own: this program, started once more. Its handler notes the number of each message in a file before
//! it says that it was handled, and what is in a file survives its writer. What was handled and not yet settled is handled
//! again: no more than may be unsettled at once. Poison that waits for its retry when all else is done is still in the queue,
//! which is not lost.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use dlo_core::message::Message;
use dlo_runtime::{Consumer, ConsumerConfig};

use crate::measure::Median;
use crate::moment::{Moment, Moments, until};
use crate::numbered::Numbered;
use crate::place::{DEAD, Place, QUEUE};
use crate::{Asked, order, queue, record, settings};

/// The first word of a command line that makes this program the consumer.
pub(crate) const ROLE: &str = "consume";
const GROUP: &str = "bench";
/// Percent of the messages that fail each time they are tried: dead letters must not be lost either.
const POISON: u64 = 1;
/// Bytes of a note.
const NOTE: usize = 8;

/// How many were lost.
pub(crate) async fn run(asked: Asked<'_>, place: &Place, moments: &mut Moments) -> u64 {
    let Asked { messages, rounds, .. } = asked;
    println!(
        "W12 a consumer of RabbitMQ killed in the middle, {messages} messages, {POISON} % poison, {rounds} rounds"
    );
    let mut lost = 0;
    let mut works = Vec::new();
    let mut again = record::Parts::new("durability.consume.twice", "messages");
    let mut counts = Vec::new();
    for round in 1..=rounds {
        order::fill(&place.broker, QUEUE, messages, POISON).await;
        let desk = Desk::new(asked.scratch, &place.section, messages);
        let (at, back, mut handled) = tokio::task::block_in_place(|| desk.strike(moments.next(messages)));
        let (mut parked, mut left) = (0, 0);
        for (queue, count) in [(DEAD, &mut parked), (QUEUE, &mut left)] {
            queue::take(place, queue, |message| {
                handled.saw(queue::number(message));
                *count += 1;
            })
            .await;
        }
        println!(
            "  round {round}: killed with {at} handled, handled more after {back:.3} s; lost {}, handled again {}, \
             parked {parked}, still in the queue {left}",
            handled.lost(),
            handled.again()
        );
        lost += handled.lost();
        counts.push(handled.again());
        works.push(back);
    }
    for (round, count) in (1..).zip(counts) {
        again.part(&format!("handled again after kill {round}"), count as f64);
    }
    again.worst();
    record::figure("durability.consume.again", "s", Median::of(works));
    lost
}

/// Where the consumer of one round keeps its journal and its notes.
struct Desk {
    section: String,
    state: PathBuf,
    notes: PathBuf,
    messages: u64,
}

impl Desk {
    fn new(scratch: &Path, section: &str, messages: u64) -> Self {
        let (state, notes) = (scratch.join("consumer"), scratch.join("notes"));
        let _ = std::fs::remove_dir_all(&state);
        std::fs::create_dir_all(&state).expect("a directory for the journal");
        File::create(&notes).expect("a file for notes");
        Self { section: section.to_owned(), state, notes, messages }
    }

    /// Kills a consumer at its moment, and has another handle the rest, or until no more comes. How many were handled by
    /// then, the seconds until the first after it, and all of them.
    fn strike(&self, moment: Moment) -> (u64, f64, Numbered) {
        let mut first = self.start();
        moment.wait(|| self.noted());
        let _ = first.kill();
        let _ = first.wait();
        let at = self.noted();
        let healthy = self.messages - order::poisoned(self.messages, POISON);
        assert!(at < healthy, "all was handled before the kill: have more messages (--messages)");
        let began = Instant::now();
        let mut second = self.start();
        until(|| self.noted(), |now| now > at);
        let back = began.elapsed().as_secs_f64();
        until(|| self.noted(), |now| now >= healthy && self.handled().there() >= healthy);
        // It ends with its input, when it has settled what it has.
        drop(second.stdin.take());
        let ended = second.wait().expect("the consumer");
        assert!(ended.success(), "the consumer failed: {ended}");
        (at, back, self.handled())
    }

    fn start(&self) -> Child {
        let program = std::env::current_exe().expect("this program");
        Command::new(program)
            .args([ROLE, &self.section])
            .args([&self.state, &self.notes])
            .stdin(Stdio::piped())
            .spawn()
            .expect("start a consumer")
    }

    fn noted(&self) -> u64 {
        std::fs::metadata(&self.notes).map_or(0, |file| file.len() / NOTE as u64)
    }

    fn handled(&self) -> Numbered {
        let mut handled = Numbered::of(self.messages);
        let notes = std::fs::read(&self.notes).expect("the notes");
        for note in notes.as_chunks::<NOTE>().0 {
            handled.saw(u64::from_le_bytes(*note));
        }
        handled
    }
}

/// The life of a consumer: until its input ends.
pub(crate) async fn work(section: &str, state: &Path, notes: &Path) {
    let broker = order::broker(section).await;
    let source = broker.source(QUEUE, GROUP).await.expect("join the queue");
    let notes = Arc::new(OpenOptions::new().append(true).open(notes).expect("the notes"));
    let config =
        ConsumerConfig { dlq: Some(DEAD.to_owned()), ..settings::config(GROUP, settings::budget(), state) };
    let consumer = Consumer::builder(source, broker.publisher())
        .config(config)
        .handler(move |message: Message| {
            let poison = order::is_poison(&message.payload.0);
            if !poison {
                (&*notes).write_all(&queue::number(&message).to_le_bytes()).expect("a note");
            }
            async move { if poison { Err(settings::bad()) } else { Ok(()) } }
        })
        .build()
        .expect("a consumer");
    let (told, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = told.send(());
    });
    consumer.run(async { drop(end.await) }).await.expect("the broker is up");
}
