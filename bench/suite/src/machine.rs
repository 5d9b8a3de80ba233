//! The machine that a run is made on: its size, and the versions of everything that takes part, as they say themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::bars::root;
use super::lines::Run;

/// The first line of a record: a run that began `at`, for what `bench/run` was asked.
pub fn run(at: &str, asked: &str) -> Run {
    let load = read("/proc/loadavg");
    Run {
        at: at.to_owned(),
        asked: asked.to_owned(),
        commit: commit(),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_mb: memory_mb(&read("/proc/meminfo")),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        load: load.split(' ').next().unwrap_or_default().to_owned(),
        versions: versions(),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn memory_mb(meminfo: &str) -> u64 {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:")).unwrap_or_default();
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    kilobytes / 1_024
}

/// The commit that is measured, and whether the tree is that commit.
fn commit() -> String {
    let git = |arguments: &[&str]| said(Command::new("git").arg("-C").arg(root()).args(arguments));
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some();
    if changed { format!("{commit} with changes") } else { commit }
}

/// What a command says, on whichever of its two voices; nothing if it is not there or says nothing.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let voice = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&voice).trim().to_owned()).filter(|words| !words.is_empty())
}

/// The first word that looks like a version.
fn version(words: &str) -> Option<String> {
    // `v20.19.2`, `go1.19.8`, `"17.0.15"`.
    let bare = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        word.trim_start_matches(|c: char| c.is_ascii_alphabetic()).to_owned()
    };
    let mut words = words.split([' ', '\n', '=']).map(bare);
    words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
}

fn versions() -> BTreeMap<String, String> {
    const ASKED: [(&str, &str, &str); 10] = [
        ("rustc", "rustc", "--version"),
        ("RabbitMQ", "rabbitmqctl", "version"),
        ("Redis", "redis-server", "--version"),
        ("NATS", "nats-server", "--version"),
        ("Python", "python3", "--version"),
        ("Node", "node", "--version"),
        ("Java", "java", "-version"),
        ("Ruby", "ruby", "--version"),
        ("Go", "go", "version"),
        ("Chromium", "chromium", "--version"),
    ];
    let mut versions = BTreeMap::new();
    for (name, program, argument) in ASKED {
        let installed = servers().join(name.to_lowercase()).join(program);
        let program = if installed.exists() { installed } else { PathBuf::from(program) };
        let words = said(Command::new(program).arg(argument)).and_then(|words| version(&words));
        versions.extend(words.map(|words| (name.to_owned(), words)));
    }
    versions.extend(postgres().map(|version| ("PostgreSQL".to_owned(), version)));
    versions.extend(jar("kafka-clients").map(|version| ("Kafka".to_owned(), version)));
    versions.extend(jar("spring-kafka").map(|version| ("Spring Kafka".to_owned(), version)));
    versions
}

/// Where the servers are that Debian does not package.
fn servers() -> PathBuf {
    std::env::var_os("DLO_TEST_SERVERS").map_or_else(|| root().join("target/servers"), PathBuf::from)
}

/// Debian keeps the server out of the path.
fn postgres() -> Option<String> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut programs: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin/postgres")).collect();
    programs.sort();
    version(&said(Command::new(programs.pop()?).arg("--version"))?)
}

/// The version in the name of a jar: `kafka-clients-4.1.1.jar`.
fn jar(name: &str) -> Option<String> {
    let jars = std::fs::read_dir(servers().join("kafka/lib")).ok()?.flatten();
    let names = jars.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names
        .filter_map(|jar| Some(jar.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".jar")?.to_owned()))
        .filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_is_found_in_whatever_a_program_says_of_itself() {
        let said = [
            ("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0"),
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1", "7.0.15"),
            ("nats-server: v2.15.1", "2.15.1"),
            ("v20.19.2", "20.19.2"),
            ("openjdk version \"17.0.15\" 2025-04-15", "17.0.15"),
            ("postgres (PostgreSQL) 15.13 (Debian 15.13-0)", "15.13"),
            ("go version go1.19.8 linux/amd64", "1.19.8"),
            ("3.10.8", "3.10.8"),
        ];
        for (words, expected) in said {
            assert_eq!(version(words).as_deref(), Some(expected), "{words}");
        }
    }
}
