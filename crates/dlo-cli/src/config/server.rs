//! `[server]`, `[server.limits]` and `[log]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::reader::Section;
use super::secret::Secret;
use crate::features;

/// How the office listens and where it keeps letters.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) storage: Storage,
    /// Demanded from everybody once it is set.
    pub(crate) token: Option<Secret>,
    /// Tokens of people, by name: who approves a replay must have one.
    pub(crate) tokens: Vec<(String, Secret)>,
    /// Names under which browsers may reach the office, besides localhost and addresses.
    pub(crate) hosts: Vec<String>,
    pub(crate) limits: Limits,
}

/// Where letters are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Storage {
    /// SQLite in this directory.
    Embedded(PathBuf),
    /// PostgreSQL at this address.
    Postgres(Secret),
}

/// The bounds that can be set. The others are written down where they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// Bytes of a JSON body.
    pub(crate) body: usize,
    /// Items of one request.
    pub(crate) items: u64,
    /// How long requests in flight may take to finish when the office stops.
    pub(crate) grace: Duration,
    /// How long a client may be silent in the middle of a body.
    pub(crate) unsent: Duration,
    /// How long a client may read nothing of its answer.
    pub(crate) unread: Duration,
    pub(crate) groups_per_source: usize,
    /// Bytes of letters waiting to be written; past that the office answers 429.
    pub(crate) waiting: usize,
    /// The deadline of a call to the store.
    pub(crate) deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (http, store) = (dlo_server::HttpLimits::default(), dlo_store::StoreLimits::default());
        Self {
            connections: http.connections,
            requests: http.requests,
            body: http.json_body,
            items: http.items,
            grace: http.grace,
            unsent: http.body_timeout,
            unread: http.write_timeout,
            groups_per_source: store.groups_per_source,
            waiting: store.waiting_bytes,
            deadline: store.deadline,
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8404)),
            storage: Storage::Embedded(PathBuf::from("dlo-data")),
            token: None,
            tokens: Vec::new(),
            hosts: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LogStyle {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) style: LogStyle,
    /// A level, or a filter such as `dlo_server=debug,warn`.
    pub(crate) filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { style: LogStyle::Auto, filter: "info".to_string() }
    }
}

pub(super) fn read(section: Section<'_>) -> Server {
    let default = Server::default();
    let server = Server {
        listen: listen(&section).unwrap_or(default.listen),
        storage: storage(&section).unwrap_or(default.storage),
        token: token(&section),
        tokens: tokens(&section.section("tokens")),
        hosts: section.texts("hosts"),
        limits: limits(&section.section("limits")),
    };
    for host in server.hosts.iter().filter(|host| host.is_empty() || host.contains(['/', ' ', '*'])) {
        let shown = crate::output::clean(host);
        section.problem("hosts", format!("expected names such as \"dlo.example.com\", found \"{shown}\""));
    }
    section.check();
    server
}

/// Reads an address: `127.0.0.1:8404`, `[::1]:8404`, `localhost:8404`.
pub(crate) fn address(text: &str) -> Option<SocketAddr> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_string(),
    };
    text.parse().ok()
}

fn listen(section: &Section<'_>) -> Option<SocketAddr> {
    let text = section.text("listen")?;
    let address = address(&text);
    if address.is_none() {
        let shown: String = text.chars().take(64).collect();
        section
            .problem("listen", format!("expected an address such as \"127.0.0.1:8404\", found \"{shown}\""));
    }
    address
}

fn storage(section: &Section<'_>) -> Option<Storage> {
    let (data, database) = (section.path("data"), section.text("database"));
    match (data, database) {
        (Some(_), Some(_)) => {
            section.problem("database", "and `server.data` exclude each other: keep one of the two");
            None
        }
        (Some(data), None) => Some(Storage::Embedded(data)),
        (None, Some(url)) if is_postgres(&url) => {
            if let Some(lacking) = features::lacking(features::POSTGRES) {
                section.problem("database", format!("is a PostgreSQL address: {lacking}"));
            }
            Some(Storage::Postgres(Secret::new(url)))
        }
        // The value may hold a password, so it is not repeated.
        (None, Some(_)) => {
            section.problem("database", "expected an address such as \"postgres://user:password@host/name\"");
            None
        }
        (None, None) => None,
    }
}

pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// `token`, or the content of `token_file`.
pub(super) fn token(section: &Section<'_>) -> Option<Secret> {
    let (key, text) = match (section.text("token"), section.path("token_file")) {
        (Some(_), Some(_)) => {
            section.problem("token_file", "and `token` exclude each other: keep one of the two");
            return None;
        }
        (Some(text), None) => ("token", text),
        (None, Some(path)) => match std::fs::read_to_string(&path) {
            Ok(text) => ("token_file", text.trim().to_string()),
            Err(cause) => {
                section.problem(
                    "token_file",
                    format!("names {}, which cannot be read: {cause}", path.display()),
                );
                return None;
            }
        },
        (None, None) => return None,
    };
    match dlo_server::Token::new(text.as_str()) {
        Ok(_) => Some(Secret::new(text)),
        Err(weak) => {
            section.problem(key, format!("is too weak: {weak}"));
            None
        }
    }
}

/// `[server.tokens]`: a name and its token a line.
fn tokens(section: &Section<'_>) -> Vec<(String, Secret)> {
    let mut tokens: Vec<(String, Secret)> = Vec::new();
    for (name, text) in section.pairs() {
        if let Err(weak) = dlo_server::Token::new(text.as_str()) {
            section.problem(&name, format!("is too weak: {weak}"));
        } else if tokens.iter().any(|(_, other)| other.reveal() == text) {
            section.problem(&name, "is the token of somebody else as well; each has their own");
        } else {
            tokens.push((name, Secret::new(text)));
        }
    }
    tokens
}

fn limits(section: &Section<'_>) -> Limits {
    let default = Limits::default();
    let count = |key, most, default: usize| {
        section.number(key, 1..=most).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
    };
    let bytes = |key, range, default: usize| {
        section.size(key, range).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
    };
    let second = Duration::from_secs(1);
    let limits = Limits {
        connections: count("connections", 100_000, default.connections),
        requests: count("requests", 100_000, default.requests),
        body: bytes("body", 1_000..=1_000_000_000, default.body),
        items: section
            .number("items", 1..=100_000_000)
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(default.items),
        grace: section.duration("grace", second..=second * 600).unwrap_or(default.grace),
        unsent: section.duration("unsent", second..=second * 600).unwrap_or(default.unsent),
        unread: section.duration("unread", second..=second * 600).unwrap_or(default.unread),
        groups_per_source: count("groups_per_source", 1_000_000, default.groups_per_source),
        waiting: bytes("waiting", 1_000_000..=10_000_000_000, default.waiting),
        deadline: section.duration("deadline", second..=second * 600).unwrap_or(default.deadline),
    };
    section.check();
    limits
}

pub(super) fn log(section: Section<'_>) -> Log {
    let style = section.text("format").map(|word| match word.as_str() {
        "auto" => LogStyle::Auto,
        "text" => LogStyle::Text,
        "json" => LogStyle::Json,
        other => {
            let shown: String = other.chars().take(64).collect();
            section.problem("format", format!("expected one of auto, text, json, found \"{shown}\""));
            LogStyle::Auto
        }
    });
    let filter = section.text("level").inspect(|filter| {
        if let Err(what) = crate::logs::check_filter(filter) {
            section.problem("level", what);
        }
    });
    section.check();
    let default = Log::default();
    Log { style: style.unwrap_or_default(), filter: filter.unwrap_or(default.filter) }
}
