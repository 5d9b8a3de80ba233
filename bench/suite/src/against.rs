//! Compares this tree with another commit: ratios of rate and of CPU per message, from runs of two builds by turns.
//!
//! `bench/run WORKLOAD --against REV` builds the other program and hands over its path. A pair is one run of each; which of
//! the two begins changes from pair to pair, and the first pair is not counted. What is kept is the median of the ratios,
//! because a slow minute of the machine slows down both runs of a pair.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::measure::{Median, per_second};
use crate::runner::Round;

/// Pairs that count, unless the command line says otherwise.
const PAIRS: usize = 9;
/// How long one pair should take at most. Longer ones are named.
const LONGEST: Duration = Duration::from_secs(40);
/// The bars of a change that should cost nothing: the least ratio of rates, and the highest of CPU per message.
const RATE: f64 = 0.93;
const CPU: f64 = 1.03;

/// The command line of a comparison.
#[derive(Debug)]
pub struct Against {
    /// This tree's program.
    ours: PathBuf,
    /// The other commit's.
    theirs: PathBuf,
    /// Name of the other commit.
    commit: String,
    pairs: usize,
    least_rate: f64,
    most_cpu: f64,
    /// Whether a bar was not met.
    missed: Cell<bool>,
}

/// The figures of one run.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Messages a second.
    rate: f64,
    /// Microseconds of CPU per message.
    cpu: f64,
}

impl Run {
    fn of(round: &Round) -> Self {
        let cpu = round.client.map_or(f64::NAN, |cpu| cpu.as_secs_f64() * 1e6 / round.messages as f64);
        Self { rate: per_second(round.messages, round.spent), cpu }
    }
}

impl Against {
    /// Reads `--against PROGRAM [--commit NAME] [--pairs N] [--rate R] [--cpu R]`. Without `--against` nothing is compared.
    pub fn read(arguments: &[String], ours: impl FnOnce() -> PathBuf) -> Option<Self> {
        let value = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name)?;
            arguments.get(at + 1).map(String::as_str)
        };
        let number = |name: &str, default: f64| {
            let text = value(name);
            text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} {text} is no number")))
        };
        Some(Self {
            theirs: PathBuf::from(value("--against")?),
            ours: ours(),
            commit: value("--commit").unwrap_or("the other commit").to_owned(),
            pairs: (number("--pairs", PAIRS as f64) as usize).max(1),
            least_rate: number("--rate", RATE),
            most_cpu: number("--cpu", CPU),
            missed: Cell::new(false),
        })
    }

    /// Runs all pairs. `once` runs the program at the path and measures it; `unit` is what a rate counts.
    pub async fn compare(&self, what: &str, unit: &str, mut once: impl AsyncFnMut(&Path) -> Round) {
        println!(
            "{what}: this tree against {}, {} pairs and one to warm up, by turns",
            self.commit, self.pairs
        );
        let mut pairs = Vec::new();
        for pair in 0..=self.pairs {
            let began = Instant::now();
            let ours_first = pair % 2 == 1;
            let (ours, theirs) = if ours_first {
                let ours = Run::of(&once(&self.ours).await);
                (ours, Run::of(&once(&self.theirs).await))
            } else {
                let theirs = Run::of(&once(&self.theirs).await);
                (Run::of(&once(&self.ours).await), theirs)
            };
            println!("  {}", pair_line(pair, ours_first, unit, (ours, theirs)));
            if began.elapsed() > LONGEST {
                println!(
                    "    took {:.0} s; at most {} s is the rule: send fewer",
                    began.elapsed().as_secs_f64(),
                    LONGEST.as_secs()
                );
            }
            if pair > 0 {
                pairs.push((ours, theirs));
            }
        }
        self.judge(&pairs, unit);
    }

    /// Prints the medians beside their bars.
    fn judge(&self, pairs: &[(Run, Run)], unit: &str) {
        let (rate, cpu) = ratios(pairs);
        let verdict = |met: bool| if met { "met" } else { "not met" };
        // A CPU time that could not be read meets no bar.
        let (fast, cheap) = (rate.middle >= self.least_rate, cpu.middle <= self.most_cpu);
        println!("rate: {}, bar: at least {}: {}", ratio(&rate), self.least_rate, verdict(fast));
        println!("CPU per {unit}: {}, bar: at most {}: {}", ratio(&cpu), self.most_cpu, verdict(cheap));
        if !(fast && cheap) {
            self.missed.set(true);
        }
    }

    /// Ends the program with exit code 1 if a bar was not met.
    pub fn end(&self) {
        if self.missed.get() {
            std::process::exit(1);
        }
    }
}

