//! A rule tried on history (A4): what would have become of letters that are here, had it been in force.
//!
//! Nothing is changed. The walk is bounded; where it stops, a cursor goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::attempt::AttemptRecord;
use dlo_core::automation::AutomationRule;
use dlo_core::classify::{Place, Rule, Ruleset, Unknown};
use dlo_core::failure::Failure;
use dlo_core::id::LetterId;
use dlo_core::letter::Letter;
use dlo_core::owners::{OwnerRule, Owners, Subject};
use dlo_core::pattern::RuleError;
use dlo_core::verdict::VerdictKind;
use dlo_store::{Cursor, Page};
use serde::{Deserialize, Serialize};

use super::error::{Answer, Problem};
use crate::automation::{RuleStatus, try_out};
use crate::body;
use crate::office::Office;
use crate::query_text;

/// Letters that one request looks at, unless it says otherwise.
const DEFAULT: u64 = 10_000;
const MOST: u64 = 100_000;
/// Letters named for each change.
const SAMPLES: usize = 5;
/// Different changes that are told apart.
const CHANGES: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trial {
    classify: Option<Vec<Rule>>,
    owners: Option<Vec<OwnerRule>>,
    /// What becomes of an error that no rule knows.
    #[serde(default)]
    unknown: Unknown,
    query: Option<String>,
    limit: Option<u64>,
    cursor: Option<String>,
    /// Whether each recorded attempt of a letter is decided anew as well.
    #[serde(default)]
    attempts: bool,
}

#[derive(Debug, Default, Serialize)]
struct Tried {
    /// Letters looked at.
    scanned: u64,
    /// Would have been tried again instead of parked.
    retried: u64,
    /// Would have been discarded instead of parked.
    discarded: u64,
    /// Would have been parked where they were discarded or tried again.
    parked: u64,
    verdicts: Vec<Change<VerdictKind>>,
    owners: Vec<Change<Option<String>>>,
    /// Recorded attempts looked at, and how they would have been decided otherwise.
    attempts_scanned: u64,
    attempts: Vec<Change<VerdictKind>>,
    /// Where to go on; `null` when all were seen.
    next_cursor: Option<Cursor>,
}

#[derive(Debug, Serialize)]
struct Change<T> {
    from: T,
    to: T,
    /// The rule that would have decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    count: u64,
    samples: Vec<LetterId>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AutomationTrial {
    automation: Vec<AutomationRule>,
}

/// Rules of automation, tried on the letters that are open.
pub(crate) async fn test_automation(
    State(office): State<Arc<Office>>,
    request: Request<Body>,
) -> Answer<Response> {
    let AutomationTrial { automation } = body::json(request, &office).await?;
    for rule in &automation {
        rule.check()
            .map_err(|bad| Problem::unprocessable("bad_rule", bad.to_string()).field("automation"))?;
    }
    let _place = office.long_reading()?;
    let tried = try_out(&office, &automation).await?;
    Ok(Json(serde_json::json!({ "automation": tried })).into_response())
}

#[derive(Serialize)]
struct RulesOut<'a> {
    automation: Vec<RuleStatus<'a>>,
}

/// The rules that act without a person, and what they did.
pub(crate) async fn list(State(office): State<Arc<Office>>) -> Response {
    Json(RulesOut { automation: office.automation.all(&office.config.automation) }).into_response()
}

