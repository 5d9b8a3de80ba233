//! A broker of each kind of knowledge about lost confirmations, as one server sees it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Calls, Capabilities, Confirmed, HeaderRules, Inspect, Look, LostConfirm, Order,
    Outgoing, Passed, Position, PublishError, Publisher, QueueState, Reader, Seen, Source, Topology,
};
use dlo_core::envelope::replay_mark;
use dlo_core::message::Message;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::replay::parse_send_id;
use tokio::time::sleep;

use super::life::Life;
use super::world::Shared;

#[derive(Debug, Clone)]
pub(super) struct Ends {
    shared: Shared,
    life: Arc<Life>,
    able: Arc<Capabilities>,
    /// Which holder of a name it publishes as; `None`: nobody in particular.
    epoch: Option<(String, u64)>,
    /// Where a reader of it stands.
    at: (i32, i64),
}

impl Ends {
    pub(super) fn new(shared: Shared, life: Arc<Life>) -> Self {
        let (lost_confirm, window) = {
            let world = shared.world();
            (world.scenario.lost_confirm, world.scenario.window)
        };
        let able = Capabilities {
            kind: BrokerKind::Memory,
            order: Order::PerPartition,
            groups: true,
            delivery_count: false,
            delay: None,
            delayed_publish: None,
            again_carries: false,
            waiting_keeps_order: false,
            looking_is_free: true,
            drain_removes: false,
            offsets: true,
            cumulative_ack: true,
            dedupe_window: (lost_confirm == LostConfirm::SendAgainInWindow).then_some(window),
            lost_confirm,
            headers: HeaderRules {
                binary_values: true,
                repeated_names: true,
                absent_values: true,
                keeps_order: true,
            },
            max_message: 1_000_000,
        };
        Self { shared, life, able: Arc::new(able), epoch: None, at: (0, 0) }
    }

    async fn leg(&self) {
        self.life.step().await;
        let latency = self.shared.world().latency();
        if !latency.is_zero() {
            sleep(latency).await;
            self.life.step().await;
        }
    }

    async fn reach(&self) -> Result<(), BrokerError> {
        self.leg().await;
        if self.shared.world().is_out() {
            return Err(BrokerError::Unavailable("scripted".to_owned()));
        }
        Ok(())
    }

    /// Whether queues of this kind have positions.
    fn has_positions(&self) -> bool {
        matches!(self.able.lost_confirm, LostConfirm::ReadBack | LostConfirm::SendAgain)
    }

    fn publish_one(&self, outgoing: &Outgoing) -> Result<Confirmed, PublishError> {
        let mut world = self.shared.world();
        let unconfirmed = || Err(PublishError::Unconfirmed("scripted".to_owned()));
        if let Some((name, epoch)) =
            self.epoch.as_ref().filter(|_| self.able.lost_confirm == LostConfirm::ReadBack)
            && world.epochs.get(name) != Some(epoch)
        {
            return Err(PublishError::Fenced("another took over".to_owned()));
        }
        if world.is_out() {
            return unconfirmed();
        }
        let share = world.scenario.confirm_lost;
        if world.chance(share / 2.0) {
            return unconfirmed();
        }
        let (partition, offset) =
            world.accept(&outgoing.message, outgoing.to.partition).map_err(PublishError::Refused)?;
        if world.chance(share) {
            return unconfirmed();
        }
        let confirmed = Confirmed { partition: Some(partition), offset: Some(offset) };
        Ok(if self.has_positions() { confirmed } else { Confirmed::default() })
    }
}

#[async_trait]
impl Publisher for Ends {
    fn capabilities(&self) -> &Capabilities {
        &self.able
    }

    /// As transactions are: one at a time.
    fn calls(&self) -> Calls {
        match self.able.lost_confirm {
            LostConfirm::ReadBack => Calls::OneByOne,
            LostConfirm::SendAgain | LostConfirm::SendAgainInWindow | LostConfirm::Unknown => {
                Calls::SideBySide
            }
        }
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        {
            let mut world = self.shared.world();
            world.publishing(messages.len() as u64, self.life.is_frozen());
            world.handed.extend(messages.iter().filter_map(|outgoing| number(&outgoing.message)));
        }
        if let Some(late) = self.life.springs() {
            let ends = self.clone();
            tokio::spawn(async move {
                sleep(late).await;
                messages.iter().for_each(|outgoing| drop(ends.publish_one(outgoing)));
            });
            self.life.step().await;
            return Vec::new();
        }
        self.leg().await;
        let results = messages.iter().map(|outgoing| self.publish_one(outgoing)).collect();
        self.leg().await;
        results
    }
}

