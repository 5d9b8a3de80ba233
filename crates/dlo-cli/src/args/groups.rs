//! `dlo groups`, `dlo deploy` and `dlo owners`: causes and who has them in hand.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use dlo_core::group::GroupStatus;
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;

use super::client::ClientArgs;

#[derive(Debug, Args)]
pub(crate) struct GroupsArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: GroupsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupsCommand {
    /// List groups, last seen first
    #[command(after_help = "\
Examples:
  dlo groups list --source orders
  dlo groups list --owner none --holding open
  dlo groups list --status new,regressed --order oldest-open
  dlo groups list --assignee me")]
    List(GroupListArgs),
    /// Show one group: its cause, what it usually means, who has it, its newest letters
    Show {
        /// The group's id
        #[arg(value_parser = group_id)]
        id: GroupId,
    },
    /// Say that somebody has seen it
    Ack(ChangeGroupArgs),
    /// Say that somebody works on it
    Fix(ChangeGroupArgs),
    /// Say that it is fixed; a letter that comes later makes it a regression
    #[command(after_help = "\
Examples:
  dlo groups resolve 01HF… --in 2.3.1 --yes     letters of older versions do not bring it back")]
    Resolve {
        #[command(flatten)]
        change: ChangeGroupArgs,
        /// The version of the consumer that has the fix
        #[arg(long = "in", value_name = "VERSION")]
        in_version: Option<String>,
    },
    /// Take it out of sight until a date, or until more letters came
    #[command(after_help = "\
Examples:
  dlo groups snooze 01HF… --for 2d --yes
  dlo groups snooze 01HF… --until 2026-12-01 --letters 100 --yes     whichever is first")]
    Snooze {
        #[command(flatten)]
        change: ChangeGroupArgs,
        /// Wake at this time
        #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "span")]
        until: Option<Timestamp>,
        /// Wake after this long
        #[arg(long = "for", value_name = "DURATION", value_parser = super::local::duration)]
        span: Option<std::time::Duration>,
        /// Wake when so many more letters came
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        letters: Option<u64>,
    },
    /// Say that it is not worth looking at, whatever comes
    Ignore(ChangeGroupArgs),
    /// Say that it is not closed after all
    Reopen(ChangeGroupArgs),
    /// Give it to a person; without --to to nobody
    Assign {
        #[command(flatten)]
        change: ChangeGroupArgs,
        /// Who has it in hand from now on
        #[arg(long, value_name = "NAME")]
        to: Option<String>,
    },
    /// Say which team owns it, whatever the rules say; without --team the rules decide again
    Own {
        #[command(flatten)]
        change: ChangeGroupArgs,
        /// The team
        #[arg(long, value_name = "TEAM")]
        team: Option<String>,
    },
    /// Write a note beside it; notes outlive the letters
    Note {
        /// The group's id
        #[arg(value_parser = group_id)]
        id: GroupId,
        /// The note
        #[arg(required = true)]
        text: Vec<String>,
        /// Do it; without this it is only shown
        #[arg(long)]
        yes: bool,
    },
    /// Merge groups into one; letters that come later for any of them count for it
    #[command(after_help = "\
Examples:
  dlo groups merge HEAD OTHER ANOTHER --reason \"one cause\" --yes")]
    Merge {
        /// The group that speaks for all of them
        #[arg(value_parser = group_id)]
        head: GroupId,
        /// The groups that are merged into it
        #[arg(required = true, value_parser = group_id)]
        groups: Vec<GroupId>,
        /// Why, for the audit log
        #[arg(long)]
        reason: Option<String>,
        /// Do it; without this it is only shown
        #[arg(long)]
        yes: bool,
    },
    /// Split letters off by a condition, or take a group out of the one it was merged into
    #[command(after_help = "\
