//! Patterns that need no telling: causes and fixes, and which rule or reason speaks for which.
//!
//! Short and plain: a person reads this while something is broken.

use super::{Known, ReplayHelps};
use crate::reason::Reason;
use ReplayHelps::{AfterAFix, AfterARepair, Never, Unchanged};

/// Names that are compared with.
pub(super) const MISSING_ENTRY: &str = "missing_entry";
pub(super) const CONSUMER_BUG: &str = "consumer_bug";

/// Words that classification does not need to tell apart, and people do: rule, expression, pattern.
pub(super) const WORDS: &[(&str, &str, &str)] = &[
    (
        "known:words:schema_drift",
        r"(?i)(\bmissing (required )?(field|property|column)\b|\b(unknown|unexpected|unrecognized|additional) (field|property|properties|column)\b|\brequired property\b|\bno such column\b|\bcolumn \S+ (of relation \S+ )?does not exist|\bschema (mismatch|not found|incompatible)|\bincompatible schema\b)",
        "schema_drift",
    ),
    (
        "known:words:missing_entry",
        r"(?i)(\bnot (found )?in \S*( \S+){0,3} (table|map|list|catalogu?e|config(uration)?|dictionary|registry|enum)\b|\bno (such )?(entry|key|mapping|setting|config(uration)?)\b|\bunknown (key|code|enum|setting)\b|\bmissing (key|entry|mapping|setting|config(uration)?)\b)",
        MISSING_ENTRY,
    ),
    (
        "known:words:duplicate_key",
        r"(?i)(\bduplicate (key|entry)\b|\bunique constraint\b|\bE11000\b)",
        "duplicate_key",
    ),
    (
        "known:words:resource_exhausted",
        r"(?i)(\bout of memory\b|\bjava heap space\b|\bGC overhead limit\b|\bno space left on device\b|\btoo many open files\b|\bdisk (is )?full\b|\bquota exceeded\b|\bcannot allocate memory\b)",
        "resource_exhausted",
    ),
    (
        "known:words:authentication",
        r"(?i)(\b(token|certificate|credentials?|api key) (has |have |is |are )?(expired|invalid|revoked)\b|\bauthentication failed\b|\bunauthori[sz]ed\b|\bpermission denied\b|\baccess (is )?denied\b|\bforbidden\b)",
        "authentication",
    ),
    (
        "known:words:business_reject",
        r"(?i)(\binsufficient (funds|stock|balance)\b|\bbusiness rule\b|\bnot (allowed|permitted|eligible)\b|\b(card|payment|order) (was )?(declined|rejected|already cancelled)\b|\bcredit limit\b|\bout of stock\b)",
        "business_reject",
    ),
];

/// A pattern of this file by its name.
pub(super) fn known(name: &str) -> Known {
    let (cause, fix, replay_helps) = describe(name);
    Known { name: name.to_owned(), cause: cause.to_owned(), fix: fix.to_owned(), replay_helps }
}

fn describe(name: &str) -> (&'static str, &'static str, ReplayHelps) {
    match name {
        "parse_error" => (
            "The consumer could not read the message: it is cut off, empty, in another format or encoding.",
            "Look at the raw body. Repair it, or make the consumer read this format; tell the producer.",
            AfterARepair,
        ),
        "schema_drift" => (
            "Producer and consumer disagree about the fields: one of them changed first.",
            "Compare the versions on both sides. Deploy the consumer that knows the new fields, or repair the letters to the old shape.",
            AfterAFix,
        ),
        "unknown_version" => (
            "The event has a version that this consumer does not know.",
            "Deploy a consumer that knows it, then replay.",
            AfterAFix,
        ),
        "business_reject" => (
            "The message was understood and refused by a rule of the business.",
            "Nothing is broken: compensate or discard with a reason, or change the order and replay it.",
            Never,
        ),
        "authentication" => (
            "The consumer may not do what it tried: its token or certificate ran out, or a right is missing.",
            "Renew the credentials or grant the right, then replay.",
            Unchanged,
        ),
        "missing_reference" => (
            "The message refers to something that is not there: deleted, not created yet, or in another system.",
            "Find out whether it is late or gone. Restore it and replay, or repair the reference.",
            AfterAFix,
        ),
        MISSING_ENTRY => (
            "The consumer looked something up that is not there: a key, an entry of its reference data, a setting.",
            "Find the entry in the message and in the table it was looked up in. Add what is missing, or repair the message if it is wrong; then replay.",
            AfterAFix,
        ),
        "duplicate_key" => (
            "What the message creates is there already: it was probably handled before.",
            "Compare with what is stored. If it is the same, discard; else make the consumer idempotent and replay.",
            Never,
        ),
        "invalid_data" => (
            "The message was read and its content refused: a value is missing, too long or out of range.",
            "Look at the fields that the letters share. Repair them, or relax the check if it is wrong.",
            AfterARepair,
        ),
        CONSUMER_BUG => (
            "The consumer met something its code does not expect: a missing key, a null, a wrong type, an index out of range.",
            "Reproduce it with one letter's payload. Fix and deploy the consumer, then replay.",
            AfterAFix,
        ),
        "poison" => (
            "The consumer did not survive the message: it crashed or was killed while handling it.",
            "Do not replay before the cause is known. Try one letter on a consumer that may fail.",
            AfterAFix,
        ),
        other => surroundings(other),
    }
}