pub(crate) async fn test(State(office): State<Arc<Office>>, request: Request<Body>) -> Answer<Response> {
    let trial: Trial = body::json(request, &office).await?;
    if trial.classify.is_none() && trial.owners.is_none() {
        let detail = "send the rules to try, as `classify` or `owners`";
        return Err(Problem::unprocessable("bad_body", detail).field("classify"));
    }
    let _place = office.long_reading()?;
    let bad_rule =
        |field| move |error: RuleError| Problem::unprocessable("bad_rule", error.to_string()).field(field);
    let rules = trial.classify.map(Ruleset::compile).transpose().map_err(bad_rule("classify"))?;
    let owners = trial.owners.map(Owners::compile).transpose().map_err(bad_rule("owners"))?;
    let query = query_text::query_of_shown(trial.query.as_deref().unwrap_or("status:open"), &office)?;
    let limit = trial.limit.unwrap_or(DEFAULT).clamp(1, MOST);

    let mut verdicts = Changes::default();
    let mut owned = Changes::default();
    let mut attempted = Changes::default();
    let mut tried = Tried::default();
    let mut page = query_text::page(Some(Page::MOST), trial.cursor)?;
    loop {
        let found = office.shown().letters(&query, &page).await?;
        for letter in &found.letters {
            tried.scanned += 1;
            if let Some(rules) = &rules {
                let new = rules.classify(&failure(letter), &place(letter), trial.unknown);
                tried.count(letter.verdict, new.verdict);
                verdicts.add(letter.verdict, new.verdict, Some(new.rule), letter.id);
            }
            if let Some(rules) = rules.as_ref().filter(|_| trial.attempts && letter.attempts > 0) {
                let history = office.shown().letter(letter.id).await?.history;
                for record in history.records() {
                    let Some(was) = record.verdict else { continue };
                    let new = rules.classify(&attempt(record), &place(letter), trial.unknown);
                    tried.attempts_scanned += 1;
                    attempted.add(was, new.verdict, Some(new.rule), letter.id);
                }
            }
            if let Some(owners) = &owners {
                let new = owners.owner_of(&subject(letter)).map(str::to_string);
                owned.add(letter.owner.clone(), new, None, letter.id);
            }
        }
        match found.next {
            Some(next) if tried.scanned < limit => page.cursor = Some(next),
            next => {
                tried.next_cursor = next;
                break;
            }
        }
    }
    tried.verdicts = verdicts.into_list();
    tried.owners = owned.into_list();
    tried.attempts = attempted.into_list();
    Ok(Json(tried).into_response())
}

impl Tried {
    fn count(&mut self, from: VerdictKind, to: VerdictKind) {
        if from == to {
            return;
        }
        match to {
            VerdictKind::Retry => self.retried += 1,
            VerdictKind::Discard => self.discarded += 1,
            VerdictKind::DeadLetter => self.parked += 1,
        }
    }
}

/// The failure as far as the letter remembers it.
fn failure(letter: &Letter) -> Failure {
    Failure {
        code: letter.error_code.clone(),
        http_status: letter.error_code.as_deref().and_then(|code| code.parse().ok()),
        ..Failure::new(letter.error_class.clone().unwrap_or_default(), letter.error_message.clone())
    }
}

/// The failure of one attempt, as far as its record remembers it.
fn attempt(record: &AttemptRecord) -> Failure {
    let class = record.error_class.clone().unwrap_or_default();
    Failure::new(class, record.message.clone().unwrap_or_default())
}

fn place(letter: &Letter) -> Place<'_> {
    Place {
        queue: &letter.origin.queue,
        consumer: letter.consumer.as_deref(),
        event_type: letter.event_type.as_deref(),
    }
}

fn subject(letter: &Letter) -> Subject<'_> {
    Subject {
        source: &letter.source,
        queue: &letter.origin.queue,
        event_type: letter.event_type.as_deref(),
        consumer: letter.consumer.as_deref(),
        class: letter.error_class.as_deref(),
    }
}

/// Changes by kind, each with a few letters as samples.
struct Changes<T>(BTreeMap<Kind<T>, (u64, Vec<LetterId>)>);

/// From, to, and the rule that says so.
type Kind<T> = (T, T, Option<String>);

impl<T> Default for Changes<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> Changes<T> {
    fn add(&mut self, from: T, to: T, rule: Option<String>, letter: LetterId) {
        if from == to {
            return;
        }
        let key = (from, to, rule);
        if self.0.len() >= CHANGES && !self.0.contains_key(&key) {
            return;
        }
        let (count, samples) = self.0.entry(key).or_default();
        *count += 1;
        if samples.len() < SAMPLES {
            samples.push(letter);
        }
    }

    fn into_list(self) -> Vec<Change<T>> {
        let mut list: Vec<Change<T>> = self
            .0
            .into_iter()
            .map(|((from, to, rule), (count, samples))| Change { from, to, rule, count, samples })
            .collect();
        list.sort_by_key(|change| std::cmp::Reverse(change.count));
        list
    }
}
