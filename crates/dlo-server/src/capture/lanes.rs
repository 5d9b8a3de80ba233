//! Who reads what: the lanes of one source, divided among the servers that share a database.
//!
//! A lane is a partition of a log, or a whole queue. With the embedded store there is one server and it has them all.
//! On PostgreSQL each lane is a lease in the database: whoever holds it reads, renews it every two seconds, and loses it
//! six seconds after it stopped renewing, to whoever asks next. Each server also holds a lease of its own per source,
//! by which the others count how many they are; a server that has more than its share (lanes over servers, rounded up)
//! gives some up, and one that has less takes what nobody holds. A queue is one lane: who comes first has it, the
//! others stand by. What a server that was believed dead still writes is refused by the store (`Batch::leases`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dlo_core::time::Timestamp;
use dlo_store::{Lease, StoreError};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::desk::{Desk, Trouble};
use super::spec::Way;
use super::{log, queue};

/// How long a lease lasts without being renewed, and how often it is.
const TTL: Duration = Duration::from_secs(6);
const RENEW: Duration = Duration::from_secs(2);
/// How often the division is looked at.
const ROUND: Duration = Duration::from_secs(1);
/// How often the broker is asked for its partitions.
const ASK: Duration = Duration::from_secs(5);

/// One lane that this server reads.
struct Lane {
    lease: Option<Lease>,
    renewed: Instant,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

pub(super) struct Lanes {
    desk: Arc<Desk>,
    way: Way,
    log: Arc<log::Log>,
    /// This server, among those that share the database.
    holder: String,
    partitions: Vec<i32>,
    asked: Option<Instant>,
    member_until: Option<Instant>,
    lanes: BTreeMap<i32, Lane>,
}

/// Reads a source until `stop`.
pub(super) async fn run(desk: Arc<Desk>, way: Way, stop: CancellationToken) {
    let (log, clerk) = log::Log::new(Arc::clone(&desk));
    let clerk = tokio::spawn(clerk);
    let holder = desk.office.holder.clone();
    let mut lanes = Lanes {
        desk,
        way,
        log,
        holder,
        partitions: Vec::new(),
        asked: None,
        member_until: None,
        lanes: BTreeMap::new(),
    };
    loop {
        lanes.round(&stop).await;
        if stop.run_until_cancelled(tokio::time::sleep(ROUND)).await.is_none() {
            break;
        }
    }
    lanes.close().await;
    drop(lanes);
    // Every lane has ended, so the clerk has nothing left to wait for.
    let _ = clerk.await;
}

impl Lanes {
    async fn round(&mut self, stop: &CancellationToken) {
        match stop.run_until_cancelled(self.ask()).await {
            // A broker that does not answer does not hold up the end.
            None => return,
            Some(Ok(())) => {}
            Some(Err(trouble)) if self.partitions.is_empty() => {
                self.desk.waits(queue::LANE, &trouble);
                return;
            }
            // The lanes that are there say what is wrong with theirs.
            Some(Err(_)) => {}
        }
        for (_, lane) in self.lanes.iter().filter(|(at, _)| !self.partitions.contains(at)) {
            // The queue was made anew with fewer.
            lane.stop.cancel();
        }
        self.collect().await;
        if self.desk.office.store.is_shared() {
            if let Err(error) = self.divide(stop).await {
                // Without the database nothing can be stored either: the lanes wait, and give up when their lease is over.
                tracing::warn!(source = self.desk.spec.source, %error, "leases could not be renewed");
                self.expire();
            }
        } else {
            for partition in self.partitions.clone() {
                if !self.lanes.contains_key(&partition) {
                    self.open(partition, None, stop);
                }
            }
        }
        self.desk.lanes.store(self.lanes.len().max(1), Ordering::Relaxed);
        self.desk.office.captures.holds(&self.desk.spec.source, self.partitions.len(), self.lanes.len());
    }

    /// Asks the broker now and then which partitions there are. A queue is one lane, and its source finds out the rest.
    async fn ask(&mut self) -> Result<(), Trouble> {
        if self.way == Way::Queue {
            self.partitions = vec![queue::LANE];
            return Ok(());
        }
        if self.asked.is_some_and(|asked| asked.elapsed() < ASK) && !self.partitions.is_empty() {
            return Ok(());
        }
        self.asked = Some(Instant::now());
        let spec = &self.desk.spec;
        self.partitions = spec.broker.partitions(&spec.dlq).await?;
        self.desk.works(queue::LANE);
        Ok(())
    }

