//! What is known of errors without being told (A2): the names that the big languages and their libraries use.
//!
//! One table, most certain evidence first: an HTTP status, then the class, then a code, then words of the message.
//! Classes come before words because words lie: a validation error may well say "timeout must be positive". The names
//! stand in `known.rs`; to add one, put it in its row there, and a line in the table of `tests.rs`.

use super::{HttpStatus, Rule, When, known};
use crate::pattern::OneOrMany;
use crate::reason::Reason;
use crate::verdict::VerdictKind;

/// The class under which the runtime reports a handler that ran over its deadline (B8).
pub const PROCESSING_TIMEOUT: &str = "dlo.ProcessingTimeout";

/// The evidence a row looks at.
enum Evidence {
    Status(&'static [u16]),
    StatusRange(&'static str),
    Class(&'static str),
    Code(&'static str),
    Words(&'static str),
}
use Evidence::{Class, Code, Status, StatusRange, Words};

/// What it means: worth another try, or parked for this reason.
enum Meaning {
    Transient,
    Parked(Reason),
}
use Meaning::{Parked, Transient};

const TABLE: &[(&str, Evidence, Meaning)] = &[
    ("http_timeout", Status(&[408, 504]), Transient),
    ("http_too_early", Status(&[425]), Transient),
    ("http_rate_limit", Status(&[429]), Transient),
    ("http_unavailable", Status(&[502, 503]), Transient),
    ("http_invalid", Status(&[400, 422]), Parked(Reason::ValidationError)),
    ("http_permission", Status(&[401, 403]), Parked(Reason::ProcessingError)),
    ("http_missing", Status(&[404, 410]), Parked(Reason::ProcessingError)),
    ("http_client_error", StatusRange("4xx"), Parked(Reason::ProcessingError)),
    ("timeout", Class(known::TIMEOUT), Transient),
    ("rate_limit", Class(known::RATE_LIMIT), Transient),
    ("deadlock", Class(known::DEADLOCK), Transient),
    ("pool_exhausted", Class(known::POOL), Transient),
    ("connection", Class(known::CONNECTION), Transient),
    ("unknown_version", Class(known::UNKNOWN_VERSION), Parked(Reason::UnknownVersion)),
    ("deserialization", Class(known::DESERIALIZATION), Parked(Reason::DeserializationError)),
    ("missing_reference", Class(known::MISSING_REFERENCE), Parked(Reason::ProcessingError)),
    ("duplicate", Class(known::DUPLICATE), Parked(Reason::ProcessingError)),
    ("permission", Class(known::PERMISSION), Parked(Reason::ProcessingError)),
    ("validation", Class(known::VALIDATION), Parked(Reason::ValidationError)),
    ("type_error", Class(known::TYPE_ERROR), Parked(Reason::ProcessingError)),
    ("timeout_code", Code(known::TIMEOUT_CODES), Transient),
    ("connection_code", Code(known::CONNECTION_CODES), Transient),
    ("rate_limit_code", Code(known::RATE_LIMIT_CODES), Transient),
    ("deadlock_code", Code(known::DEADLOCK_CODES), Transient),
    ("pool_exhausted_code", Code(known::POOL_CODES), Transient),
    ("missing_reference_code", Code(known::MISSING_CODES), Parked(Reason::ProcessingError)),
    ("validation_code", Code(known::VALIDATION_CODES), Parked(Reason::ValidationError)),
    ("permission_code", Code(known::PERMISSION_CODES), Parked(Reason::ProcessingError)),
    (
        "unknown_version_words",
        Words(r"(?i)\b(unknown|unsupported|unrecognized) (event |schema |message )?version\b"),
        Parked(Reason::UnknownVersion),
    ),
    (
        "deserialization_words",
        Words(
            r"(?i)\b(unexpected (token|character|end of (json )?input|eof)|invalid (json|xml|utf-?8)|malformed (json|xml|message|payload)|failed to (de-?seriali[sz]e|parse|decode|unmarshal)|(could not|cannot|can't) (be )?(de-?seriali[sz]e|parse|decode|unmarshal)|missing field `)",
        ),
        Parked(Reason::DeserializationError),
    ),
    (
        "validation_words",
        Words(r"(?i)\b(validation (failed|error)|schema validation|violates (check|not-null) constraint)"),
        Parked(Reason::ValidationError),
    ),
    (
        "missing_reference_words",
        Words(r"(?i)\b(foreign key constraint|violates foreign key|no rows in result set)"),
        Parked(Reason::ProcessingError),
    ),
    (
        "permission_words",
        Words(r"(?i)\b(permission denied|access (is )?denied|not authorized)\b"),
        Parked(Reason::ProcessingError),
    ),
    (
        "deadlock_words",
        Words(
            r"(?i)\b(deadlock|lock wait timeout|lock timeout|database is locked|could not serialize access)",
        ),
        Transient,
    ),
    (
        "pool_exhausted_words",
        Words(
            r"(?i)\b(connection pool (is )?(exhausted|timed out|full)|too many (open )?(connections|clients)|pool exhausted|queuepool limit)",
        ),
        Transient,
    ),
    (
        "rate_limit_words",
        Words(r"(?i)\b(rate limit(ed)?( exceeded| reached)?|too many requests|throttl(ed|ing)|slow down)\b"),
        Transient,
    ),
    (
        "timeout_words",
        Words(
            r"(?i)\b(timed out|time-?out (exceeded|expired|after|while|waiting)|(request|read|connect(ion)?|i/o|operation|gateway|socket) time-?out|(context )?deadline exceeded)\b",
        ),
        Transient,
    ),
    (
        "connection_words",
        Words(
            r"(?i)\b(connection (was )?(refused|reset|closed|aborted|lost)|connect econnrefused|econnreset|broken pipe|no route to host|network is unreachable|host unreachable|temporary failure in name resolution|no such host|server (has )?gone away|service unavailable|bad gateway|socket hang up)\b",
        ),
        Transient,
    ),
];

/// The table as rules: the same data a team writes.
pub(super) fn rules() -> Vec<Rule> {
    let deadline = When { class: Some(OneOrMany::from(PROCESSING_TIMEOUT)), ..When::default() };
    let mut rules = vec![named("processing_timeout", deadline, VerdictKind::Retry, Some(Reason::Timeout))];
    rules.extend(TABLE.iter().map(|(name, evidence, meaning)| {
        let (verdict, reason) = match meaning {
            Transient => (VerdictKind::Retry, None),
            Parked(reason) => (VerdictKind::DeadLetter, Some(*reason)),
        };
        named(name, when(evidence), verdict, reason)
    }));
    rules
}

fn when(evidence: &Evidence) -> When {
    match evidence {
        Status(statuses) => {
            let several = statuses.iter().map(|status| HttpStatus::One(*status)).collect();
            When { http_status: Some(HttpStatus::Any(several)), ..When::default() }
        }
        StatusRange(range) => {
            When { http_status: Some(HttpStatus::Range((*range).to_owned())), ..When::default() }
        }
        Class(names) => When { class: Some(several(names)), ..When::default() },
        Code(codes) => When { code: Some(several(codes)), ..When::default() },
        Words(expression) => When { message: Some((*expression).to_owned()), ..When::default() },
    }
}

fn named(name: &str, when: When, verdict: VerdictKind, reason: Option<Reason>) -> Rule {
    let name = Some(format!("builtin:{name}"));
    Rule { name, when, verdict, reason, attempts: None, age: None, dependency: None }
}

fn several(words: &str) -> OneOrMany {
    OneOrMany::Many(words.split_whitespace().map(str::to_owned).collect())
}
