//! The office as one running thing: what it is made of, how it starts, in which order it stops.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::Broker;
use dlo_core::fingerprint::Parts;
use dlo_core::group::Group;
use dlo_core::known::KnownPatterns;
use dlo_core::owners::Owners;
use dlo_core::redact::Redactor;
use dlo_core::teams::Teams;
use dlo_core::time::Clock;
use dlo_store::{DynStore, StoreError};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission_log::AdmissionLog;
use crate::capture::{self, CaptureSpec, CaptureStatus};
use crate::config::{ServerConfig, WrittenRules};
use crate::mask::Mask;
use crate::office::{BrokerFacts, Office};
use crate::replay::{self, ReplayTarget};
use crate::{api, automation, health, listen, scratch, triage};

/// On a full disk, the owners of groups are set this much later.
const OWN_AGAIN: Duration = Duration::from_secs(5);

/// Why the office could not run, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error(
        "listening on {0} is reachable from other machines, and no token is set: set `server.token`, or listen on 127.0.0.1"
    )]
    TokenNeeded(std::net::SocketAddr),
    #[error("the listener has no address: {0}")]
    Listener(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Rules that may change while the office runs.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub owners: Owners,
    pub teams: Teams,
    /// What failures usually mean; `None`: the built-in patterns.
    pub known: Option<KnownPatterns>,
    /// What is hidden; `None`: nothing.
    pub redactor: Option<Redactor>,
    /// All of them as they are written.
    pub written: WrittenRules,
}

/// What can be done beside the office, by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hooks(pub(crate) Vec<Switch>);

/// A switch of whoever embeds the office beside something that it can do, such as the demo: a button on the overview until
/// it is on, and afterwards what it did.
#[derive(Clone)]
pub struct Switch {
    /// Where it is asked for, with `POST`.
    pub path: &'static str,
    /// What the button says, and what stands beside it.
    pub label: &'static str,
    pub hint: &'static str,
    /// What is said once it is on.
    pub done: &'static str,
    pub press: Arc<dyn Fn() + Send + Sync>,
    pub is_on: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The control plane, put together and not yet running.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    store: DynStore,
    clock: Arc<dyn Clock>,
    log: AdmissionLog,
    mask: Mask,
    captures: Vec<CaptureSpec>,
    targets: Vec<ReplayTarget>,
    changes: Option<mpsc::Receiver<Rules>>,
    hooks: Hooks,
}

impl Server {
    pub fn new(config: ServerConfig, store: DynStore, clock: Arc<dyn Clock>) -> Self {
        Self {
            config,
            store,
            clock,
            log: AdmissionLog::off(),
            mask: Mask::default(),
            captures: Vec::new(),
            targets: Vec::new(),
            changes: None,
            hooks: Hooks::default(),
        }
    }

    /// Answers `POST` on the switch's path, behind the same guards as everything else, and puts it on the overview.
    #[must_use]
    pub fn hook(mut self, switch: Switch) -> Self {
        self.hooks.0.push(switch);
        self
    }

    /// Writes one `message.dead_lettered` line for each stored letter to `sink`.
    #[must_use]
    pub fn admission_log(mut self, sink: Box<dyn Write + Send>) -> Self {
        self.log = AdmissionLog::to(sink);
        self
    }

    /// Hides what these rules call sensitive in everything that is shown; the store keeps the original.
    #[must_use]
    pub fn redact(mut self, rules: Redactor) -> Self {
        self.mask = Mask::new(rules);
        self
    }

    /// Takes up rules that come through here, without a pause: letters that arrive are owned and shown by them, and
    /// the groups that are here get their owners anew.
    #[must_use]
    pub fn changes(mut self, rules: mpsc::Receiver<Rules>) -> Self {
        self.changes = Some(rules);
        self
    }

    /// Brings a dead-letter queue into the store. Everything is opened, and opened again, while the office runs: it
    /// starts also when the broker is away, and says so in its status.
    #[must_use]
    pub fn capture(mut self, spec: CaptureSpec) -> Self {
        self.captures.push(spec);
        self
    }

    /// Sends letters of a source there. A replay of a source that has no target here is left to a server that has it.
    #[must_use]
    pub fn target(mut self, target: ReplayTarget) -> Self {
        let rules = self.config.replay.sources.entry(target.source.clone()).or_default();
        rules.counts_traffic = target.broker.ends_count();
        self.targets.push(target);
        self
    }

