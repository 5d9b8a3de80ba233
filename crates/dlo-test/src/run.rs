//! Runs one tier: its steps in order, each with its output in the tier's log.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::args::Request;
use crate::build::{self, Binary, Built};
use crate::docs;
use crate::libtest::{self, Failure, Outcome};
use crate::process::{self, Ended};
use crate::scratch::{self, LOGS};
use crate::tiers::{Tests, Tier, Work};

/// More retries than this in one run are failures: a machine that bad proves nothing.
const MOST_RETRIES: usize = 3;
/// What a step may take beyond the budget of its tier before it is killed.
const PATIENCE: u32 = 5;
const SHORTEST_LIMIT: Duration = Duration::from_secs(600);

/// What all tiers of a run share.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) request: &'a Request,
    pub(crate) binaries: Vec<Binary>,
    pub(crate) built: &'a Built,
    /// Variables that name the servers started for this run.
    pub(crate) servers: Vec<(String, String)>,
    pub(crate) retries: &'a AtomicUsize,
}

/// The outcome of a tier.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<Failure>,
    /// Tests that passed when they were run again, with the reason that they declare.
    pub(crate) retried: Vec<(String, String)>,
    pub(crate) seconds: u64,
}

/// A tier on its way.
struct Running<'a> {
    run: &'a Run<'a>,
    tier: &'static Tier,
    log: PathBuf,
    /// Temporary files of this tier's tests and servers.
    folder: PathBuf,
    report: Report,
}

/// Runs `tier`, and never panics: what goes wrong is a failure of the tier.
pub(crate) fn tier(run: &Run<'_>, tier: &'static Tier) -> Report {
    let start = Instant::now();
    let mut report = try_tier(run, tier).unwrap_or_else(|why| {
        let failure = Failure { test: tier.name.to_owned(), output: why };
        Report { failures: vec![failure], ..Report::default() }
    });
    if report.passed == 0 && report.failures.is_empty() {
        report.failures.push(Failure { test: tier.name.to_owned(), output: "no test ran".to_owned() });
    }
    report.seconds = start.elapsed().as_secs();
    report
}

fn try_tier(run: &Run<'_>, tier: &'static Tier) -> Result<Report, String> {
    let log = PathBuf::from(LOGS).join(format!("{}.log", tier.name));
    let _ = std::fs::remove_file(&log);
    let folder = scratch::make(tier.name)?;
    let mut running = Running { run, tier, log, folder, report: Report::default() };
    for work in tier.work {
        running.step(work)?;
    }
    running.keep_server_logs();
    Ok(running.report)
}