/// Causes that lie around the consumer: neither its code nor the message is wrong.
fn surroundings(name: &str) -> (&'static str, &'static str, ReplayHelps) {
    match name {
        "slow_dependency" => (
            "Something the consumer calls answered too late, or not at all.",
            "Look at that service's latency at the time of the first letter. When it is well again, replay slowly.",
            Unchanged,
        ),
        "dependency_down" => (
            "Something the consumer calls could not be reached: down, restarting, moved, or the network is cut.",
            "Make sure it is up and the address is right, then replay with a small sample first.",
            Unchanged,
        ),
        "rate_limited" => (
            "A service took fewer calls than the consumer makes.",
            "Lower the consumer's concurrency or ask for a higher limit; replay below that rate.",
            Unchanged,
        ),
        "contention" => (
            "Transactions stood in each other's way: a deadlock, a lock that was not free in time.",
            "A replay usually succeeds. If it comes back, look at what runs beside it and at the order of locks.",
            Unchanged,
        ),
        "resource_exhausted" => (
            "The consumer ran out of something: memory, disk, file handles, connections, quota.",
            "Look at the size of the messages and at the limits of the process. Free or raise what ran out, then replay slowly.",
            Unchanged,
        ),
        _ => ("", "", ReplayHelps::Unknown),
    }
}

/// What a built-in rule of classification speaks of.
pub(super) fn of_rule(rule: &str) -> Option<Known> {
    let name = rule.strip_prefix("builtin:")?;
    let name = name.strip_suffix("_code").or_else(|| name.strip_suffix("_words")).unwrap_or(name);
    Some(known(match name {
        "http_timeout" | "timeout" | "processing_timeout" => "slow_dependency",
        "http_unavailable" | "connection" => "dependency_down",
        "http_rate_limit" | "rate_limit" => "rate_limited",
        "deadlock" | "http_too_early" => "contention",
        "pool_exhausted" => "resource_exhausted",
        "unknown_version" => "unknown_version",
        "deserialization" => "parse_error",
        "missing_reference" | "http_missing" => "missing_reference",
        "duplicate" => "duplicate_key",
        "permission" | "http_permission" => "authentication",
        "validation" | "http_invalid" | "http_client_error" => "invalid_data",
        "type_error" => "consumer_bug",
        _ => return None,
    }))
}

/// What a reason speaks of, where nothing better is known. Most reasons say how it was parked and not why it failed.
pub(super) fn of_reason(reason: Reason) -> Option<Known> {
    match reason {
        Reason::DeserializationError => Some(known("parse_error")),
        Reason::ValidationError => Some(known("invalid_data")),
        Reason::Timeout => Some(known("slow_dependency")),
        Reason::CircuitOpen => Some(known("dependency_down")),
        Reason::Poison => Some(known("poison")),
        Reason::UnknownVersion => Some(known("unknown_version")),
        Reason::MaxRetriesExceeded
        | Reason::ProcessingError
        | Reason::Rejected
        | Reason::Expired
        | Reason::QueueOverflow
        | Reason::DeliveryLimit => None,
    }
}
