//! What every request shares: the store, the clock, the rules, the counters.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::StatusCode;
use dlo_core::broker::Capabilities;
use dlo_core::query::{Expiry, Query, QueryError};
use dlo_core::time::{Clock, Timestamp};
use dlo_store::DynStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission_log::AdmissionLog;
use crate::admit::Admission;
use crate::api::error::{Answer, Problem};
use crate::automation::AutomationBoard;
use crate::capture::CaptureBoard;
use crate::config::{ServerConfig, WrittenRules};
use crate::consumers::ConsumerBoard;
use crate::full_disk::FullDisk;
use crate::health::Health;
use crate::mask::{Mask, Shown};
use crate::memory::BodyMemory;
use crate::metrics::Metrics;
use crate::process;
use crate::repair::RepairDesk;
use crate::replay::{ReplayDesk, ReplayTarget};
use crate::server::Hooks;
use crate::triage::TriageDesk;

/// Long readings at once: exports, backups, verifications, rule trials, decisions by query.
const LONG_READINGS: usize = 2;

/// The rules as they are written now; they may change while the office runs.
#[derive(Debug, Default)]
pub(crate) struct Written(RwLock<Arc<WrittenRules>>);

impl Written {
    pub(crate) fn get(&self) -> Arc<WrittenRules> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, rules: WrittenRules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }
}

/// What is known of the broker of a source without asking it.
#[derive(Debug, Clone)]
pub(crate) struct BrokerFacts {
    pub(crate) capabilities: Capabilities,
}

#[derive(Debug)]
pub(crate) struct Office {
    pub(crate) config: ServerConfig,
    pub(crate) store: DynStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) admission: Admission,
    pub(crate) log: AdmissionLog,
    /// What is hidden on its way out.
    pub(crate) mask: Mask,
    /// For people who look at the rules.
    pub(crate) written: Written,
    pub(crate) metrics: Metrics,
    pub(crate) captures: CaptureBoard,
    /// Whether the store answers.
    pub(crate) health: Health,
    /// Which consumers hold messages back.
    pub(crate) consumers: ConsumerBoard,
    /// Whether the last letters were refused because a disk is full.
    pub(crate) full_disk: FullDisk,
    /// By source; those whose letters come over HTTP have none.
    pub(crate) brokers: BTreeMap<String, BrokerFacts>,
    /// Where letters of a source can be sent, by source.
    pub(crate) targets: BTreeMap<String, ReplayTarget>,
    pub(crate) replays: Arc<ReplayDesk>,
    pub(crate) automation: AutomationBoard,
    /// What automation takes away, and when.
    pub(crate) expiry: Expiry,
    pub(crate) triage: TriageDesk,
    pub(crate) repairs: Arc<RepairDesk>,
    /// What can be done beside the office.
    pub(crate) hooks: Hooks,
    /// This process, among those that share a database; another one at every start.
    pub(crate) holder: String,
    /// One permit for each request that is being served.
    pub(crate) requests: Semaphore,
    /// What bodies may take, over all requests.
    pub(crate) memory: BodyMemory,
    /// One permit for each long reading, so that they cannot crowd out the rest.
    pub(crate) long: Arc<Semaphore>,
}

impl Office {
    pub(crate) fn new(
        config: ServerConfig,
        store: DynStore,
        clock: Arc<dyn Clock>,
        log: AdmissionLog,
        mask: Mask,
    ) -> Self {
        let written = Written(RwLock::new(Arc::new(config.written.clone())));
        Self {
            written,
            requests: Semaphore::new(config.limits.requests),
            memory: BodyMemory::new(config.limits.body_memory, config.limits.patience),
            long: Arc::new(Semaphore::new(LONG_READINGS)),
            admission: Admission::new(config.owners.clone()),
            metrics: Metrics::default(),
            captures: CaptureBoard::default(),
            health: Health::default(),
            consumers: ConsumerBoard::default(),
            full_disk: FullDisk::default(),
            brokers: BTreeMap::new(),
            targets: BTreeMap::new(),
            replays: Arc::default(),
            automation: AutomationBoard::default(),
            expiry: Expiry::new(&config.automation, &config.replay.limits()),
            hooks: Hooks::default(),
            triage: TriageDesk::new(config.known.clone(), config.teams.clone()),
            repairs: Arc::new(RepairDesk::new(config.repair.clone())),
            holder: process::holder(),
            config,
            store,
            clock,
            log,
            mask,
        }
    }

    /// Room for one more long reading.
    pub(crate) fn long_reading(&self) -> Answer<OwnedSemaphorePermit> {
        self.long.clone().try_acquire_owned().map_err(|_| {
            let detail = format!("{LONG_READINGS} exports, backups, verifications, trials or decisions by query are under way already; try again later");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail).retry_after(5)
        })
    }

    /// What a person asks, at this moment and of the sources of this office: it finds by what is shown.
    pub(crate) fn query(&self, text: &str) -> Result<Query, QueryError> {
        Ok(self.mask.query(self.real_query(text)?))
    }

    /// The same asked by the config, of the real values.
    pub(crate) fn real_query(&self, text: &str) -> Result<Query, QueryError> {
        let now = self.now();
        let query = Query::parse(text, now)?.with_limits(&self.config.replay.limits());
        Ok(query.with_expiry(&self.expiry.as_of(now)))
    }

    /// What the store holds, as it may be shown.
    pub(crate) fn shown(&self) -> Shown<'_> {
        Shown(self)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[cfg(test)]
impl Office {
    /// An office without a door, on an embedded store.
    pub(crate) fn in_directory(directory: &std::path::Path) -> Arc<Self> {
        let store =
            dlo_store::sqlite::SqliteStore::open(directory, dlo_store::StoreLimits::default()).unwrap();
        let config = ServerConfig { scratch: Some(directory.to_path_buf()), ..ServerConfig::default() };
        let clock = Arc::new(dlo_testkit::clock::TokioClock::default());
        Arc::new(Self::new(config, store, clock, AdmissionLog::off(), Mask::default()))
    }
}
