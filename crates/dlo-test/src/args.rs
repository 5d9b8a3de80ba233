//! The command line of `./test`.

use std::fmt::Write as _;

use crate::tiers::{self, Set, Tier};

#[derive(Debug)]
pub(crate) enum Wanted {
    Help,
    List,
    Run(Request),
}

/// What one run does.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) tiers: Vec<&'static Tier>,
    /// `--skip postgres`: leaves out the tests with `postgres` in their name.
    pub(crate) skip_postgres: bool,
    /// `--only`: full names of tests; all others are left out.
    pub(crate) only: Vec<String>,
    /// `N/M`: which part of a tier that is too long for one sitting.
    pub(crate) shard: Option<String>,
    /// `--against`: the commit that bench-gate compares with.
    pub(crate) against: Option<String>,
    pub(crate) write: bool,
    pub(crate) may_install: bool,
    pub(crate) prepare_only: bool,
}

pub(crate) fn usage() -> String {
    let mut text = String::from(
        "usage: ./test [quick | full] [TIER…] [N/M] [options]\n\n\
         ./test          what CI runs\n\
         ./test quick    before a commit: no server, about a minute\n\
         ./test full     all of it and what is too slow for every run; `./test full TIER` is one of those\n\
         ./test TIER…    some tiers\n\n",
    );
    for set in [Set::Quick, Set::Every, Set::Full] {
        let _ = writeln!(text, "{}:", set.title());
        for tier in tiers::ALL.iter().filter(|tier| tier.set == set) {
            let _ = writeln!(text, "  {:<11} {}", tier.name, tier.about);
        }
    }
    text.push_str(
        "\noptions:\n  \
         --list          the tiers with their needs, budgets and last times\n  \
         --only TEST     just this test of the named tiers (repeat it for more)\n  \
         --skip TIER     leave a tier out; `--skip postgres` leaves out the tests that need PostgreSQL\n  \
         N/M             part N of M, for tiers that take shards: mutants, chaos\n  \
         --against REV   bench-gate: compare with another commit on this machine\n  \
         --write         tidy writes the map in ARCHITECTURE.md; bench-gate its baseline (with DLO_GATE_WHY=\"one sentence\")\n  \
         --no-install    never install anything; name what is missing instead\n  \
         --prepare       install what the tiers need, and stop there\n\n\
         DLO_TEST_POSTGRES, DLO_TEST_KAFKA, DLO_TEST_REDIS, DLO_TEST_NATS name servers that already run.\n\
         PROPTEST_CASES=10000 runs more cases of every property.\n",
    );
    text
}

pub(crate) fn parse(arguments: &[String]) -> Result<Wanted, String> {
    let mut request = Request { may_install: true, ..Request::default() };
    let (mut named, mut skipped, mut sets) = (Vec::new(), Vec::new(), vec![Set::Quick, Set::Every]);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value =
            |what: &str| rest.next().cloned().ok_or(format!("{argument} needs {what}; see ./test --help"));
        match argument.as_str() {
            "-h" | "--help" => return Ok(Wanted::Help),
            "--list" => return Ok(Wanted::List),
            "quick" => sets = vec![Set::Quick],
            "full" => sets = vec![Set::Quick, Set::Every, Set::Full],
            "--skip" => skipped.push(value("the name of a tier")?),
            "--only" => request.only.push(value("the full name of a test")?),
            "--against" => request.against = Some(value("a commit")?),
            "--write" => request.write = true,
            "--no-install" => request.may_install = false,
            "--prepare" => request.prepare_only = true,
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}; see ./test --help")),
            part if is_shard(part) => request.shard = Some(part.to_owned()),
            name => named.push(find(name)?),
        }
    }
    request.skip_postgres = skipped.iter().any(|name| name == "postgres");
    for name in skipped.iter().filter(|name| *name != "postgres") {
        find(name)?;
    }
    let chosen = tiers::ALL.iter().filter(|tier| match named.is_empty() {
        true => sets.contains(&tier.set),
        false => named.contains(&tier.name),
    });
    request.tiers = chosen.filter(|tier| !skipped.iter().any(|name| name == tier.name)).collect();
    check(request)
}

/// Options that would be ignored are refused instead.
fn check(request: Request) -> Result<Wanted, String> {
    if request.tiers.is_empty() {
        return Err("every tier was skipped".to_owned());
    }
    if request.shard.is_some() && !request.tiers.iter().all(|tier| tier.shards) {
        let sharded: Vec<&str> = tiers::ALL.iter().filter(|tier| tier.shards).map(|tier| tier.name).collect();
        return Err(format!("N/M goes with one of: {}", sharded.join(", ")));
    }
    if request.against.is_some() && !request.tiers.iter().any(|tier| tier.name == "bench-gate") {
        return Err("--against goes with bench-gate".to_owned());
    }
    if !request.only.is_empty() && request.tiers.len() > 3 {
        return Err("--only needs the tier beside it: ./test kafka --only kafka::suite::NAME".to_owned());
    }
    Ok(Wanted::Run(request))
}

fn is_shard(text: &str) -> bool {
    let numbers = text.split_once('/').map(|(part, of)| (part.parse::<u32>(), of.parse::<u32>()));
    matches!(numbers, Some((Ok(part), Ok(of))) if (1..=of).contains(&part))
}

fn find(name: &str) -> Result<&'static str, String> {
    let known = tiers::ALL.iter().map(|tier| tier.name);
    known.clone().find(|known| *known == name).ok_or_else(|| {
        format!("unknown tier {name}, expected one of: {}", known.collect::<Vec<_>>().join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<&'static str>, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&arguments)? {
            Wanted::Run(request) => Ok(request.tiers.iter().map(|tier| tier.name).collect()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn without_a_tier_everything_runs_that_is_not_too_slow() {
        let tiers = parsed("").unwrap();
        assert!(
            tiers.contains(&"core") && tiers.contains(&"kafka") && !tiers.contains(&"mutants"),
            "{tiers:?}"
        );
    }

    #[test]
    fn quick_starts_no_server_and_full_adds_to_every_run() {
        let quick = parsed("quick").unwrap();
        assert!(quick.contains(&"core") && !quick.contains(&"kafka"), "{quick:?}");
        assert!(parsed("full").unwrap().contains(&"mutants"));
        assert_eq!(parsed("full mutants 2/4").unwrap(), ["mutants"]);
    }

    #[test]
    fn a_word_that_means_nothing_is_refused_with_what_is_known() {
        let refusal = parsed("kafak").unwrap_err();
        assert!(refusal.contains("kafak") && refusal.contains("kafka"), "{refusal}");
        assert!(parsed("--fast").unwrap_err().contains("--fast"));
        assert!(parsed("--skip nothing").unwrap_err().contains("nothing"));
        assert!(parsed("core --skip core").unwrap_err().contains("skipped"));
    }

    #[test]
    fn an_option_that_would_do_nothing_is_refused() {
        assert!(parsed("core 1/2").unwrap_err().contains("mutants"));
        assert!(parsed("core --against HEAD").unwrap_err().contains("bench-gate"));
        assert!(parsed("--only a::b").unwrap_err().contains("tier"));
    }
}
