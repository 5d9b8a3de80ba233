//! The office is killed in the middle of a replay (W4), and another finishes it.
//!
//! A message may be in the queue twice only if its letter was listed as in doubt, which is possible on a broker that cannot
//! be asked what became of a send: RabbitMQ. Redis can be asked, so there is nothing to doubt. A person who is asked says
//! that what is in doubt shall be sent again: nothing may be lost.

use std::collections::HashSet;
use std::time::Instant;

use crate::measure::Median;
use crate::moment::{Back, Moment, Moments, until};
use crate::numbered::Numbered;
use crate::place::{DEAD, Place, QUEUE};
use crate::shop::Office;
use crate::{Asked, queue, record};

/// What the sent message is known by.
const SEND_ID: &str = "dlo-replay-id";
/// Items of one page.
const PAGE: usize = 500;

/// What came of one kill.
struct Struck {
    /// Sent and recorded when it was back.
    at: u64,
    back: Back,
    /// The ids of sends that were listed as in doubt.
    doubted: HashSet<String>,
}

/// How many were lost.
pub(crate) async fn run(asked: Asked<'_>, places: [(&str, &Place); 2], moments: &mut Moments) -> u64 {
    let mut lost = 0;
    let mut unlisted = record::Parts::new("durability.redrive.twice", "messages");
    let mut doubts = record::Parts::new("durability.redrive.doubt", "letters");
    let (mut serves, mut works) = (Vec::new(), Vec::new());
    let mut sums = Vec::new();
    for (broker, place) in places {
        println!(
            "W12 the office killed in the middle of a replay to {broker}, {} letters, {} rounds",
            asked.messages, asked.rounds
        );
        let (mut twice, mut most) = (0, 0);
        for round in 1..=asked.rounds {
            let moment = moments.next(asked.messages);
            let struck = tokio::task::block_in_place(|| strike(asked, place, moment));
            let (sent, unknown) = sent(place, &struck.doubted, asked.messages).await;
            let Struck { at, back, doubted } = &struck;
            println!(
                "  round {round}: killed with {at} sent, answered after {:.3} s, sent after {:.3} s; lost {}, in doubt {}, \
                 of these twice {}, others twice {unknown}",
                back.serves,
                back.works,
                sent.lost(),
                doubted.len(),
                sent.again() - unknown
            );
            lost += sent.lost();
            twice += unknown;
            most = most.max(doubted.len());
            serves.push(back.serves);
            works.push(back.works);
        }
        sums.push((broker, twice, most));
    }
    for (broker, twice, most) in sums {
        unlisted.part(&format!("{broker}, twice without being listed as in doubt"), twice as f64);
        doubts.part(&format!("{broker}, in doubt after one kill at most"), most as f64);
    }
    unlisted.worst();
    doubts.worst();
    record::figure("durability.redrive.serves", "s", Median::of(serves));
    record::figure("durability.redrive.again", "s", Median::of(works));
    lost
}

/// Replays everything at full speed, kills the office at its moment, and sees the replay to its end.
fn strike(asked: Asked<'_>, place: &Place, moment: Moment) -> Struck {
    let mut office = Office::start(asked.scratch, &place.section, QUEUE, DEAD);
    office.fill(asked.messages);
    let id = office.plan(r#""max":true"#, asked.messages);
    office.steer(&id, "start");
    moment.wait(|| office.sent(&id));
    office.kill();
    let began = Instant::now();
    office.begin();
    let at = office.sent(&id);
    let serves = began.elapsed().as_secs_f64();
    assert!(at < asked.messages, "all was sent before the kill: have more letters (--messages)");
    until(|| office.sent(&id), |now| now > at);
    let back = Back { serves, works: began.elapsed().as_secs_f64() };
    let doubted = finish(&office, &id, asked.messages);
    Struck { at, back, doubted }
}

/// Sees every letter out, with a person where one is needed; what was in doubt. What becomes of the messages is waited for
/// by nobody: there is no consumer.
fn finish(office: &Office, id: &str, messages: u64) -> HashSet<String> {
    let replay = || office.call("GET", &format!("/api/v1/replays/{id}"), "").1;
    let count = |what: &str| replay()[what].as_u64().unwrap_or(0);
    let all_but_doubts = until(|| count("sent") + count("in_doubt"), |now| now >= messages);
    assert!(all_but_doubts, "the replay came to no end: {}", replay());
    let doubted = doubted(office, id);
    if !doubted.is_empty() {
        let told = r#"{"outcome":"again","reason":"consumers cope with duplicates"}"#;
        let (status, answer) = office.call("POST", &format!("/api/v1/replays/{id}/settle"), told);
        assert!(status < 300, "settle: {status}: {answer}");
        if replay()["state"] == "paused" {
            office.steer(id, "resume");
        }
    }
    assert!(until(|| count("sent"), |now| now >= messages), "not everything was sent: {}", replay());
    doubted
}

/// The ids of all sends that are listed as in doubt.
fn doubted(office: &Office, id: &str) -> HashSet<String> {
    let mut ids = HashSet::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/replays/{id}/items?state=in_doubt&limit={PAGE}{cursor}");
        let (status, page) = office.call("GET", &path, "");
        let items = page["items"].as_array().unwrap_or_else(|| panic!("items: {status} {page}"));
        ids.extend(items.iter().filter_map(|item| item["replay_id"].as_str().map(str::to_owned)));
        let Some(next) = page["next_cursor"].as_str() else { return ids };
        cursor = format!("&cursor={next}");
    }
}

/// Everything in the queue by its number, and how many sights beyond the first nobody was told of.
async fn sent(place: &Place, doubted: &HashSet<String>, messages: u64) -> (Numbered, u64) {
    let (mut all, mut sure) = (Numbered::of(messages), Numbered::of(messages));
    queue::take(place, QUEUE, |message| {
        let n = queue::number(message);
        all.saw(n);
        if !message.headers.text(SEND_ID).is_some_and(|id| doubted.contains(id)) {
            sure.saw(n);
        }
    })
    .await;
    let unknown = sure.again();
    (all, unknown)
}
