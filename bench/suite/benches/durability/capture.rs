//! The office is killed in the middle of capture from RabbitMQ (W1), and another finishes it.
//!
//! What it had stored and not settled comes again: it must be recognised, so that no letter is in the store twice.

use std::time::Instant;

use crate::measure::Median;
use crate::moment::{Back, Moment, Moments, until};
use crate::numbered::Numbered;
use crate::office::number_behind;
use crate::place::{DEAD, Place, QUEUE};
use crate::shop::Office;
use crate::{Asked, message, queue, record};

/// Letters of one page.
const PAGE: usize = 500;

/// How many were lost.
pub(crate) async fn run(asked: Asked<'_>, place: &Place, url: &str, moments: &mut Moments) -> u64 {
    let Asked { messages, rounds, scratch, .. } = asked;
    println!(
        "W12 the office killed in the middle of capture from RabbitMQ, {messages} letters, {rounds} rounds"
    );
    let (mut lost, mut twice) = (0, 0);
    let (mut serves, mut works) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        message::fill(&place.broker, DEAD, messages).await;
        let moment = moments.next(messages);
        let (at, back, kept) = tokio::task::block_in_place(|| {
            let mut office = Office::start(scratch, &place.section, QUEUE, DEAD);
            let (at, back) = strike(&mut office, moment, messages);
            (at, back, kept(&office, messages))
        });
        queue::purge(url, DEAD).await;
        println!(
            "  round {round}: killed with {at} letters stored, answered after {:.3} s, captured after {:.3} s; lost {}, twice {}",
            back.serves,
            back.works,
            kept.lost(),
            kept.again()
        );
        lost += kept.lost();
        twice += kept.again();
        serves.push(back.serves);
        works.push(back.works);
    }
    record::figure("durability.twice", "letters", Median::once(twice as f64));
    record::figure("durability.capture.serves", "s", Median::of(serves));
    record::figure("durability.capture.again", "s", Median::of(works));
    lost
}

/// Kills the office at its moment, starts it again, and waits until all letters are stored, or no more come. How many were
/// stored when it was back.
fn strike(office: &mut Office, moment: Moment, messages: u64) -> (u64, Back) {
    moment.wait(|| total(office));
    office.kill();
    let began = Instant::now();
    office.begin();
    let before = total(office);
    let serves = began.elapsed().as_secs_f64();
    assert!(before < messages, "all letters were stored before the kill: have more of them (--messages)");
    until(|| total(office), |now| now > before);
    let works = began.elapsed().as_secs_f64();
    until(|| total(office), |now| now >= messages);
    (before, Back { serves, works })
}

fn total(office: &Office) -> u64 {
    office.call("GET", "/api/v1/stats", "").1["letters"]["total"].as_u64().unwrap_or(0)
}

/// Every letter of the store by the number in its error text.
fn kept(office: &Office, messages: u64) -> Numbered {
    let mut kept = Numbered::of(messages);
    let mut cursor = String::new();
    loop {
        let (status, page) = office.call("GET", &format!("/api/v1/letters?limit={PAGE}{cursor}"), "");
        let letters = page["letters"].as_array().unwrap_or_else(|| panic!("letters: {status} {page}"));
        for letter in letters {
            let text = letter["error_message"].as_str().unwrap_or_default();
            kept.saw(number_behind(text, "ORD-"));
        }
        let Some(next) = page["next_cursor"].as_str() else { return kept };
        cursor = format!("&cursor={next}");
    }
}
