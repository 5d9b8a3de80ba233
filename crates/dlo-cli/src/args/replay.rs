//! `dlo replay`: plan, look, start, steer.

use clap::{Args, Subcommand, ValueEnum};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{ItemState, ReplayCause, ReplayState};
use dlo_core::units::HumanDuration;

use super::client::{ClientArgs, QUERY_HELP};

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: ReplayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReplayCommand {
    /// Write a plan: which letters, how many, what is left out and why. Sends nothing
    #[command(after_help = QUERY_HELP)]
    Plan(Box<PlanArgs>),
    /// Start a plan; without --yes it shows once more what would be sent
    #[command(after_help = "\
Examples:
  dlo replay start 019a2b6e-… --yes --wait

A few letters go first (the canary) and their outcome is waited for; then the rate climbs to its limit. The replay runs in
the office: closing this terminal changes nothing.")]
    Start(StartArgs),
    /// Follow a replay until it is over, with its outcomes as they come
    Watch {
        /// Which replay
        id: ReplayId,
    },
    /// List replays, newest first
    List {
        /// Only those that stand there
        #[arg(long)]
        state: Option<ReplayState>,
        /// How many to show
        #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Show a replay: its plan, its progress, what is in doubt, what came back
    Show {
        /// Which replay
        id: ReplayId,
    },
    /// List the letters of a replay in the order in which they are sent, each with where it stands
    Items {
        /// Which replay
        id: ReplayId,
        /// Only those that stand there
        #[arg(long)]
        state: Option<ItemState>,
        /// How many to show
        #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Send nothing more until it is resumed
    Pause {
        /// Which replay
        id: ReplayId,
    },
    /// Go on, with a canary again
    Resume {
        /// Which replay
        id: ReplayId,
    },
    /// End it: what was not sent is open again
    Cancel {
        /// Which replay
        id: ReplayId,
        /// Do it; without this nothing is changed
        #[arg(long)]
        yes: bool,
    },
    /// Approve somebody else's plan, with a token of your own
    Approve {
        /// Which replay
        id: ReplayId,
    },
    /// Change how fast a replay sends, also while it runs
    Pace {
        /// Which replay
        id: ReplayId,
        #[command(flatten)]
        pace: PaceArgs,
    },
    /// Decide on letters in doubt: it is not known whether they were sent
    #[command(after_help = "\
Examples:
  dlo replay settle 019a2b6e-… --as recovered --reason \"all 312 orders are in the ledger\"
  dlo replay settle 019a2b6e-… --as recovered --reason \"all 312 orders are in the ledger\" --yes
  dlo replay settle 019a2b6e-… --as again --letter 019a2b70-… --reason \"not in the ledger\" --yes

Without --yes it prints the evidence: what waits in the queue and is with consumers, how far the consumer is, and how many
letters came back. After a crash between a send and its record, brokers that cannot be asked leave a letter in doubt.
`dlo replay show` lists them.")]
    Settle(SettleArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Ids of letters, or a query
    #[arg(value_name = "ID|QUERY", required_unless_present = "came_back_from")]
    pub(crate) what: Vec<String>,

    /// Those that came back from this replay, and no others
    #[arg(long, value_name = "REPLAY", conflicts_with = "what")]
    pub(crate) came_back_from: Option<ReplayId>,

    /// Why; the audit log keeps it
    #[arg(long)]
    pub(crate) reason: Option<String>,

    /// What was behind the failures
    #[arg(long, value_name = "CAUSE")]
    pub(crate) cause: Option<ReplayCause>,

    #[command(flatten)]
    pub(crate) pace: PaceArgs,

    /// Letters that go first; the rest waits for their outcome. 0: none
    #[arg(long, value_name = "N")]
    pub(crate) canary: Option<u32>,

    /// Steps of five seconds in which the rate climbs to its limit
    #[arg(long, value_name = "STEPS")]
    pub(crate) ramp: Option<u32>,

    /// How long the outcome of a sent letter is waited for at least, such as 30s
    #[arg(long, value_name = "TIME")]
    pub(crate) window: Option<HumanDuration>,

    /// Send to this queue instead of the one they came from
    #[arg(long, value_name = "QUEUE", conflicts_with = "failed_group")]
    pub(crate) to: Option<String>,

    /// Only for the consumer group that failed: others pass it over
    #[arg(long)]
    pub(crate) failed_group: bool,

    /// Letters of one key in their order, each after the outcome of the one before
    #[arg(long)]
    pub(crate) order: bool,

    /// What becomes of a send of which nobody knows whether it arrived: a person decides, or it is sent again
    #[arg(long, value_enum)]
    pub(crate) doubts: Option<Doubts>,

    /// Change each payload on its way by this jq expression
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) jq: Option<String>,

    /// Times that a letter may be replayed
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,

    /// Send suspected duplicates too
    #[arg(long)]
    pub(crate) include_suspected: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Doubts {
    Hold,
    SendAgain,
}

#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub(crate) struct PaceArgs {
    /// Messages a second [default: 50, or what the source says]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,

    /// A share of the normal traffic, such as 0.1
    #[arg(long, value_name = "SHARE")]
    pub(crate) share: Option<f64>,

    /// As fast as it can be recorded and confirmed
    #[arg(long)]
    pub(crate) max: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Which plan
    pub(crate) id: ReplayId,

    /// Do it; without this nothing is sent
    #[arg(long)]
    pub(crate) yes: bool,

    /// Follow it until it is over
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SettleArgs {
    /// Which replay
    pub(crate) id: ReplayId,

    /// What was found out: it was handled; it was sent, and its outcome is open; it was not handled, and is open again; or it
    /// was not sent, and this replay sends it again
    #[arg(long = "as", value_enum)]
    pub(crate) outcome: SettleAs,

    /// Only this letter; may be repeated. All that are in doubt, if left out
    #[arg(long = "letter", value_name = "ID")]
    pub(crate) letters: Vec<LetterId>,

    /// How it was found out; the audit log keeps it
    #[arg(long)]
    pub(crate) reason: String,

    /// Do it; without this nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SettleAs {
    Recovered,
    Sent,
    Open,
    Again,
}

impl SettleAs {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Sent => "sent",
            Self::Open => "open",
            Self::Again => "again",
        }
    }
}
