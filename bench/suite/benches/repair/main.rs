//! Repair of 100,000 letters of 1 KB by a jq expression, beside bare jaq in a loop on one core.
//!
//! Ours: messages in, one worker process with its limits, strict JSON, messages out. The loop: read, run, write, nothing
//! checked, nothing isolated. Same expression, same payloads, in turns; the results are compared byte by byte. Not a test: a slow
//! machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::time::{Duration, Instant};

use dlo_bench::measure::{Median, per_second};
use dlo_bench::record;
use dlo_core::message::{Message, Payload};
use dlo_server::{Facts, RepairLimits, Repairer, Subject, WorkerCommand};
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data::JustLut, unwrap_valr};
use jaq_json::{Val, read, write};

const EXPRESSION: &str = ".amount = (.amount * 100 | round) | .currency |= ascii_upcase";
/// Letters that a replay has in hand at once.
const IN_HAND: usize = 2_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |name: &str, usual: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let (letters, rounds) = (number("--letters", 100_000), number("--rounds", 5));
    let messages: Vec<Message> = (0..letters).map(message).collect();
    println!("repair: {letters} letters of {} bytes, `{EXPRESSION}`", messages[0].payload.0.len());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let command =
        WorkerCommand { program: dlo_bench::dlo::program(), arguments: vec!["repair-worker".into()] };
    let repairer = Repairer::new(command, RepairLimits { workers: 1, ..RepairLimits::default() });
    let mut ratios = Vec::new();
    for round in 0..=rounds {
        let (bare, expected) = bare(&messages);
        let (ours, found) = runtime.block_on(ours(&repairer, &messages));
        let differs = expected.iter().zip(&found).position(|(bare, ours)| bare[..] != ours.0[..]);
        assert_eq!(
            (differs, expected.len()),
            (None, found.len()),
            "both make the same bytes of every letter"
        );
        let (bare, ours) = (per_second(letters as u64, bare), per_second(letters as u64, ours));
        // The first round warms both up.
        if round > 0 {
            println!(
                "  round {round}: bare jaq {bare:.0}/s, one worker {ours:.0}/s, ratio {:.2}",
                ours / bare
            );
            ratios.push(ours / bare);
        }
    }
    record::figure("repair.jaq", "x", Median::of(ratios));
}

fn message(n: usize) -> Message {
    let payload = format!(
        r#"{{"id":"order-{n}","customer":{{"id":"CUST-{n}","name":"Customer {n}","address":"{} Street {n}"}},"amount":{}.{:02},"currency":"eur","lines":[{}],"note":"{}"}}"#,
        n % 400,
        n % 1_000,
        n % 100,
        (0..6)
            .map(|line| format!(r#"{{"sku":"SKU-{line:05}","count":{line},"price":19.90}}"#))
            .collect::<Vec<_>>()
            .join(","),
        "x".repeat(550),
    );
    Message { payload: Payload::from(payload), ..Message::default() }
}

/// The loop that one would write by hand.
fn bare(messages: &[Message]) -> (Duration, Vec<Vec<u8>>) {
    let arena = Arena::default();
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let modules = Loader::new(defs).load(&arena, File { code: EXPRESSION, path: () }).expect("it is read");
    let filter =
        Compiler::<_, JustLut<Val>>::default().with_funs(funs).compile(modules).expect("it compiles");
    let started = Instant::now();
    let results = messages.iter().map(|message| {
        let input = read::parse_single(&message.payload.0).expect("it is JSON");
        let ctx = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
        let result =
            filter.id.run((ctx, input)).map(unwrap_valr).next().expect("a result").expect("no error");
        let mut written = Vec::new();
        write::write(&mut written, &write::Pp::default(), 0, &result).expect("memory");
        written
    });
    let results = results.collect();
    (started.elapsed(), results)
}

async fn ours(repairer: &Repairer, messages: &[Message]) -> (Duration, Vec<Payload>) {
    let started = Instant::now();
    let mut results = Vec::with_capacity(messages.len());
    for hand in messages.chunks(IN_HAND) {
        let facts = Facts { id: "1", source: "orders", ..Facts::default() };
        let subjects: Vec<_> = hand.iter().map(|message| Subject { message, facts }).collect();
        for (answer, original) in
            repairer.apply(EXPRESSION, &subjects).await.expect("a worker").into_iter().zip(hand)
        {
            results.push(answer.expect("repaired").or(original).payload);
        }
    }
    (started.elapsed(), results)
}
