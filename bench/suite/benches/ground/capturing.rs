//! Lists and counts while letters come over HTTP at full speed, and while none come, round by round.
//!
//! A round asks every question in turn of the calm office, then again and again for as long as a piece of letters is on
//! its way over two connections; bodies are made beforehand. The next round begins when the text index has caught up.
//! A question's ratio is that of its two medians; what stands for it is the median over the rounds, and the figure is
//! the median question. Letters, office and questions share the machine: part of the ratio is the processor they share.

use std::path::Path;
use std::time::Duration;

use crate::indexed::indexed;
use crate::measure::{Median, per_second, percentile};
use crate::office::{Office, number_behind};
use crate::questions::{self, Kind, Question};
use crate::record;
use crate::sending::Load;

/// Letters of one piece, and how often each question is asked of the calm office.
const PIECE: u64 = 40_000;
const CALM: u64 = 40;

pub(crate) fn run(data: &Path, rounds: u64, million: u64) {
    let office = Office::start(data);
    let mut questions = questions::all(&office, million);
    questions.retain(|question| question.kind != Kind::Text);
    let (piece, mut there) = (PIECE.min(million), million);
    println!(
        "capturing: lists and counts, calm and while {piece} letters come over HTTP, {rounds} rounds in turn"
    );
    let mut ratios = vec![Vec::new(); questions.len()];
    for round in 0..=rounds {
        let calm = in_turn(&office, &questions, |asked| asked < CALM);
        let load = Load::new(there, piece);
        let (busy, spent) = while_sending(&office, &questions, &load);
        there += piece;
        let asked = busy.iter().map(Vec::len).min().unwrap_or(0);
        let warm_up = if round == 0 { " (warm-up, not counted)" } else { "" };
        println!(
            "  round {round}: {:.0} letters/s, each question asked {asked} times meanwhile{warm_up}",
            per_second(piece, spent)
        );
        if round > 0 {
            for (ratios, (mut busy, mut calm)) in ratios.iter_mut().zip(busy.into_iter().zip(calm)) {
                ratios.push(percentile(&mut busy, 0.5) / percentile(&mut calm, 0.5));
            }
        }
        indexed(&office);
    }
    let stored = number_behind(&office.get("/api/v1/stats").1, "\"open\":");
    assert_eq!(stored, there, "every letter is there");
    tell(&questions, ratios);
}

/// Each question's ratio, the worst by its name, and the median question as the figure.
fn tell(questions: &[Question], ratios: Vec<Vec<f64>>) {
    let ratios: Vec<Median> = ratios.into_iter().map(Median::of).collect();
    for (question, ratio) in questions.iter().zip(&ratios) {
        println!("  {} while letters come, p50 to when none come: {ratio} x", question.what);
    }
    let worst = questions.iter().zip(&ratios).max_by(|(_, a), (_, b)| a.middle.total_cmp(&b.middle));
    if let Some((question, ratio)) = worst {
        println!("  the worst is {}: {ratio} x", question.what);
    }
    record::figure("triage.capturing", "x", Median::of(ratios.iter().map(|ratio| ratio.middle).collect()));
}

/// Asks all in turn for as long as `more` says so of the times that each was asked; milliseconds for each question.
fn in_turn(office: &Office, questions: &[Question], more: impl Fn(u64) -> bool) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); questions.len()];
    let mut asked = 0;
    while more(asked) {
        for (times, question) in times.iter_mut().zip(questions) {
            times.push(question.ask(office, asked));
        }
        asked += 1;
    }
    times
}

/// What was asked until the last letter was stored, once at the least, and how long that took.
fn while_sending(office: &Office, questions: &[Question], load: &Load) -> (Vec<Vec<f64>>, Duration) {
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| load.send(office));
        let busy = in_turn(office, questions, |asked| asked == 0 || !sender.is_finished());
        (busy, sender.join().expect("a sender"))
    })
}