    /// Serves until `shutdown`, then: no new requests, capture ends, requests in flight finish within the
    /// grace period, the store is closed.
    pub async fn run(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        if !address.ip().is_loopback() && self.config.token.is_none() && self.config.tokens.is_empty() {
            return Err(ServeError::TokenNeeded(address));
        }
        scratch::sweep(&self.config);
        let captured = self.captures.iter().map(|spec| (&spec.source, &spec.broker));
        let targets = self.targets.iter().map(|target| (&target.source, &target.broker));
        let brokers = captured.chain(targets).map(facts).collect();
        let office = Office::new(self.config, self.store, self.clock, self.log, self.mask);
        let targets = self.targets.iter().map(|target| (target.source.clone(), target.clone())).collect();
        let office = Arc::new(Office { hooks: self.hooks, brokers, targets, ..office });
        let stop = CancellationToken::new();
        let captures = TaskTracker::new();
        match office.assign_owners().await {
            // People must be able to read: the office opens on a full disk too.
            Err(full) if full.is_disk_full() => {
                captures.spawn(own_later(office.clone(), stop.clone()));
            }
            assigned => assigned?,
        }
        for spec in self.captures {
            office.captures.enter(&spec);
            captures.spawn(capture::run(office.clone(), spec, stop.clone()));
        }
        // Also without any target: replays whose broker is gone are put away.
        captures.spawn(replay::run(office.clone(), self.targets, stop.clone()));
        if let Some(changes) = self.changes {
            captures.spawn(take_up(office.clone(), changes, stop.clone()));
        }
        captures.spawn(automation::run(office.clone(), stop.clone()));
        captures.spawn(triage::run(office.clone(), stop.clone()));
        captures.spawn(health::watch(office.clone(), stop.clone()));
        captures.close();
        let serving =
            listen::serve(listener, api::router(office.clone()), &office.config.limits, stop.clone());
        tracing::info!(%address, "the office is open");
        tokio::join!(serving, async {
            shutdown.await;
            tracing::info!("the office is closing");
            stop.cancel();
        });
        // Capture ends by itself at its next safe place: what is not settled is delivered again.
        if tokio::time::timeout(office.config.limits.grace, captures.wait()).await.is_err() {
            tracing::warn!(
                "capture did not end within the grace period; what was not settled is delivered again"
            );
        }
        office.log.flush();
        office.store.close().await?;
        Ok(())
    }
}

fn facts((source, broker): (&String, &Arc<dyn Broker>)) -> (String, BrokerFacts) {
    (source.clone(), BrokerFacts { capabilities: broker.capabilities().clone() })
}

/// Takes up new rules until the office stops.
async fn take_up(office: Arc<Office>, mut changes: mpsc::Receiver<Rules>, stop: CancellationToken) {
    while let Some(Some(rules)) = stop.run_until_cancelled(changes.recv()).await {
        office.admission.set_owners(rules.owners);
        office.mask.set(rules.redactor);
        office.triage.set(rules.known, rules.teams);
        office.written.set(rules.written);
        match office.assign_owners().await {
            Ok(()) => tracing::info!("the rules were read anew"),
            Err(error) => tracing::error!(%error, "new rules own new letters only; groups keep their owners"),
        }
    }
}

/// Sets the owners of the groups when there is space on the disk again.
async fn own_later(office: Arc<Office>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(OWN_AGAIN)).await.is_some() {
        match office.assign_owners().await {
            Ok(()) => return,
            Err(full) if full.is_disk_full() => {}
            Err(error) => {
                return tracing::error!(%error, "groups keep their owners until the rules are read again");
            }
        }
    }
}

/// What ownership of a group is decided by.
fn parts(group: &Group) -> Parts<'_> {
    Parts {
        source: &group.source,
        queue: &group.queue,
        consumer: group.consumer.as_deref(),
        event_type: group.event_type.as_deref(),
        error_class: group.error_class.as_deref(),
    }
}

impl Office {
    /// Sets the owner of every group by the rules that are in force now.
    pub(crate) async fn assign_owners(&self) -> Result<(), StoreError> {
        let changed = self.store.assign_owners(&|group| self.admission.owner_of(parts(group))).await?;
        if changed > 0 {
            tracing::info!(groups = changed, "owners were set anew by the rules");
        }
        Ok(())
    }

    /// How each capture stands now.
    pub(crate) fn capture_status(&self) -> Vec<CaptureStatus> {
        self.captures.all(self.now())
    }
}
