//! Commands that talk to a running office over HTTP.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dlo_core::id::LetterId;

/// Which office, and how to read its answers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Office")]
pub(crate) struct ClientArgs {
    /// Address of the office
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DLO_SERVER",
        default_value = "http://127.0.0.1:8404"
    )]
    pub(crate) server: String,

    /// Whether somebody named the office, by flag or variable. Known of `check` and `status`.
    #[arg(skip = true)]
    pub(crate) is_named: bool,

    /// Token of the office, where it asks for one
    #[arg(long, global = true, value_name = "TOKEN", env = "DLO_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,

    /// Your name for the audit log [default: the user's]
    #[arg(long, global = true, value_name = "NAME", env = "DLO_AUTHOR")]
    pub(crate) author: Option<String>,

    /// Print JSON as the API gives it
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// How to ask: shown with every command that takes a query.
pub(super) const QUERY_HELP: &str = "\
Queries: terms are AND, `-` negates, quotes hold phrases, free words search error text and payload.
  status:open source:orders type:invoice.paid class:KeyError reason:timeout consumer:pricing
  owner:none key:C-441 correlation:req_274ad attempts:>=3 age:>2h failed:>2026-11-01 size:>100kb
  header.x-tenant:acme payload.customer.id:\"CUST-441\" \"not in tax table\"";

#[derive(Debug, Args)]
pub(crate) struct LettersArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: LettersCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LettersCommand {
    /// List letters, newest failure first
    #[command(after_help = QUERY_HELP)]
    List(ListArgs),
    /// Show one letter: what failed, where it came from, what happened to it
    Show(OneArgs),
    /// Print a letter's payload byte for byte (the reading is audited)
    #[command(after_help = "\
Examples:
  dlo letters payload 019a2b6e-… | jq .order_id
  dlo letters payload 019a2b6e-… --to body.bin")]
    Payload(PayloadArgs),
    /// Close letters that need nothing more; a dry run until --yes
    #[command(after_help = "\
Examples:
  dlo letters discard 019a2b6e-… --reason \"test order\" --yes
  dlo letters discard 'source:telemetry age:>7d status:open' --reason \"past its use\"

Without --yes it prints what would happen and changes nothing. The letters stay in the office as discarded.")]
    Discard(DecideArgs),
    /// Close letters whose effect was made good in another way; a dry run until --yes
    #[command(after_help = "\
Examples:
  dlo letters compensate 019a2b6e-… --reason \"refunded by hand\" --reference REF-1182 --yes

Without --yes it prints what would happen and changes nothing.")]
    Compensate(DecideArgs),
    /// Write letters with their payloads as NDJSON, one letter a line
    #[command(after_help = "\
Examples:
  dlo letters export source:orders --to orders.ndjson
  dlo letters export status:open | gzip > open.ndjson.gz

A line has the shape that `dlo letters import` and POST /api/v1/letters take.")]
    Export(ExportArgs),
    /// Send letters from NDJSON, one letter a line
    #[command(after_help = "\
Examples:
  dlo letters import orders.ndjson --yes
  zcat open.ndjson.gz | dlo letters import - --yes

Without --yes the lines are read and counted and nothing is sent. A letter that is in the office already is a
duplicate and changes nothing, so an import that was interrupted can be run again.")]
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// What to look for; every letter if left out
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,

    /// How many to show
    #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) limit: u64,

    /// Go on where a former page ended
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The letter's id
    #[arg(value_parser = letter_id)]
    pub(crate) id: LetterId,
}

#[derive(Debug, Args)]
pub(crate) struct PayloadArgs {
    /// The letter's id
    #[arg(value_parser = letter_id)]
    pub(crate) id: LetterId,

    /// Write to this file instead of stdout; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DecideArgs {
    /// Ids of letters, or a query
    #[arg(value_name = "ID|QUERY", required = true)]
    pub(crate) what: Vec<String>,

    /// Why; it is written to the letter's timeline and to the audit log
    #[arg(long)]
    pub(crate) reason: String,

    /// A ticket, a refund, a booking that belongs to the decision
    #[arg(long)]
    pub(crate) reference: Option<String>,

    /// Do it; without this nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// What to export; every letter if left out
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,

    /// Write to this file instead of stdout; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The NDJSON file, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) from: PathBuf,

    /// Send them; without this nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List what was done, by whom and why, newest first
    List {
        /// How many to show
        #[arg(long, short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Count every letter anew and compare with the books: captured = the sum over every status
    #[command(after_help = "Ends with exit code 1 if anything does not hold.")]
    Verify,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dlo backup --to office-2026-11-15.backup")]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dlo restore office-2026-11-15.backup     what it would replace
  dlo restore office-2026-11-15.backup --yes --reason \"disk failure\"

Everything that was captured since the backup is gone afterwards: take another backup first.")]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// A file that `dlo backup` wrote
    #[arg(value_name = "FILE")]
    pub(crate) from: PathBuf,

    /// Do it; without this nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,

    /// Why; it is written to the audit log, and needed with --yes
    #[arg(long, required_if_eq("yes", "true"))]
    pub(crate) reason: Option<String>,
}

pub(super) fn letter_id(text: &str) -> Result<LetterId, String> {
    text.parse().map_err(|_| "expected a letter's id, as `dlo letters list` shows it".to_string())
}
