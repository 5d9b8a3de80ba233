//! What tiers need from the machine: Debian packages, servers that Debian does not package, and cargo-mutants.
//!
//! A run first prints what it will install, then installs it. With `--no-install` it prints what is missing and stops.

mod cargo_mutants;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::args::Request;
use crate::process;
use crate::process::has_program;
use crate::scratch::LOGS;

/// Something that a tier cannot run without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    ActiveMq,
    Artemis,
    Browser,
    CargoMutants,
    Curl,
    Java,
    Kafka,
    Languages,
    Nats,
    Postgres,
    Prometheus,
    Python,
    Rabbitmq,
    Redis,
    Sqs,
    Valgrind,
    Valkey,
}

/// A Debian package, and what shows that it is there.
#[derive(Debug)]
struct Package {
    name: &'static str,
    probe: Probe,
}

#[derive(Debug)]
enum Probe {
    Program(&'static str),
    File(&'static str),
    Check(fn() -> bool),
}

const fn program(name: &'static str, package: &'static str) -> Package {
    Package { name: package, probe: Probe::Program(name) }
}

const fn file(path: &'static str, package: &'static str) -> Package {
    Package { name: package, probe: Probe::File(path) }
}

const JAVA: Package = program("java", "default-jdk-headless");
const JAVAC: Package = program("javac", "default-jdk-headless");
const MAVEN: Package = program("mvn", "maven");
const PIP: Package = program("pip", "python3-pip");
const NODE: Package = program("node", "nodejs");
const VENV: Package = Package { name: "python3-venv", probe: Probe::Check(has_venv) };
const POSTGRES: Package = Package { name: "postgresql", probe: Probe::Check(has_postgres) };
const RABBITMQ: Package = file("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server");

/// What compiling the workspace takes. With the system's OpenSSL its own is not compiled, which saves minutes.
const ALWAYS: &[Package] = &[
    program("cc", "build-essential"),
    program("make", "make"),
    program("perl", "perl"),
    program("openssl", "openssl"),
    program("pkg-config", "pkg-config"),
    file("/usr/include/openssl/ssl.h", "libssl-dev"),
];

impl Need {
    fn packages(self) -> &'static [Package] {
        match self {
            Need::ActiveMq => {
                const {
                    &[
                        JAVA,
                        file("/usr/share/activemq/bin/activemq.jar", "activemq"),
                        file("/usr/share/java/xstream.jar", "libxstream-java"),
                        file("/usr/share/java/jettison.jar", "libjettison-java"),
                    ]
                }
            }
            Need::Artemis | Need::Kafka => const { &[JAVA, JAVAC, MAVEN] },
            Need::Browser => const { &[program("chromium", "chromium"), NODE] },
            Need::Curl => const { &[program("curl", "curl")] },
            Need::Java => const { &[JAVA] },
            Need::Languages => {
                const { &[program("python3", "python3"), NODE, program("go", "golang"), JAVA, JAVAC] }
            }
            Need::Nats => const { &[program("nats-server", "nats-server"), PIP] },
            Need::Postgres => const { &[POSTGRES] },
            Need::Prometheus => const { &[program("promtool", "prometheus")] },
            Need::Python => const { &[program("python3", "python3"), VENV] },
            Need::Rabbitmq => const { &[RABBITMQ] },
            Need::Redis => const { &[program("redis-server", "redis-server")] },
            Need::Sqs => const { &[JAVA, JAVAC, MAVEN, VENV] },
            Need::Valgrind => const { &[program("valgrind", "valgrind")] },
            Need::CargoMutants | Need::Valkey => const { &[] },
        }
    }

    /// The folder below `crates/dlo-testkit/servers` whose `install` brings it.
    pub(crate) fn server(self) -> Option<&'static str> {
        match self {
            Need::Artemis => Some("artemis"),
            Need::Browser => Some("browser"),
            Need::Kafka => Some("kafka"),
            Need::Nats => Some("nats"),
            Need::Python => Some("python"),
            Need::Sqs => Some("sqs"),
            Need::Valkey => Some("valkey"),
            _ => None,
        }
    }

    /// As the list of tiers shows it.
    pub(crate) fn name(self) -> String {
        match self {
            Need::CargoMutants => "cargo-mutants".to_owned(),
            _ => format!("{self:?}").to_lowercase(),
        }
    }
}

impl Package {
    fn is_missing(&self) -> bool {
        match self.probe {
            Probe::Program(name) => !has_program(name),
            Probe::File(path) => !Path::new(path).exists(),
            Probe::Check(there) => !there(),
        }
    }
}

fn has_postgres() -> bool {
    std::env::var_os("DLO_TEST_POSTGRES").is_some()
        || has_program("initdb")
        || std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|versions| versions.count() > 0)
}

