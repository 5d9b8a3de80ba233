//! What a tier is: what it runs, what it needs, how long it may take, and what may run beside it.

mod table;

pub(crate) use table::ALL;

use crate::needs::Need;

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) set: Set,
    pub(crate) load: Load,
    /// Seconds on two cores beside other tiers. A tier that takes longer is named at the end of the run.
    pub(crate) budget: u64,
    pub(crate) needs: &'static [Need],
    pub(crate) work: &'static [Work],
    /// Whether `N/M` runs a part of it.
    pub(crate) shards: bool,
}

/// When a tier runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// Always, `./test quick` included.
    Quick,
    /// In every run but the quick one.
    Every,
    /// In `./test full`, or when named.
    Full,
}

/// What a tier does most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// It measures time, so it runs alone.
    Measures,
    /// It keeps the processor busy.
    Computes,
    /// It waits for servers, leases and clocks.
    Waits,
}

/// One step of a tier.
#[derive(Debug)]
pub(crate) enum Work {
    /// A command that passes or fails as a whole.
    Command(&'static [&'static str]),
    /// Warnings of compiler and clippy, collected by the build.
    Lints,
    /// Docs of all crates, and the examples in them.
    Docs,
    /// Every feature of `dlo` compiled alone, and none.
    Features,
    /// `bench/gate/run`, with the options of the command line.
    Gate,
    /// cargo-mutants over the files that decide.
    Mutants,
    /// Tests of the page in Chromium, one office and one browser per file.
    Page,
    Tests(Tests),
}

/// Tests of one package.
#[derive(Debug)]
pub(crate) struct Tests {
    pub(crate) package: &'static str,
    /// `""` means every target of the package.
    pub(crate) target: &'static str,
    /// Prefixes of test names; none means all.
    pub(crate) only: &'static [&'static str],
    pub(crate) skip: &'static [&'static str],
    /// How many at once; 0 means as many as there are cores.
    pub(crate) threads: usize,
    pub(crate) env: &'static [(&'static str, &'static str)],
}

impl Tier {
    /// A tier of every run that computes for a minute and needs nothing. What differs is said by the functions below.
    const fn new(name: &'static str, about: &'static str, work: &'static [Work]) -> Self {
        Self {
            name,
            about,
            set: Set::Every,
            load: Load::Computes,
            budget: 60,
            needs: &[],
            work,
            shards: false,
        }
    }

    const fn set(mut self, set: Set) -> Self {
        self.set = set;
        self
    }

    const fn load(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    const fn budget(mut self, seconds: u64) -> Self {
        self.budget = seconds;
        self
    }

    const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    const fn in_shards(mut self) -> Self {
        self.shards = true;
        self
    }
}

impl Tests {
    const fn of(package: &'static str) -> Self {
        Self { package, target: "", only: &[], skip: &[], threads: 0, env: &[] }
    }

    const fn target(mut self, target: &'static str) -> Self {
        self.target = target;
        self
    }

    const fn only(mut self, prefixes: &'static [&'static str]) -> Self {
        self.only = prefixes;
        self
    }

    const fn skip(mut self, prefixes: &'static [&'static str]) -> Self {
        self.skip = prefixes;
        self
    }

    const fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    const fn env(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.env = variables;
        self
    }
}

impl Set {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Set::Quick => "in every run, and in `./test quick`",
            Set::Every => "in every run",
            Set::Full => "in `./test full`, or when named",
        }
    }
}

impl Tier {
    /// Packages whose test binaries the tier runs. The page and the tests of the command start `dlo` itself.
    pub(crate) fn packages(&self) -> Vec<&'static str> {
        let package = |work: &Work| match work {
            Work::Tests(tests) => Some(tests.package),
            Work::Page | Work::Lints | Work::Docs => Some("dlo-cli"),
            Work::Command(_) | Work::Features | Work::Gate | Work::Mutants => None,
        };
        self.work.iter().filter_map(package).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_and_every_tier_does_something() {
        let mut names: Vec<&str> = ALL.iter().map(|tier| tier.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|tier| !tier.work.is_empty() && tier.budget > 0));
    }

    #[test]
    fn every_test_of_the_command_belongs_to_one_tier() {
        let tests = ALL.iter().filter(|tier| tier.set != Set::Full).flat_map(|tier| tier.work);
        let on_it = tests.filter_map(|work| match work {
            Work::Tests(tests) if tests.package == "dlo-cli" && tests.target == "it" => Some(tests),
            _ => None,
        });
        for area in ["kill::", "drain::", "consume::", "stories::", "replay::"] {
            let tiers = on_it.clone().filter(|tests| tests.only.iter().any(|only| only.starts_with(area)));
            let left_out = on_it.clone().filter(|tests| tests.only.is_empty() && tests.skip.contains(&area));
            assert!(tiers.count() >= 1 && left_out.count() == 1, "{area}");
        }
    }
}