/// The ratios of this tree to the other commit: of rates, and of CPU per message.
fn ratios(pairs: &[(Run, Run)]) -> (Median, Median) {
    let each = |of: fn(&Run) -> f64| {
        let (ours, theirs): (Vec<f64>, Vec<f64>) =
            pairs.iter().map(|(ours, theirs)| (of(ours), of(theirs))).unzip();
        Median::paired(&ours, &theirs)
    };
    (each(|run| run.rate), each(|run| run.cpu))
}

fn ratio(median: &Median) -> String {
    format!("median {:.3} (smallest {:.3}, largest {:.3})", median.middle, median.low, median.high)
}

fn pair_line(pair: usize, ours_first: bool, unit: &str, (ours, theirs): (Run, Run)) -> String {
    let name = if pair == 0 { "warm-up".to_owned() } else { format!("pair {pair}") };
    let first = if ours_first { "ours first" } else { "theirs first" };
    format!(
        "{name}, {first}: ours {:.0} {unit}s/s and {:.2} us CPU each, theirs {:.0}/s and {:.2} us; rate {:.3}, CPU {:.3}",
        ours.rate,
        ours.cpu,
        theirs.rate,
        theirs.cpu,
        ours.rate / theirs.rate,
        ours.cpu / theirs.cpu
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn run(rate: f64, cpu: f64) -> Run {
        Run { rate, cpu }
    }

    #[test]
    fn without_another_program_nothing_is_compared() {
        assert!(Against::read(&words("ingest --letters 5"), PathBuf::new).is_none());
    }

    #[test]
    fn pairs_and_bars_are_read_and_have_defaults() {
        let usual = Against::read(&words("ingest --against /a/dlo"), PathBuf::new).unwrap();
        assert_eq!((usual.pairs, usual.least_rate, usual.most_cpu), (9, 0.93, 1.03));
        let asked = words("ingest --against /a/dlo --commit abc --pairs 3 --rate 1.2 --cpu 0.8");
        let asked = Against::read(&asked, PathBuf::new).unwrap();
        assert_eq!((asked.pairs, asked.least_rate, asked.most_cpu), (3, 1.2, 0.8));
        assert_eq!((asked.commit.as_str(), asked.theirs.to_str()), ("abc", Some("/a/dlo")));
    }

    #[test]
    fn a_ratio_is_of_the_two_runs_of_one_pair() {
        let pairs = [
            (run(100.0, 10.0), run(100.0, 10.0)),
            (run(50.0, 11.0), run(100.0, 10.0)),
            (run(300.0, 30.0), run(200.0, 10.0)),
        ];
        let (rate, cpu) = ratios(&pairs);
        assert_eq!((rate.low, rate.middle, rate.high), (0.5, 1.0, 1.5));
        assert_eq!((cpu.low, cpu.middle, cpu.high), (1.0, 1.1, 3.0));
        assert_eq!(ratio(&rate), "median 1.000 (smallest 0.500, largest 1.500)");
    }

    #[test]
    fn a_missed_bar_is_remembered_and_so_is_a_figure_that_is_missing() {
        let against = || Against::read(&words("x --against /a"), PathBuf::new).unwrap();
        let judged = |ours: Run| {
            let against = against();
            against.judge(&[(ours, run(100.0, 10.0))], "letter");
            against.missed.get()
        };
        assert!(!judged(run(93.0, 10.3)));
        assert!(judged(run(92.0, 10.0)));
        assert!(judged(run(100.0, 10.4)));
        assert!(judged(run(100.0, f64::NAN)));
    }

    #[test]
    fn the_two_programs_begin_by_turns_and_the_warm_up_is_not_counted() {
        let line = "x --against theirs --pairs 3";
        let against = Against::read(&words(line), || PathBuf::from("ours")).unwrap();
        let mut order = Vec::new();
        let once = async |program: &Path| {
            order.push(program.display().to_string());
            let slow = order.len() <= 2 && order.last().is_some_and(|name| name == "ours");
            let spent = Duration::from_secs(if slow { 100 } else { 1 });
            Round { messages: 10, spent, client: Some(spent), server: None, peak_mb: None }
        };
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(against.compare("a test", "message", once));
        assert_eq!(order, ["theirs", "ours", "ours", "theirs", "theirs", "ours", "ours", "theirs"]);
        assert!(!against.missed.get());
    }
}
