//! A count beside the recorded one: the verdict, the line that shows it, and what to do about it.

use std::fmt;

use crate::baseline::{Baseline, FILE};

/// How much dearer an operation may be than recorded. Two runs of one build differ by far less.
const TOLERANCE: f64 = 0.02;
/// The same with another compiler, C library or processor than the baseline's: they move every count, so only a loop
/// that has become another one is found.
const WIDE: f64 = 0.10;

pub(crate) const HEAD: &str = "loop             instructions     recorded    change  verdict";

pub(crate) const fn tolerance(same_ground: bool) -> f64 {
    if same_ground { TOLERANCE } else { WIDE }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    /// Cheaper than recorded by more than the tolerance: worth recording, or the gain can be lost unseen.
    Better,
    Worse,
    /// Nothing was recorded for it.
    Unknown,
}

impl Verdict {
    pub(crate) const fn fails(self) -> bool {
        match self {
            Self::Worse | Self::Unknown => true,
            Self::Holds | Self::Better => false,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Better => "better: record it",
            Self::Worse => "WORSE",
            Self::Unknown => "NOT RECORDED",
        }
    }
}

pub(crate) fn verdict(now: u64, was: Option<u64>, tolerance: f64) -> Verdict {
    match was.map(|was| change(now, was)) {
        None => Verdict::Unknown,
        Some(change) if change > tolerance => Verdict::Worse,
        Some(change) if change < -tolerance => Verdict::Better,
        Some(_) => Verdict::Holds,
    }
}

/// By which share of what it was it is dearer; below zero if cheaper.
pub(crate) fn change(now: u64, was: u64) -> f64 {
    (now as f64 - was as f64) / was.max(1) as f64
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) name: &'static str,
    pub(crate) now: u64,
    pub(crate) was: Option<u64>,
    pub(crate) verdict: Verdict,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let was = self.was.map_or("-".into(), |was| was.to_string());
        let change = self.was.map_or("-".into(), |was| format!("{:+.2} %", 100.0 * change(self.now, was)));
        let (name, now, word) = (self.name, self.now, self.verdict.word());
        write!(f, "{name:<16} {now:>12} {was:>12} {change:>9}  {word}")
    }
}

/// What all lines together mean.
pub(crate) fn conclude(judged: &[Judged], recorded: &Baseline) -> Result<(), String> {
    let mut problems: Vec<String> =
        judged.iter().filter(|line| line.verdict.fails()).map(directions).collect();
    let gone = recorded.instructions.keys().filter(|name| judged.iter().all(|line| line.name != **name));
    problems.extend(gone.map(|name| format!("`{name}` is recorded and is no loop any more; {RECORD}")));
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\ngate: ")) }
}

const RECORD: &str = "record anew: DLO_GATE_WHY=\"one sentence\" ./test bench-gate --write";

fn directions(line: &Judged) -> String {
    let name = line.name;
    match line.was {
        None => format!("`{name}` has no line in {FILE}; {RECORD}"),
        Some(was) => format!(
            "`{name}` takes {} instructions, recorded are {was}. To see where they go: \
             valgrind --tool=callgrind target/gate/gate run {name} 200 400, then callgrind_annotate callgrind.out.*. \
             If they are worth it, {RECORD}",
            line.now
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::Ground;

    #[test]
    fn a_count_within_the_tolerance_holds_and_one_beyond_it_does_not() {
        let two = |now| verdict(now, Some(10_000), 0.02);
        assert_eq!([two(10_200), two(9_800), two(10_000)], [Verdict::Holds; 3]);
        assert_eq!([two(10_201), two(9_799)], [Verdict::Worse, Verdict::Better]);
    }

    #[test]
    fn what_was_never_recorded_fails_and_what_has_become_better_does_not() {
        assert!(verdict(1, None, 0.02).fails());
        assert!(!verdict(1, Some(10_000), 0.02).fails());
        assert!(verdict(1, Some(0), 0.02).fails());
    }

    fn judged(now: u64, was: Option<u64>) -> Judged {
        Judged { name: "decide", now, was, verdict: verdict(now, was, tolerance(true)) }
    }

    #[test]
    fn a_failure_names_the_loop_both_counts_and_what_to_do() {
        let recorded = Baseline::new("a test", Ground::default());
        let problem = conclude(&[judged(300, Some(100))], &recorded).unwrap_err();
        for part in ["`decide` takes 300", "recorded are 100", "callgrind_annotate", "DLO_GATE_WHY"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
        assert_eq!(conclude(&[judged(101, Some(100)), judged(50, Some(100))], &recorded), Ok(()));
    }

    #[test]
    fn a_recorded_loop_that_is_gone_is_noticed() {
        let mut recorded = Baseline::new("a test", Ground::default());
        recorded.instructions.insert("gone".into(), 7);
        let problem = conclude(&[judged(100, Some(100))], &recorded).unwrap_err();
        assert!(problem.contains("`gone`"), "{problem}");
    }

    #[test]
    fn a_line_shows_the_change_with_its_sign() {
        assert_eq!(
            judged(105, Some(100)).to_string(),
            "decide                    105          100   +5.00 %  WORSE"
        );
        assert!(judged(105, None).to_string().ends_with("NOT RECORDED"));
    }
}
