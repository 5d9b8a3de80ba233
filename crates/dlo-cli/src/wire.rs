//! The composition root: config → store, brokers, server. The only place that sees all of them at once.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use dlo_core::broker::Broker;
use dlo_core::time::Clock;
use dlo_server::{
    CaptureSpec, HttpLimits, RepairConfig, ReplayRules, ReplayTarget, Rules, Schemas, Server, ServerConfig,
    Token, WorkerCommand, WrittenRules,
};
use dlo_store::sqlite::SqliteStore;
use dlo_store::{DynStore, Page, StoreError, StoreLimits};

use crate::clock::{self, OfficeClock};
use crate::config::{Config, Limits, Source, SourceReplay, Storage};
use crate::exit::{Exit, Failure, Outcome};
use crate::schemas;

/// Opens the store that the config names.
pub(crate) async fn store(storage: &Storage, limits: &Limits) -> Outcome<DynStore> {
    let limits = StoreLimits {
        groups_per_source: limits.groups_per_source,
        waiting_bytes: limits.waiting,
        deadline: limits.deadline,
        ..StoreLimits::default()
    };
    match storage {
        Storage::Embedded(directory) => {
            let home = directory.clone();
            // Migrations and recovery block: they have a thread of their own.
            let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&home, limits)).await;
            let opened =
                opened.map_err(|cause| Failure::failed(format!("the store could not be opened: {cause}")))?;
            Ok(opened.map_err(|error| match error {
                StoreError::DiskFull(_) => Failure::failed(format!(
                    "{error}; it is the one of {}, and the office needs about 1 MB of it to start",
                    directory.display()
                )),
                other => refused(other),
            })?)
        }
        Storage::Postgres(url) => {
            Ok(dlo_store::open_postgres(url.reveal(), limits).await.map_err(refused)?)
        }
    }
}

/// Has the office's clock go on behind the newest entry of the store.
pub(crate) async fn set_clock(store: &DynStore) -> Outcome {
    let newest = store.audit(&Page::first(1)).await.map_err(refused)?;
    if let Some(newest) = newest.entries.first() {
        clock::go_on_behind(newest.at);
    }
    Ok(())
}

