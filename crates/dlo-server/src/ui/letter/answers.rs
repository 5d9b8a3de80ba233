//! Two of the three answers at the top of a letter (E6): what failed, and who owns the fix. Whether it can be replayed
//! stands in `replayable.rs`.

use dlo_core::group::Group;
use dlo_core::known::{Known, KnownPatterns, ReplayHelps, Symptom};
use dlo_core::letter::{Letter, Status};
use dlo_core::query::Matcher;
use dlo_core::teams::Teams;

use super::mending::Mending;
use crate::ui::words;

pub(super) struct WhatFailed {
    pub(super) class: String,
    pub(super) message: String,
    pub(super) reason: String,
    pub(super) reason_words: &'static str,
    pub(super) consumer: Option<String>,
    /// What this usually means, and what helps.
    pub(super) known: Option<Known>,
    pub(super) helps: &'static str,
    /// The repair that was sent and failed: then the words are about that, not about the original.
    pub(super) repair: Option<u32>,
}

impl WhatFailed {
    pub(super) fn new(letter: &Letter, patterns: Option<&KnownPatterns>, mending: Mending) -> Self {
        let known = patterns.and_then(|patterns| patterns.find(&symptom(letter)));
        Self {
            helps: known.as_ref().map_or("", |known| helps(known.replay_helps)),
            known,
            class: letter.error_class.clone().unwrap_or_else(|| "No error class was named".to_string()),
            message: letter.error_message.clone(),
            reason: words::phrase(letter.reason.as_str()),
            reason_words: words::reason(letter.reason),
            consumer: letter.consumer.clone(),
            repair: mending.failed,
        }
    }
}

pub(super) fn symptom(letter: &Letter) -> Symptom<'_> {
    Symptom {
        queue: &letter.origin.queue,
        consumer: letter.consumer.as_deref(),
        event_type: letter.event_type.as_deref(),
        class: letter.error_class.as_deref(),
        message: &letter.error_message,
        code: letter.error_code.as_deref(),
        reason: Some(letter.reason),
    }
}

/// Whether sending it again can help, where the pattern says so.
const fn helps(helps: ReplayHelps) -> &'static str {
    match helps {
        ReplayHelps::Unchanged => "Sending it again as it is helps, once what was down is up.",
        ReplayHelps::AfterAFix => "Sending it again helps after the consumer, or what it looks up, is fixed.",
        ReplayHelps::AfterARepair => "Sending it again helps only after the message itself is repaired.",
        ReplayHelps::Never => "Sending it again does not help.",
        ReplayHelps::Unknown => "",
    }
}

pub(super) struct Owner {
    pub(super) team: Option<String>,
    pub(super) contact: Option<String>,
    /// The person who has the group in hand.
    pub(super) assignee: Option<String>,
    /// What finds everything open of the same team.
    pub(super) q: String,
}

impl Owner {
    pub(super) fn new(letter: &Letter, group: &Group, teams: &Teams) -> Self {
        let contact = letter.owner.as_deref().and_then(|team| teams.get(team)?.contact.clone());
        let q = format!("{} {}", Matcher::Status(Status::Open), Matcher::Owner(letter.owner.clone()));
        Self { team: letter.owner.clone(), contact, assignee: group.assignee.clone(), q }
    }
}
