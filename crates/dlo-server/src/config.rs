//! What the server is told at its start. Read and checked by the CLI; every value has a default that is safe.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dlo_core::automation::AutomationRule;
use dlo_core::classify::Rule;
use dlo_core::known::KnownPatterns;
use dlo_core::owners::{OwnerRule, Owners};
use dlo_core::query::ReplayLimits;
use dlo_core::redact::RedactRules;
use dlo_core::replay::Settings;
use dlo_core::teams::Teams;
use dlo_store::replays::{PlanPolicy, SourcePolicy};

use crate::decode::Formats;
use crate::repair::RepairConfig;

/// How the office listens and what it allows.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    /// Demanded from everybody once it is set, and needed to listen beyond loopback.
    pub token: Option<Token>,
    /// Tokens of people, by name. Who presents one is that person in every record, and only such may approve.
    pub tokens: Vec<(String, Token)>,
    /// Names under which browsers may reach the office, besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
    pub limits: HttpLimits,
    /// Where backups and uploads pass through on their way; `None`: the system's temporary directory.
    pub scratch: Option<PathBuf>,
    /// Who owns what (E4).
    pub owners: Owners,
    /// How to reach owners, and how long their letters may lie.
    pub teams: Teams,
    /// What failures usually mean (E5); `None`: the built-in patterns.
    pub known: Option<KnownPatterns>,
    pub replay: ReplayRules,
    /// What is done without a person, in order.
    pub automation: Vec<AutomationRule>,
    /// Who runs repair expressions, and what their results have to fit (F9).
    pub repair: RepairConfig,
    /// How binary payloads are read, for people who look.
    pub formats: Formats,
    /// The rules as they are written, for people who look.
    pub written: WrittenRules,
}

/// Rules as the config has them. What they do is done elsewhere; the page shows them.
#[derive(Debug, Clone, Default)]
pub struct WrittenRules {
    /// The team's own; the built-in ones stand behind them.
    pub classify: Vec<Rule>,
    pub owners: Vec<OwnerRule>,
    pub redact: Option<RedactRules>,
}

/// What the office allows of replays, beside what each source says.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayRules {
    /// Plans of more letters than this need one approval more; `None`: none does.
    pub large: Option<u64>,
    /// A plan that was not started by then is void.
    pub expires: Duration,
    /// By source. A source that is not here has no queue to send to.
    pub sources: BTreeMap<String, SourceReplay>,
}

impl Default for ReplayRules {
    fn default() -> Self {
        Self { large: Some(10_000), expires: Duration::from_secs(24 * 3_600), sources: BTreeMap::new() }
    }
}

impl ReplayRules {
    /// How often letters are replayed, by source.
    pub(crate) fn limits(&self) -> ReplayLimits {
        let by_source =
            self.sources.iter().map(|(name, source)| (name.clone(), source.settings.limit)).collect();
        ReplayLimits { by_source, ..ReplayLimits::default() }
    }

    /// As the store asks for it when it plans.
    pub(crate) fn policy(&self) -> PlanPolicy {
        let one = |source: &SourceReplay| SourcePolicy {
            approvals: source.approvals,
            order: source.settings.order,
            critical: source.critical,
            counts_traffic: source.counts_traffic,
        };
        PlanPolicy {
            sources: self.sources.iter().map(|(name, source)| (name.clone(), one(source))).collect(),
            large: self.large,
            ..PlanPolicy::default()
        }
    }
}

/// How letters of one source are replayed, unless a plan says otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SourceReplay {
    /// People other than the planner who must approve.
    pub approvals: u8,
    pub settings: Settings,
    /// What is in doubt there is for a person, whatever a plan says.
    pub critical: bool,
    /// Its broker tells how much its queue gets, so that a share of it can be said. Set by the server from its targets.
    pub counts_traffic: bool,
}

/// Every bound of the door, on one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections at once; further ones wait in the listener's queue.
    pub connections: usize,
    /// Requests at once; further ones are answered 503 with `Retry-After`.
    pub requests: usize,
    /// Bytes of bodies in memory at once, over all requests; who sends more is read more slowly. More than one
    /// `json_body` and one `item`, or those could not be received.
    pub body_memory: usize,
    /// How long a client may take to send the head of a request, and to begin the next one.
    pub head_timeout: Duration,
    /// How long a client may be silent in the middle of a body.
    pub body_timeout: Duration,
    /// How long a client may read nothing of its answer.
    pub write_timeout: Duration,
    /// Bytes of a JSON body. An NDJSON body has no limit but that of its items.
    pub json_body: usize,
    /// Bytes of one line of NDJSON: the largest payload as base64, and everything around it.
    pub item: usize,
    /// Items of one request.
    pub items: u64,
    /// Bytes of an uploaded backup.
    pub restore_body: u64,
    /// How long a stream of letters waits for a store that is behind, before items are refused as `overloaded`.
    pub patience: Duration,
    /// How long requests in flight may take to finish when the server stops.
    pub grace: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            requests: 256,
            body_memory: 128 * 1024 * 1024,
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            json_body: 32 * 1024 * 1024,
            item: 24 * 1024 * 1024,
            items: 1_000_000,
            restore_body: 64 * 1024 * 1024 * 1024,
            patience: Duration::from_secs(20),
            grace: Duration::from_secs(10),
        }
    }
}

/// A bearer token. `Debug` does not show it.
#[derive(Clone)]
pub struct Token(String);

/// A token that would be guessed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a token has at least {least} visible ASCII characters; `openssl rand -hex 32` makes a good one", least = Token::LEAST)]
pub struct WeakToken;

impl Token {
    /// Characters of the shortest token that is taken.
    pub const LEAST: usize = 16;

    pub fn new(text: impl Into<String>) -> Result<Self, WeakToken> {
        let text = text.into();
        if text.len() < Self::LEAST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(WeakToken);
        }
        Ok(Self(text))
    }

    /// Compares in a time that does not depend on where the two differ.
    pub fn is(&self, presented: &str) -> bool {
        use subtle::ConstantTimeEq;
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown_and_not_short() {
        assert_eq!(format!("{:?}", Token::new("0123456789abcdef").unwrap()), "Token(…)");
        assert!(Token::new("hunter2").is_err());
        assert!(Token::new("sixteen chars and spaces").is_err());
    }

    #[test]
    fn a_token_is_compared_whole() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef"));
        assert!(!token.is("0123456789abcde") && !token.is("0123456789abcdeX") && !token.is(""));
    }
}