#[async_trait]
impl Inspect for Ends {
    async fn inspect(&self, _: &str, _: Option<&str>) -> Result<QueueState, BrokerError> {
        self.reach().await?;
        let depth = self.shared.world().queue.iter().filter(|record| !record.passed).count() as u64;
        Ok(QueueState { depth: Some(depth), in_flight: Some(0), ..QueueState::default() })
    }
}

#[async_trait]
impl Reader for Ends {
    async fn read(&mut self, max: usize, _: Duration) -> Result<Look, BrokerError> {
        self.reach().await?;
        let (partition, from) = self.at;
        let world = self.shared.world();
        let records =
            world.queue.iter().filter(|record| record.partition == partition && record.offset >= from);
        let seen: Vec<Seen> = records
            .take(max.min(7))
            .map(|record| Seen {
                message: record.message.clone(),
                origin: Origin::log(BrokerKind::Memory, "orders", partition, record.offset),
                published_at: None,
            })
            .collect();
        self.at.1 += seen.len() as i64;
        Ok(Look { seen, position: position(partition, self.at.1), skipped: 0 })
    }

    async fn tell(&mut self, _: &Position) -> Result<(), BrokerError> {
        Ok(())
    }
}

/// Which item a message was made of.
fn number(message: &Message) -> Option<u64> {
    let mark = replay_mark(&message.headers)?;
    parse_send_id(&mark.replay_id).map(|(_, number)| number)
}

fn position(partition: i32, next: i64) -> Position {
    Position { incarnation: "one".to_owned(), partition, next, mark: None }
}

fn refused<T>() -> Result<T, BrokerError> {
    Err(BrokerError::Refused("not part of the simulation".to_owned()))
}

#[async_trait]
impl Broker for Ends {
    fn capabilities(&self) -> &Capabilities {
        &self.able
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        self.reach().await.map(|()| None)
    }

    async fn source(&self, _: &str, _: &str) -> Result<Box<dyn Source>, BrokerError> {
        refused()
    }

    async fn partitions(&self, _: &str) -> Result<Vec<i32>, BrokerError> {
        Ok((0..self.shared.world().scenario.partitions).collect())
    }

    async fn reader(
        &self,
        _: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        self.reach().await?;
        let at = (partition, from.map_or(0, |from| from.next));
        Ok(Box::new(Self { at, ..self.clone() }))
    }

    async fn fetch(&self, _: &Origin) -> Result<Option<Seen>, BrokerError> {
        refused()
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.clone())
    }

    async fn fenced_publisher(&self, name: &str) -> Result<Arc<dyn Publisher>, BrokerError> {
        self.reach().await?;
        let epoch = {
            let mut world = self.shared.world();
            let epoch = world.epochs.entry(name.to_owned()).or_default();
            *epoch += 1;
            *epoch
        };
        self.leg().await;
        Ok(Arc::new(Self { epoch: Some((name.to_owned(), epoch)), ..self.clone() }))
    }

    async fn ends(&self, queue: &str) -> Result<Vec<Position>, BrokerError> {
        if !self.has_positions() {
            return Err(BrokerError::Refused(format!("`{queue}` has no positions")));
        }
        self.reach().await?;
        let ends = {
            let world = self.shared.world();
            let next =
                |partition| world.queue.iter().filter(|record| record.partition == partition).count() as i64;
            (0..world.scenario.partitions).map(|partition| position(partition, next(partition))).collect()
        };
        self.leg().await;
        Ok(ends)
    }

    fn ends_count(&self) -> bool {
        self.has_positions()
    }

    async fn passed(&self, queue: &str, _: &str) -> Result<Vec<Passed>, BrokerError> {
        if !self.has_positions() {
            return Err(BrokerError::Refused(format!("`{queue}` keeps no positions of groups")));
        }
        self.reach().await?;
        let world = self.shared.world();
        let next = |partition| {
            let mut of = world.queue.iter().filter(|record| record.partition == partition);
            of.position(|record| !record.passed)
                .unwrap_or_else(|| world.queue.iter().filter(|record| record.partition == partition).count())
        };
        let partitions = 0..world.scenario.partitions;
        Ok(partitions.map(|partition| Passed { partition, next: next(partition) as i64 }).collect())
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(self.clone())
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(NoTopology)
    }
}

#[derive(Debug)]
struct NoTopology;

#[async_trait]
impl Topology for NoTopology {
    async fn plan(
        &self,
        _: &dlo_core::broker::TopologySpec,
    ) -> Result<Vec<dlo_core::broker::TopologyChange>, BrokerError> {
        refused()
    }

    async fn apply(
        &self,
        _: &dlo_core::broker::TopologySpec,
    ) -> Result<Vec<dlo_core::broker::TopologyChange>, BrokerError> {
        refused()
    }
}