fn has_venv() -> bool {
    let quiet = Command::new("/usr/bin/python3")
        .args(["-c", "import ensurepip"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

/// Servers that are being installed beside the build.
#[derive(Debug)]
pub(crate) struct Installing(Option<JoinHandle<Result<(), String>>>);

impl Installing {
    /// Waits for the installs. A server that could not be installed is an error with the end of its log.
    pub(crate) fn finish(self) -> Result<(), String> {
        self.0.map_or(Ok(()), |thread| thread.join().map_err(|_| "an install panicked".to_owned())?)
    }
}

/// Installs packages, and starts to install servers.
pub(crate) fn install(request: &Request) -> Result<Installing, String> {
    let needs: Vec<Need> = request.tiers.iter().flat_map(|tier| tier.needs.iter().copied()).collect();
    let needs = needs.iter().filter(|need| !(request.skip_postgres && **need == Need::Postgres));
    let packages = ALWAYS.iter().chain(needs.clone().flat_map(|need| need.packages()));
    let mut missing: BTreeSet<&str> =
        packages.filter(|package| package.is_missing()).map(|package| package.name).collect();
    // Some builds of Node bring npm along and refuse Debian's; the others need it.
    if needs.clone().any(|need| *need == Need::Browser) && !has_program("npm") && has_program("node") {
        missing.insert("npm");
    }
    let servers: BTreeSet<&'static str> = needs.clone().filter_map(|need| need.server()).collect();
    let tool = needs.clone().any(|need| *need == Need::CargoMutants) && !cargo_mutants::is_installed();
    let missing_servers = servers.iter().copied().filter(|name| !is_installed(name)).collect();
    announce(request, &missing, &missing_servers, tool)?;
    install_packages(&missing)?;
    if tool {
        cargo_mutants::install()?;
    }
    if servers.is_empty() || !request.may_install {
        return Ok(Installing(None));
    }
    Ok(Installing(Some(std::thread::spawn(move || install_servers(&servers)))))
}

/// Prints what will be installed, or fails with what is missing.
fn announce(
    request: &Request,
    packages: &BTreeSet<&str>,
    servers: &BTreeSet<&str>,
    tool: bool,
) -> Result<(), String> {
    let mut plan = Vec::new();
    if !packages.is_empty() {
        plan.push(format!("Debian packages: {}", listed(packages)));
    }
    if !servers.is_empty() {
        plan.push(format!("servers, below target/servers: {}", listed(servers)));
    }
    if tool {
        plan.push(format!("cargo-mutants {}, below target/tools", cargo_mutants::VERSION));
    }
    if plan.is_empty() {
        return Ok(());
    }
    let plan = plan.join("; ");
    let cannot = !packages.is_empty() && (!is_root() || !has_program("apt-get"));
    if !request.may_install || cannot {
        return Err(format!("missing: {plan}\n  {}", directions(packages, servers, tool)));
    }
    println!("test: installs {plan}");
    Ok(())
}

/// How to install by hand what is missing.
fn directions(packages: &BTreeSet<&str>, servers: &BTreeSet<&str>, tool: bool) -> String {
    let mut ways = Vec::new();
    if !packages.is_empty() {
        ways.push(format!("packages with `apt-get install {}`", listed(packages)));
    }
    if !servers.is_empty() {
        ways.push("servers with `crates/dlo-testkit/servers/NAME/install`".to_owned());
    }
    if tool {
        ways.push(format!("cargo-mutants with `cargo {}`", cargo_mutants::INSTALL.join(" ")));
    }
    format!("install {}, or leave tiers out with --skip", ways.join(", "))
}

fn listed(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(" ")
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Installs Debian packages. The tests start servers themselves, so packaged services must not start.
fn install_packages(names: &BTreeSet<&str>) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let policy = NoServices::set()?;
    let log = PathBuf::from(LOGS).join("install-packages.log");
    let mut install = vec!["install", "-y", "-qq", "-o", "Acquire::Retries=3", "--no-install-recommends"];
    install.extend(names);
    for arguments in [vec!["update", "-qq", "-o", "Acquire::Retries=3"], install] {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        if process::run(command, &log, Duration::from_secs(1200))? != process::Ended::Passed {
            return Err(format!("apt-get failed:\n{}", tail(&log)));
        }
    }
    drop(policy);
    Ok(())
}

/// A policy that keeps packaged services from starting, unless the machine has one already. Removed when dropped.
struct NoServices(Option<&'static Path>);

impl NoServices {
    fn set() -> Result<Self, String> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = Path::new("/usr/sbin/policy-rc.d");
        if path.exists() {
            return Ok(Self(None));
        }
        std::fs::write(path, "#!/bin/sh\nexit 101\n")
            .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)))
            .map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        Ok(Self(Some(path)))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether the server is there. In which version, its `install` checks itself, which is quick.
fn is_installed(name: &str) -> bool {
    servers_folder().join(name).join(".installed").exists()
}

fn servers_folder() -> PathBuf {
    std::env::var_os("DLO_TEST_SERVERS").map_or_else(|| "target/servers".into(), PathBuf::from)
}

/// One after the other: Maven's repository is shared. A registry that fails once must not cost the run, so each script,
/// which continues where it was, has three tries.
fn install_servers(names: &BTreeSet<&str>) -> Result<(), String> {
    for name in names {
        let log = PathBuf::from(LOGS).join(format!("install-{name}.log"));
        let script = format!("crates/dlo-testkit/servers/{name}/install");
        let attempt = || process::run(Command::new(&script), &log, Duration::from_secs(1200));
        let mut ended = attempt()?;
        for pause in [5, 10] {
            if ended != process::Ended::Passed {
                std::thread::sleep(Duration::from_secs(pause));
                ended = attempt()?;
            }
        }
        if ended != process::Ended::Passed {
            return Err(format!("{name} could not be installed:\n{}", tail(&log)));
        }
    }
    Ok(())
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
