//! Commands that run on this machine: the office itself, and what needs no office.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use dlo_core::units::{ByteSize, HumanDuration};

use super::client::ClientArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dlo serve                                       on 127.0.0.1:8404, data in ./dlo-data
  dlo serve --data /var/lib/dlo --log-format json
  DLO_TOKEN=… dlo serve --listen 0.0.0.0:8404     beyond this machine a token is demanded

SIGTERM and SIGINT finish what is in flight and stop; a second one stops at once. SIGHUP reads owners and
redaction of the config anew.")]
pub(crate) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:8404]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// Directory of the embedded store [default: dlo-data]
    #[arg(long, value_name = "DIR", conflicts_with = "database")]
    pub(crate) data: Option<PathBuf>,

    /// Use PostgreSQL at this address instead of the embedded store
    #[arg(long, value_name = "URL", env = "DLO_DATABASE", hide_env_values = true)]
    pub(crate) database: Option<String>,

    /// Token that clients must show
    #[arg(long, value_name = "TOKEN", env = "DLO_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// How logs look; auto is text on a terminal and JSON elsewhere [default: auto]
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogFormat>,

    /// What is logged: error, warn, info, debug, trace, or a filter such as `dlo_server=debug,warn` [default: info]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dlo consume                           every consumer of ./dlo.toml
  dlo consume --source orders           only those that read the source `orders`
  curl http://127.0.0.1:8405/status     how each of them stands; also /metrics, /healthz and /readyz

Each message is a POST to the consumer's `handler`: 2xx is done, anything else is retried, parked or discarded as its
answer and the rules say. See docs/reference/consume.md.

SIGTERM and SIGINT let handlers finish and stop; a second one stops at once. SIGHUP reads the config anew; consumers
whose settings have changed drain and begin again.")]
pub(crate) struct ConsumeArgs {
    /// Run the consumers of this source, or of this queue where they name one; repeat for more [default: all]
    #[arg(long = "source", value_name = "NAME")]
    pub(crate) sources: Vec<String>,

    /// Where health, status and metrics are served [default: 127.0.0.1:8405]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Auto,
    Text,
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dlo demo                   go on with the data of the last time, if there is any
  dlo demo --fresh           begin anew
  dlo demo --orders 10000 --exit")]
pub(crate) struct DemoArgs {
    /// Forget what a former demo left
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Where the office listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8404")]
    pub(crate) listen: std::net::SocketAddr,

    /// Directory of the demo's store
    #[arg(long, value_name = "DIR", default_value = "dlo-demo-data")]
    pub(crate) data: PathBuf,

    /// How many orders the shop takes
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) orders: u64,

    /// Stop when the story is over instead of leaving the office running
    #[arg(long)]
    pub(crate) exit: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each line says what works (✓), what is missing (✗) or weaker than it should be (!), and what to do about it. Ends with
exit code 1 if anything is missing. It needs no running office, and looks at one if there is one.
Without --server that is the one at `server.listen` of the config.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Lists each thing that does not work with since when, why, and what to do about it.
Without --server it asks the office at `server.listen` of the config.

Exit codes: 0 nothing is wrong, 7 something is wrong, 5 the office does not answer.

Examples:
  dlo status
  dlo status --json | jq -r '.troubles[] | .kind + \" \" + .name'")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Say what rules would decide: for letters of the office, or for one failure given by flags
    #[command(after_help = "\
Examples:
  dlo rules test                                        the config's rules on open letters
  dlo rules test --rules new-rules.toml source:orders   rules of another file on what a query finds
  dlo rules test --class KeyError --message \"pin 560001 not in tax table\"
  dlo rules test --http-status 503                      one failure, no office needed

Nothing is changed. A rules file holds `[[rules.classify]]` entries as dlo.toml does.")]
    Test(RulesTestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RulesTestArgs {
    /// Which letters to try the rules on
    #[arg(value_name = "QUERY", default_value = "status:open")]
    pub(crate) query: Vec<String>,

    /// A file with the rules to try, instead of those of the config
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Letters to look at, newest first
    #[arg(long, short = 'n', default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) limit: u64,

    /// Decide each recorded attempt of these letters anew as well
    #[arg(long)]
    pub(crate) attempts: bool,

    /// Error class of one failure
    #[arg(long, help_heading = "One failure")]
    pub(crate) class: Option<String>,

    /// Error message of one failure
    #[arg(long, help_heading = "One failure")]
    pub(crate) message: Option<String>,

    /// Error code of one failure
    #[arg(long, help_heading = "One failure")]
    pub(crate) code: Option<String>,

    /// HTTP status of one failure
    #[arg(long, value_parser = clap::value_parser!(u16).range(100..=599), help_heading = "One failure")]
    pub(crate) http_status: Option<u16>,

    /// Event type of one failure
    #[arg(long = "type", value_name = "TYPE", help_heading = "One failure")]
    pub(crate) event_type: Option<String>,

    /// Queue of one failure
    #[arg(long, help_heading = "One failure")]
    pub(crate) queue: Option<String>,

    /// Consumer of one failure
    #[arg(long, help_heading = "One failure")]
    pub(crate) consumer: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CapacityArgs {
    #[command(subcommand)]
    pub(crate) command: CapacityCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CapacityCommand {
    /// From message rate, size, failure rate and retention: storage and partitions
    #[command(after_help = "\
Examples:
  dlo capacity estimate --rate 10000 --size 2kb --failures 0.1% --retention 14d
  dlo capacity estimate --rate 500 --size 1kb --failures 1% --retention 30d --replication 3 --json")]
    Estimate(EstimateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// Messages per second, all of them
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    pub(crate) rate: f64,

    /// Size of an average message with its headers, such as 2kb
    #[arg(long, value_parser = size)]
    pub(crate) size: u64,

    /// Share of messages that end as dead letters, such as 0.1% or 0.001
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) failures: f64,

    /// How long letters are kept, such as 14d
    #[arg(long, value_parser = duration)]
    pub(crate) retention: Duration,

    /// Copies that the broker keeps of each message
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) replication: u32,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportRoot {
    #[command(subcommand)]
    pub(crate) command: ExportCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Alert rules for Prometheus, made for the sources of the config
    #[command(after_help = "\
Examples:
  dlo export prometheus-rules > /etc/prometheus/rules/dlo.yml
  dlo export prometheus-rules --depth 500 --oldest 4h
  dlo export prometheus-rules | promtool check rules /dev/stdin

Alerts: any letter, depth (critical at five times), growth, age of the oldest, letters without an owner, and an office
that is out of reach. Without `[[sources]]` in the config one set of rules serves every source.")]
    PrometheusRules(PrometheusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PrometheusArgs {
    /// Open letters of a source that are too many; five times as many are critical
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) depth: u64,

    /// Letters per minute of a source that are too many
    #[arg(long, value_name = "PER_MINUTE", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) growth: u64,

    /// Age of a source's oldest open letter that is too old
    #[arg(long, default_value = "24h", value_parser = duration)]
    pub(crate) oldest: Duration,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<HumanDuration>().map(|span| span.0).map_err(|bad| bad.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    text.parse::<ByteSize>().map(|size| size.0).map_err(|bad| bad.to_string())
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("expected a number above zero, such as 1000".to_string()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let (digits, scale) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits.trim_end(), 100.0));
    match digits.parse::<f64>() {
        Ok(number) if (0.0..=scale).contains(&number) => Ok(number / scale),
        _ => Err("expected a share from 0 to 1, or 0% to 100%, such as 0.1%".to_string()),
    }
}
