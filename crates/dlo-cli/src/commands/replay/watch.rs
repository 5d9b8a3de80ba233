//! `dlo replay watch`: the outcomes as they come, until the replay is over or stops.
//!
//! The office tells by server-sent events. A line that breaks is opened again; the replay does not depend on it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use dlo_core::id::ReplayId;
use dlo_core::replay::ReplayState;
use serde_json::Value;

use super::{number, path, show};
use crate::client::{Client, text_of};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Progress, clean, count, letters, say};

/// Cells of the bar.
const CELLS: u64 = 30;
/// How often, at most, a line is written where nothing can be rewritten.
const PLAIN: Duration = Duration::from_secs(5);
/// At most so many letters that died again are looked up, and so many of their groups are named.
const LOOKED_AT: u64 = 20;
const GROUPS: usize = 3;
/// How often a broken line is opened again before it is given up.
const TRIES: u32 = 5;

pub(super) fn run(client: &Client, out: Out, id: ReplayId) -> Outcome {
    let mut screen = Screen::new(out);
    let mut tries = 0;
    loop {
        match follow(client, id, &mut screen) {
            Ok(true) => break,
            Ok(false) => tries = 0,
            Err(failure) if failure.exit != Exit::Unreachable || tries >= TRIES => return Err(failure),
            Err(_) => tries += 1,
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    screen.progress.end();
    let replay = client.get(&path(id, ""), &[])?;
    if out.json {
        out.value(&replay)?;
    } else {
        show::run(client, out, id)?;
    }
    let died = if failed_again(&replay) > 0 { Some(died_again(client, &replay)?) } else { None };
    let stopped = matches!(text_of(&replay, "state").parse(), Ok(ReplayState::Stopped | ReplayState::Paused));
    match (stopped && number(&replay, "waiting") + number(&replay, "in_doubt") > 0, stopped, died) {
        (true, _, died) => {
            let died = died.map(|died| format!("{died}; ")).unwrap_or_default();
            let resume = format!("it does not go on by itself; when it should: dlo replay resume {id}");
            Err(Failure::new(Exit::Refused, format!("{died}{resume}")))
        }
        // A guard stopped it after its last letter, so nothing is left to resume.
        (false, _, Some(died)) => Err(Failure::new(Exit::CameBack, died)),
        (false, true, None) => Err(Failure::new(
            Exit::Refused,
            "everything of it was sent and the cause is still there; fix it, then: dlo replay plan",
        )),
        (false, false, None) => Ok(()),
    }
}

fn failed_again(replay: &Value) -> u64 {
    number(replay, "returned") + number(replay, "suspected_return")
}

/// Says in which groups the letters are that died again, the largest first.
fn died_again(client: &Client, replay: &Value) -> Outcome<String> {
    let mut groups: BTreeMap<String, u64> = BTreeMap::new();
    let read = |id: &str| client.get(&format!("/api/v1/letters/{id}"), &[]);
    for item in super::items::of(client, replay, Some("returned"), LOOKED_AT)? {
        let letter = read(&text_of(&item, "letter"))?;
        *groups.entry(text_of(&letter, "group_id")).or_default() += 1;
    }
    for item in super::items::of(client, replay, Some("suspected_return"), LOOKED_AT)? {
        let first = read(&text_of(&item, "letter"))?;
        let suspects = first.get("suspects").and_then(Value::as_array).into_iter().flatten();
        for suspect in suspects.filter(|one| text_of(one, "kind") == "suspected_return") {
            let letter = read(&text_of(suspect, "letter"))?;
            *groups.entry(text_of(&letter, "group_id")).or_default() += 1;
        }
    }
    let mut groups: Vec<(String, u64)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named: Vec<String> =
        groups.iter().take(GROUPS).map(|(group, _)| format!("dlo groups show {group}")).collect();
    let mut died = format!("{} died again", letters(failed_again(replay)));
    let suspected = number(replay, "suspected_return");
    if suspected > 0 {
        died.push_str(&format!(
            " ({} suspected: new letters with the same payload and key)",
            count(suspected)
        ));
    }
    Ok(format!("{died}; they are now in: {}", named.join(", ")))
}

/// Follows one line of events. True: there is nothing more to wait for.
fn follow(client: &Client, id: ReplayId, screen: &mut Screen) -> Outcome<bool> {
    let id = id.to_string();
    let answer = client.get_raw("/api/v1/events", &[("replay", &id)])?;
    for line in BufReader::new(answer.into_body().into_reader()).lines() {
        // A line that breaks is no end.
        let Ok(line) = line else { return Ok(false) };
        let Some(data) = line.strip_prefix("data:") else { continue };
        let Ok(replay) = serde_json::from_str::<Value>(data.trim()) else { continue };
        screen.show(&replay);
        let state = text_of(&replay, "state").parse::<ReplayState>();
        if state.is_ok_and(|state| !state.is_active()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A bar that is rewritten on a terminal; a line now and then elsewhere.
struct Screen {
    json: bool,
    progress: Progress,
    said: Option<(String, Instant)>,
}

impl Screen {
    fn new(out: Out) -> Self {
        Self { json: out.json, progress: Progress::new(), said: None }
    }

    fn show(&mut self, replay: &Value) {
        let mut line = format!("{} {}", bar(replay), show::standing(replay));
        if let Some(why) = replay.get("waits").and_then(Value::as_str) {
            line.push_str(&format!(", waits: {why}"));
        }
        self.progress.at(&line);
        if self.json || self.progress.is_seen() {
            return;
        }
        let state = text_of(replay, "state");
        let due = self.said.as_ref().is_none_or(|(said, at)| *said != state || at.elapsed() >= PLAIN);
        if due {
            say(clean(&line));
            self.said = Some((state, Instant::now()));
        }
    }
}

/// Handled, on their way, came back, and what is still to be sent, each with a sign of its own.
fn bar(replay: &Value) -> String {
    let total = number(replay, "total").max(1);
    let cells = |many: u64| usize::try_from((many * CELLS).div_ceil(total)).unwrap_or(0);
    let handled = number(replay, "confirmed") + number(replay, "passed");
    let back = failed_again(replay) + number(replay, "refused") + number(replay, "in_doubt");
    let under_way = number(replay, "sent").saturating_sub(handled + failed_again(replay));
    let mut drawn: String =
        [("█", handled), ("▒", under_way), ("!", back)].map(|(sign, many)| sign.repeat(cells(many))).concat();
    let width = usize::try_from(CELLS).unwrap_or(0);
    drawn = drawn.chars().take(width).collect();
    format!("[{drawn:·<width$}]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bar_shows_every_outcome_and_never_grows() {
        let replay = json!({"total": 100, "sent": 50, "confirmed": 20, "passed": 10, "returned": 5});
        assert_eq!(bar(&replay), "[█████████▒▒▒▒▒!!··············]");
        let all = json!({"total": 3, "sent": 3, "confirmed": 1, "returned": 2});
        assert_eq!(bar(&all).chars().count(), 32);
        assert_eq!(bar(&json!({})), format!("[{}]", "·".repeat(30)));
    }
}