    fn open(&mut self, partition: i32, lease: Option<Lease>, stop: &CancellationToken) {
        let stop = stop.child_token();
        let task = match self.way {
            Way::Queue => tokio::spawn(queue::lane(Arc::clone(&self.desk), lease.clone(), stop.clone())),
            Way::Log => {
                tokio::spawn(log::lane(Arc::clone(&self.log), partition, lease.clone(), stop.clone()))
            }
        };
        self.lanes.insert(partition, Lane { lease, renewed: Instant::now(), stop, task });
    }

    /// Takes away the lanes that have ended, and gives their leases back.
    async fn collect(&mut self) {
        let ended: Vec<i32> =
            self.lanes.iter().filter(|(_, lane)| lane.task.is_finished()).map(|(at, _)| *at).collect();
        for partition in ended {
            if let Some(lane) = self.lanes.remove(&partition) {
                if let Err(defect) = lane.task.await {
                    let spec = &self.desk.spec;
                    tracing::error!(source = spec.source, queue = spec.dlq, partition, %defect, "capture broke off; it begins again");
                }
                self.release(lane.lease).await;
            }
        }
    }

    async fn release(&self, lease: Option<Lease>) {
        let Some(lease) = lease else { return };
        if let Err(error) = self.desk.office.store.release(&lease.name, &self.holder).await {
            tracing::debug!(%error, lease = lease.name, "a lease was not given back; it runs out by itself");
        }
    }

    /// Renews what is held, gives up what is too much, takes what is free.
    async fn divide(&mut self, stop: &CancellationToken) -> Result<(), StoreError> {
        let now = self.desk.office.now();
        self.renew(now).await?;
        let servers = self.join(now).await?.max(1);
        let share = self.partitions.len().div_ceil(servers);
        let staying = self.lanes.values().filter(|lane| !lane.stop.is_cancelled()).count();
        let excess = staying.saturating_sub(share);
        for lane in self.lanes.values().rev().filter(|lane| !lane.stop.is_cancelled()).take(excess) {
            // It ends at its next safe place; its lease is given back when it has.
            lane.stop.cancel();
        }
        let mut room = share.saturating_sub(staying);
        if room == 0 {
            return Ok(());
        }
        let held = self.desk.office.store.leases(&self.prefix("lane"), now).await?;
        for partition in self.partitions.clone() {
            let name = format!("{}{partition}", self.prefix("lane"));
            if room == 0 || self.lanes.contains_key(&partition) || held.iter().any(|lease| lease.name == name)
            {
                continue;
            }
            if let Some(lease) = self.desk.office.store.lease(&name, &self.holder, TTL, now).await? {
                self.open(partition, Some(lease), stop);
                room -= 1;
            }
        }
        Ok(())
    }

    async fn renew(&mut self, now: Timestamp) -> Result<(), StoreError> {
        for lane in self.lanes.values_mut() {
            let Some(lease) = &lane.lease else { continue };
            if lane.renewed.elapsed() < RENEW {
                continue;
            }
            match self.desk.office.store.lease(&lease.name, &self.holder, TTL, now).await? {
                Some(kept) if kept.fence == lease.fence => lane.renewed = Instant::now(),
                // Somebody had it in between: what this lane knows of its place is old.
                Some(_) | None => lane.stop.cancel(),
            }
        }
        Ok(())
    }

    /// Counts the servers of this source, this one included.
    async fn join(&mut self, now: Timestamp) -> Result<usize, StoreError> {
        let store = &self.desk.office.store;
        if self.member_until.is_none_or(|until| until <= Instant::now()) {
            let name = format!("{}{}", self.prefix("server"), self.holder);
            store.lease(&name, &self.holder, TTL, now).await?;
            self.member_until = Some(Instant::now() + RENEW);
        }
        if self.way == Way::Queue {
            return Ok(1);
        }
        Ok(store.leases(&self.prefix("server"), now).await?.len())
    }

    /// The beginning of the names of this source's leases. Its length keeps `a` and `a/b` apart.
    fn prefix(&self, kind: &str) -> String {
        let source = &self.desk.spec.source;
        format!("capture/{kind}/{}:{source}/", source.len())
    }

    /// Stops the lanes whose lease may be over.
    fn expire(&self) {
        for lane in self.lanes.values().filter(|lane| lane.lease.is_some()) {
            if lane.renewed.elapsed() >= TTL {
                lane.stop.cancel();
            }
        }
    }

    /// Ends every lane and gives everything back, so that others need not wait for it to run out.
    async fn close(&mut self) {
        for lane in self.lanes.values() {
            lane.stop.cancel();
        }
        for (_, lane) in std::mem::take(&mut self.lanes) {
            let _ = lane.task.await;
            self.release(lane.lease).await;
        }
        if self.desk.office.store.is_shared() {
            let name = format!("{}{}", self.prefix("server"), self.holder);
            let _ = self.desk.office.store.release(&name, &self.holder).await;
        }
    }
}