Examples:
  dlo groups split GROUP --where 'payload.country:CH' --title \"Swiss orders\" --yes
  dlo groups split MEMBER --yes")]
    Split {
        /// The group whose letters are split; without a condition, the group that was merged
        #[arg(value_parser = group_id)]
        id: GroupId,
        /// Letters that match become a group of their own, those that come later too
        #[arg(long = "where", value_name = "QUERY")]
        condition: Option<String>,
        /// What that group is called
        #[arg(long, requires = "condition")]
        title: Option<String>,
        /// Why, for the audit log
        #[arg(long)]
        reason: Option<String>,
        /// Do it; without this it is only shown
        #[arg(long)]
        yes: bool,
    },
    /// Forget the condition that split a group off, and join it with the one it came from
    Unsplit {
        /// The group that was split off
        #[arg(value_parser = group_id)]
        id: GroupId,
        /// Why, for the audit log
        #[arg(long)]
        reason: Option<String>,
        /// Do it; without this it is only shown
        #[arg(long)]
        yes: bool,
    },
}

/// One change, for one group or several.
#[derive(Debug, Args)]
pub(crate) struct ChangeGroupArgs {
    /// Ids of groups
    #[arg(required = true, value_parser = group_id)]
    pub(crate) ids: Vec<GroupId>,
    /// Why, for the audit log
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Do it; without this it is only shown
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GroupListArgs {
    /// Only this source
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Only this event type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// Only this error class
    #[arg(long = "class", value_name = "CLASS")]
    pub(crate) error_class: Option<String>,
    /// Only this consumer
    #[arg(long)]
    pub(crate) consumer: Option<String>,
    /// Only this owner; `none` for groups without one
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Only this person's; `me` for yours, `none` for nobody's
    #[arg(long, value_name = "NAME")]
    pub(crate) assignee: Option<String>,
    /// Only groups that hold letters in this status
    #[arg(long, value_name = "STATUS")]
    pub(crate) holding: Option<Status>,
    /// Only groups that stand there; several are joined by commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(crate) status: Vec<GroupStatus>,
    /// Only groups whose names or error text hold these words
    #[arg(long, value_name = "WORDS")]
    pub(crate) text: Option<String>,
    /// What comes first
    #[arg(long, value_enum, default_value_t = Order::LastSeen)]
    pub(crate) order: Order,
    /// How many to show
    #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) limit: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    LastSeen,
    FirstSeen,
    MostOpen,
    OldestOpen,
}

impl Order {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::LastSeen => "last_seen",
            Self::FirstSeen => "first_seen",
            Self::MostOpen => "most_open",
            Self::OldestOpen => "oldest_open",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: DeployCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeployCommand {
    /// Mark a deployment: groups that begin shortly after it are shown with it
    #[command(after_help = "\
Examples, at the end of a pipeline:
  dlo deploy mark 2.3.1 --consumer pricing --url \"$PIPELINE_URL\" --yes")]
    Mark(MarkArgs),
    /// List deployments, newest first
    List {
        /// How many to show
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=500))]
        limit: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MarkArgs {
    /// A version, a commit, the name of a change
    #[arg(value_name = "VERSION")]
    pub(crate) what: String,
    /// The consumer that was deployed
    #[arg(long)]
    pub(crate) consumer: Option<String>,
    /// The source that it concerns
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Where to read more
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// When it happened [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) at: Option<Timestamp>,
    /// Do it; without this it is only shown
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OwnersArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: OwnersCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OwnersCommand {
    /// List teams, how much waits for each, and what nobody owns
    List,
    /// Read an owners file and say what is wrong with it, and which groups would change hands
    #[command(after_help = "\
A file in the manner of CODEOWNERS: `rules.owners_file` of the config names it. The last line that fits wins.
  # pattern                 team
  *                         platform
  orders*                   payments
  type:invoice.*            billing
  orders consumer:mail*     crm")]
    Check {
        /// The file
        file: PathBuf,
        /// Look at the file only, and ask no office
        #[arg(long)]
        offline: bool,
    },
}

fn group_id(text: &str) -> Result<GroupId, String> {
    text.parse().map_err(|_| "expected a group's id, as `dlo groups list` shows it".to_string())
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|bad| bad.to_string())
}