/// A store that does not open, with the exit code that fits.
fn refused(error: StoreError) -> Failure {
    let exit = match &error {
        StoreError::InUse { .. } | StoreError::Newer { .. } => Exit::Refused,
        StoreError::Unavailable(_) | StoreError::Unconfirmed(_) => Exit::Unreachable,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}

/// The server that the config describes, put together and not yet running.
pub(crate) async fn server(config: &Config, store: DynStore) -> Outcome<Server> {
    let clock: Arc<dyn Clock> = Arc::new(OfficeClock);
    let mut server = Server::new(server_config(config)?, store, Arc::clone(&clock));
    if let Some(redactor) = &config.rules.redactor {
        server = server.redact(redactor.clone());
    }
    for spec in captures(config, &clock).await? {
        server = server.target(target(config, &spec)).capture(spec);
    }
    Ok(server)
}

/// Where the letters of a captured source are sent: back to its queue. The group that is consumed for it here, if any, is
/// the one whose progress is watched.
fn target(config: &Config, spec: &CaptureSpec) -> ReplayTarget {
    let broker = config.sources.iter().find(|source| source.name == spec.source);
    let broker = broker.and_then(|source| source.broker.as_ref());
    let consumer = config
        .consumers
        .iter()
        .find(|consumer| consumer.queue == spec.queue && Some(&consumer.broker) == broker);
    ReplayTarget {
        source: spec.source.clone(),
        broker: Arc::clone(&spec.broker),
        queue: spec.queue.clone(),
        dlq: spec.dlq.clone(),
        mapper: spec.mapper.clone(),
        group: consumer.map(|consumer| consumer.settings.group.clone()),
    }
}

/// The part of the config that an office takes up while it runs.
pub(crate) fn rules(config: &Config) -> Rules {
    Rules {
        owners: config.rules.owners.clone(),
        teams: config.rules.teams.clone(),
        known: config.rules.known.clone(),
        redactor: config.rules.redactor.clone(),
        written: written(config),
    }
}

/// The rules as people wrote them, for people who look.
fn written(config: &Config) -> WrittenRules {
    WrittenRules {
        classify: config.rules.classify.clone(),
        owners: config.rules.owners_written.clone(),
        redact: config.rules.redact_written.clone(),
    }
}

/// The part of the config that the server gets. Refuses a setting that cannot be used; opens nothing.
pub(crate) fn server_config(config: &Config) -> Outcome<ServerConfig> {
    let token = config.server.token.as_ref().map(|token| Token::new(token.reveal())).transpose();
    let limits = &config.server.limits;
    let schemas::Read { schemas, formats } = schemas::read(config)?;
    Ok(ServerConfig {
        token: token.map_err(|weak| Failure::usage(format!("`server.token`: {weak}")))?,
        tokens: named_tokens(config)?,
        hosts: config.server.hosts.clone(),
        limits: HttpLimits {
            connections: limits.connections,
            requests: limits.requests,
            json_body: limits.body,
            items: limits.items,
            grace: limits.grace,
            body_timeout: limits.unsent,
            write_timeout: limits.unread,
            ..HttpLimits::default()
        },
        scratch: match &config.server.storage {
            Storage::Embedded(directory) => Some(directory.clone()),
            Storage::Postgres(_) => None,
        },
        owners: config.rules.owners.clone(),
        teams: config.rules.teams.clone(),
        known: config.rules.known.clone(),
        repair: repair(schemas)?,
        replay: replay_rules(config),
        automation: config.rules.automation.clone(),
        formats,
        written: written(config),
    })
}

fn named_tokens(config: &Config) -> Outcome<Vec<(String, Token)>> {
    let one = |(name, text): &(String, crate::config::Secret)| {
        let token = Token::new(text.reveal());
        let token = token.map_err(|weak| Failure::usage(format!("`server.tokens.{name}`: {weak}")))?;
        Ok((name.clone(), token))
    };
    config.server.tokens.iter().map(one).collect()
}

/// What is allowed of replays. Sources without a broker have nowhere to send to, and are left out.
fn replay_rules(config: &Config) -> ReplayRules {
    let with_broker = config.sources.iter().filter(|source| source.broker.is_some());
    let sources = with_broker.map(|source| {
        let SourceReplay { approvals, settings, critical } = source.replay.clone();
        let rules = dlo_server::SourceReplay { approvals, settings, critical, ..Default::default() };
        (source.name.clone(), rules)
    });
    ReplayRules {
        large: Some(config.replay.large),
        expires: config.replay.expires,
        sources: sources.collect(),
    }
}

/// Who runs repair expressions: this very program, as a process of its own.
pub(crate) fn repair(schemas: Schemas) -> Outcome<RepairConfig> {
    let worker = WorkerCommand::this_program("repair-worker")
        .map_err(|cause| Failure::failed(format!("this program does not find itself: {cause}")))?;
    Ok(RepairConfig { worker: Some(worker), schemas, ..RepairConfig::default() })
}

/// What is captured: the sources that have a broker, each broker made once and shared. Reaches for no server; what can
/// never work is refused.
async fn captures(config: &Config, clock: &Arc<dyn Clock>) -> Outcome<Vec<CaptureSpec>> {
    let mut brokers: BTreeMap<&str, Arc<dyn Broker>> = BTreeMap::new();
    let mut specs = Vec::new();
    for source in &config.sources {
        let (Some(name), Some(dlq)) = (&source.broker, &source.dlq) else { continue };
        let named = config.brokers.iter().find(|broker| broker.name == *name);
        let Some(settings) = named.and_then(|broker| broker.settings.as_ref()) else { continue };
        let broker = match brokers.get(name.as_str()) {
            Some(broker) => Arc::clone(broker),
            None => {
                let made = dlo_brokers::connect(settings, Arc::clone(clock)).await;
                let made = made.map_err(|cause| cannot_capture(source, dlq, cause))?;
                brokers.insert(name, Arc::clone(&made));
                made
            }
        };
        specs.push(capture(source, dlq, broker)?);
    }
    Ok(specs)
}

/// How a source is captured. A mode that its broker cannot serve is refused; no server is asked.
pub(crate) fn capture(source: &Source, dlq: &str, broker: Arc<dyn Broker>) -> Outcome<CaptureSpec> {
    let spec = CaptureSpec {
        mode: source.mode,
        mapper: source.mapper.clone(),
        limits: source.limits,
        ..CaptureSpec::new(&source.name, broker, &source.queue, dlq)
    };
    match spec.check() {
        Ok(()) => Ok(spec),
        Err(cause) => Err(cannot_capture(source, dlq, cause)),
    }
}

fn cannot_capture(source: &Source, dlq: &str, cause: impl Display) -> Failure {
    Failure::failed(format!("`{dlq}` of source `{}` cannot be captured: {cause}", source.name))
}
