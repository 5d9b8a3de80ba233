//! `gate`: instructions of the hot loops, counted by callgrind and held against what was recorded.
//!
//! A clock on a busy machine cannot tell three per cent from noise; a count of instructions can. Each loop is run twice
//! under valgrind, some turns and twice as many, and the difference is what the further turns took: start-up and inputs
//! cancel out. `gate` judges, `gate --write` records with the reason in `DLO_GATE_WHY`, `gate --against PROGRAM NAME`
//! compares with the gate of another commit, and `gate run LOOP TURNS MOST` is what valgrind is given to run.
//! `./test bench-gate` builds it in the profile `gate` and runs it (`bench/gate/run`).

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark stops where a step fails, and prints"
)]

mod against;
mod baseline;
mod callgrind;
mod golden;
mod judge;
#[expect(dead_code, reason = "the letters of the other benchmarks, of which some are sent over HTTP")]
#[path = "../../suite/benches/ground/letters.rs"]
mod letters;
mod loops;

use std::path::Path;
use std::process::ExitCode;

use baseline::{Baseline, Ground};
use judge::Judged;
use loops::{ALL, Loop};

/// Rounds of each loop when it is recorded, and of one that seems to have become dearer.
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => judge_all(),
        ["--write"] => record(),
        ["--against", program, name] => against::compare(Path::new(program), name),
        ["run", name, turns, most] => run(name, turns, most),
        ["cpu"] => {
            println!("{}", baseline::cpu());
            Ok(())
        }
        _ => Err("expected no argument, --write, or --against PROGRAM NAME".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("\ngate: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// What runs under valgrind.
fn run(name: &str, turns: &str, most: &str) -> Result<(), String> {
    let one = ALL.iter().find(|one| one.name == name).ok_or(format!("there is no loop `{name}`"))?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number of turns"));
    (one.run)(number(turns)?, number(most)?);
    Ok(())
}

fn judge_all() -> Result<(), String> {
    let recorded = Baseline::read()?;
    let ground = Ground::here()?;
    let differences = recorded.ground.differences(&ground);
    let tolerance = judge::tolerance(differences.is_empty());
    println!("{}", judge::HEAD);
    let mut judged = Vec::new();
    for one in &ALL {
        let was = recorded.instructions.get(one.name).copied();
        let mut now = one.measure()?;
        if judge::verdict(now, was, tolerance).fails() {
            // Once more, and once more: what is dearer is so in the middle of three.
            now = middle([now, one.measure()?, one.measure()?]);
        }
        let line = Judged { name: one.name, now, was, verdict: judge::verdict(now, was, tolerance) };
        println!("{line}");
        judged.push(line);
    }
    println!("\n{}", recorded.about());
    for difference in &differences {
        println!("not the same ground: {difference}");
    }
    println!("tolerance: {:.0} %", tolerance * 100.0);
    judge::conclude(&judged, &recorded)
}

fn record() -> Result<(), String> {
    let why = std::env::var("DLO_GATE_WHY").unwrap_or_default();
    let why = why.trim();
    if why.is_empty() {
        return Err("a baseline is recorded with a reason: DLO_GATE_WHY=\"one sentence\"".into());
    }
    let mut recorded = Baseline::new(why, Ground::here()?);
    println!("{:<16} {:>12} {:>9}", "loop", "instructions", "spread");
    for one in &ALL {
        let rounds: Vec<u64> = (0..ROUNDS).map(|_| one.measure()).collect::<Result<_, _>>()?;
        let (least, most) = (rounds.iter().min().copied(), rounds.iter().max().copied());
        let now = middle([rounds[0], rounds[1], rounds[2]]);
        let spread = most.zip(least).map_or(0, |(most, least)| most - least);
        println!("{:<16} {now:>12} {:>7.2} %", one.name, 100.0 * spread as f64 / now.max(1) as f64);
        recorded.instructions.insert(one.name.into(), now);
    }
    recorded.write()?;
    println!("\nwritten to {}; the commit that takes it in says why, as the file does", baseline::FILE);
    Ok(())
}

fn middle(mut rounds: [u64; ROUNDS]) -> u64 {
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

impl Loop {
    /// Instructions of one operation in this build.
    fn measure(&self) -> Result<u64, String> {
        self.measure_in(&callgrind::this_program()?)
    }

    /// The same in the gate program of any build: the further turns of the longer run, divided by them.
    fn measure_in(&self, program: &Path) -> Result<u64, String> {
        let most = self.turns * 2;
        let [few, many] = [self.turns, most].map(|turns| {
            callgrind::instructions(program, &["run", self.name, &turns.to_string(), &most.to_string()])
        });
        let operations = self.turns * self.operations;
        Ok(many?.saturating_sub(few?).div_ceil(operations))
    }
}