impl Running<'_> {
    fn step(&mut self, work: &Work) -> Result<(), String> {
        match work {
            Work::Tests(tests) => return self.tests(tests),
            Work::Page => return self.page(),
            Work::Lints => self.lints(),
            Work::Command(line) => {
                let mut command = Command::new(line[0]);
                command.args(&line[1..]);
                self.check(command)?;
            }
            Work::Docs => {
                let ended = docs::run(&self.log, self.limit())?;
                let outcome = libtest::parse(&self.text());
                self.report.passed += outcome.passed + usize::from(ended == Ended::Passed);
                self.judge("docs", ended, outcome.failures);
            }
            Work::Features => return self.features(),
            Work::Gate => {
                let mut command = Command::new("bench/gate/run");
                if self.run.request.write {
                    command.arg("--write");
                }
                command.args(self.run.request.against.iter().flat_map(|commit| ["--against", commit]));
                self.check(command)?;
                println!("{}", self.text());
            }
            Work::Mutants => {
                let mut command = Command::new("crates/dlo-testkit/mutants");
                command.args(&self.run.request.shard);
                self.check(command)?;
                println!("{}", self.text());
            }
        }
        Ok(())
    }

    fn limit(&self) -> Duration {
        SHORTEST_LIMIT.max(Duration::from_secs(self.tier.budget) * PATIENCE)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// A command that passes or fails as a whole counts as one test.
    fn check(&mut self, command: Command) -> Result<(), String> {
        let name = format!("{command:?}").replace('"', "");
        let ended = process::run(command, &self.log, self.limit())?;
        self.report.passed += usize::from(ended == Ended::Passed);
        self.judge(&name, ended, Vec::new());
        Ok(())
    }

    /// Adds the failures of a step. One that names no test has failed as a whole.
    fn judge(&mut self, step: &str, ended: Ended, failures: Vec<Failure>) {
        let note = match ended {
            Ended::TooLong => format!("killed after {} s", self.limit().as_secs()),
            Ended::Failed if failures.is_empty() => self.text(),
            Ended::Passed | Ended::Failed => String::new(),
        };
        if !note.is_empty() {
            self.report.failures.push(Failure { test: step.to_owned(), output: note });
        }
        self.report.failures.extend(failures);
    }

    fn lints(&mut self) {
        let warnings = &self.run.built.warnings;
        self.report.passed += usize::from(warnings.is_empty());
        for warning in warnings {
            self.report.failures.push(Failure { test: "clippy".to_owned(), output: warning.clone() });
        }
    }

    /// Runs every binary that `tests` names.
    fn tests(&mut self, tests: &Tests) -> Result<(), String> {
        let wanted = |binary: &&Binary| {
            let whole = tests.target.is_empty() && binary.target != "tidy";
            binary.is_test && binary.package == tests.package && (whole || binary.target == tests.target)
        };
        for binary in self.run.binaries.iter().filter(wanted) {
            let outcome = self.binary(binary, tests, None)?;
            self.report.passed += outcome.passed;
            for failure in outcome.failures {
                self.fail_or_retry(binary, tests, failure)?;
            }
        }
        Ok(())
    }

    /// Runs a failed test again, alone, if it declares that it may be.
    fn fail_or_retry(&mut self, binary: &Binary, tests: &Tests, failure: Failure) -> Result<(), String> {
        let Some(reason) = failure.retry_reason().map(str::to_owned) else {
            self.report.failures.push(failure);
            return Ok(());
        };
        let may = self.run.retries.fetch_add(1, Ordering::SeqCst) < MOST_RETRIES;
        let passed = may && {
            let again = self.binary(binary, tests, Some(&failure.test))?;
            again.passed == 1 && again.failures.is_empty()
        };
        if passed {
            self.report.passed += 1;
            self.report.retried.push((failure.test, reason));
        } else {
            self.report.failures.push(failure);
        }
        Ok(())
    }

    fn binary(&mut self, binary: &Binary, tests: &Tests, only: Option<&str>) -> Result<Outcome, String> {
        let mut command = Command::new(&binary.path);
        command.current_dir(&binary.folder);
        let chosen = self.run.request.only.iter().map(String::as_str);
        let exact: Vec<&str> = only.map_or_else(|| chosen.collect(), |test| vec![test]);
        match exact.is_empty() {
            false => command.arg("--exact").args(exact),
            true => command.args(tests.only).args(tests.skip.iter().flat_map(|name| ["--skip", name])),
        };
        if self.run.request.write {
            command.env("DLO_TIDY_WRITE", "1");
        }
        if self.run.request.skip_postgres {
            command.args(["--skip", "postgres"]);
        }
        if tests.threads > 0 {
            command.arg(format!("--test-threads={}", tests.threads));
        }
        command.arg("--show-output");
        for (name, value) in tests.env {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        if let Some(shard) = &self.run.request.shard {
            command.args(shard_of(binary, tests, shard)?);
        }
        let (ended, output) = self.logged(command)?;
        let mut outcome = libtest::parse(&output);
        if !outcome.finished || ended == Ended::TooLong {
            let name = format!("{} {}", binary.package, binary.target);
            outcome.failures.push(Failure { test: name, output: died(ended, &output) });
        }
        Ok(outcome)
    }

    /// Runs one test binary, or Node, and returns what this command printed.
    fn logged(&mut self, mut command: Command) -> Result<(Ended, String), String> {
        let before = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        command.env("TMPDIR", &self.folder).env("DLO_TEST_SERVER_LOGS", self.server_logs()?);
        command.envs(self.run.servers.iter().map(|(name, value)| (name, value)));
        let ended = process::run(command, &self.log, self.limit())?;
        let all = std::fs::read(&self.log).map_err(|why| format!("{}: {why}", self.log.display()))?;
        let from = usize::try_from(before).unwrap_or(0);
        Ok((ended, String::from_utf8_lossy(&all[from..]).into_owned()))
    }

    fn page(&mut self) -> Result<(), String> {
        let root = std::env::current_dir().map_err(|why| format!("no working directory: {why}"))?;
        let servers =
            std::env::var_os("DLO_TEST_SERVERS").map_or_else(|| root.join("target/servers"), PathBuf::from);
        for file in page_tests(Path::new("crates/dlo-cli/tests/page"))? {
            let run = |running: &mut Self| {
                let mut command = Command::new("node");
                command.args(["--test", "--test-reporter=tap"]).arg(&file);
                command
                    .env("DLO_BIN", root.join("target/debug/dlo"))
                    .env("DLO_PAGE_SHOTS", root.join("target/page"));
                command.env("DLO_PAGE_MODULES", servers.join("browser"));
                let (ended, output) = running.logged(command)?;
                let mut outcome = libtest::parse_tap(&output);
                if !outcome.finished || ended == Ended::TooLong {
                    outcome
                        .failures
                        .push(Failure { test: file.display().to_string(), output: died(ended, &output) });
                }
                Ok::<Outcome, String>(outcome)
            };
            let mut outcome = run(self)?;
            // The tests of a file follow one another in one browser, so a retry is of the whole file.
            let reason = outcome.failures.iter().find_map(Failure::retry_reason).map(str::to_owned);
            if let Some(reason) =
                reason.filter(|_| outcome.failures.iter().all(|failure| failure.retry_reason().is_some()))
                && self.run.retries.fetch_add(1, Ordering::SeqCst) < MOST_RETRIES
            {
                outcome = run(self)?;
                if outcome.failures.is_empty() {
                    self.report.retried.push((file.display().to_string(), reason));
                }
            }
            self.report.passed += outcome.passed;
            self.report.failures.extend(outcome.failures);
        }
        Ok(())
    }

    /// Compiles `dlo` with no feature, and with each alone.
    fn features(&mut self) -> Result<(), String> {
        for feature in std::iter::once(None).chain(features_of_dlo()?.iter().map(|name| Some(name.as_str())))
        {
            let mut command = Command::new("cargo");
            command.args(["check", "--locked", "-p", "dlo-cli", "--no-default-features"]);
            command.args(feature.iter().flat_map(|name| ["--features", name]));
            build::as_the_build_does(&mut command);
            command.env_remove("RUSTC_WORKSPACE_WRAPPER").env("RUSTFLAGS", "-D warnings");
            self.check(command)?;
        }
        Ok(())
    }

    fn server_logs(&self) -> Result<PathBuf, String> {
        scratch::make(&format!("{}-servers", self.tier.name))
    }

    /// Servers leave their logs behind; they are kept only if a test failed.
    fn keep_server_logs(&self) {
        let kept = PathBuf::from(LOGS).join(format!("{}-servers", self.tier.name));
        let _ = std::fs::remove_dir_all(&kept);
        if self.report.failures.is_empty() {
            return;
        }
        if let Ok(logs) = self.server_logs()
            && std::fs::create_dir_all(&kept).is_ok()
        {
            for log in std::fs::read_dir(logs).into_iter().flatten().flatten() {
                let _ = std::fs::copy(log.path(), kept.join(log.file_name()));
            }
        }
    }
}

fn died(ended: Ended, output: &str) -> String {
    let why =
        if ended == Ended::TooLong { "was killed: it took too long" } else { "ended before its result line" };
    format!("the program {why}\n{output}")
}

fn page_tests(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".test.mjs"));
    files.sort();
    Ok(files)
}

/// The names in `[features]` of dlo-cli, without `default`.
fn features_of_dlo() -> Result<Vec<String>, String> {
    let path = "crates/dlo-cli/Cargo.toml";
    let manifest = std::fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))?;
    let section = manifest.split("\n[features]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let names =
        section.lines().filter_map(|line| line.split_once(" = [")).map(|(name, _)| name.trim().to_owned());
    Ok(names.filter(|name| name != "default").collect())
}

/// Of the tests that the filters choose, those of part N of M.
fn shard_of(binary: &Binary, tests: &Tests, shard: &str) -> Result<Vec<String>, String> {
    let (part, of) = shard.split_once('/').ok_or("a shard is N/M")?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{shard} is no shard"));
    let (part, of) = (number(part)?, number(of)?);
    let mut command = Command::new(&binary.path);
    command.args(tests.only).args(tests.skip.iter().flat_map(|name| ["--skip", name]));
    let listed = command
        .args(["--list", "--format=terse"])
        .output()
        .map_err(|why| format!("cannot list tests: {why}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let others = names.enumerate().filter(|(index, _)| index % of != part - 1);
    Ok(others.flat_map(|(_, name)| ["--skip".to_owned(), name.to_owned()]).collect())
}
