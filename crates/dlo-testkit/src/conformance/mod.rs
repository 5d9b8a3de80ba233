//! What every broker adapter must do, by declared capability. One file per theme, one function per sentence.
//!
//! A broker's test file makes a [`Lab`] and runs [`broker_conformance!`](crate::broker_conformance), which lists every
//! function, so that none is forgotten. Where a capability is declared the strong behaviour is demanded, where it is
//! not the weaker one is: a declaration that is wrong either way fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, Capabilities, Confirmed, Delivery, Destination, Outgoing, Position, Settlement, Source,
};
use dlo_core::message::{Message, Payload};

pub mod bytes;
pub mod carrying;
pub mod delays;
pub mod doubts;
pub mod groups;
pub mod inspecting;
pub mod order;
pub mod outages;
pub mod publishing;
pub mod reading;
pub mod replaying;
pub mod settling;
pub mod topology;

/// A broker under test.
#[async_trait]
pub trait Lab: Send + Sync {
    fn broker(&self) -> Arc<dyn Broker>;

    /// A handle that shares nothing with the other but the server, as another process would have it. Where the broker
    /// lives in this process there is only one.
    async fn another(&self) -> Arc<dyn Broker> {
        self.broker()
    }

    /// A queue that nobody has used, of several partitions where the broker has them. Nothing limits deliveries.
    async fn fresh_queue(&self) -> String;

    /// A name of which the broker knows nothing.
    fn fresh_name(&self) -> String;

    /// Deletes a queue with everything in it and creates it again, empty, under the same name.
    async fn recreate(&self, queue: &str);

    fn patience(&self) -> Patience;
}

/// A broker whose server the test may stop and whose wire it may cut: a lab of its own, not shared with others.
#[async_trait]
pub trait Outages: Lab {
    /// Ends the server as a crash would, or by its own command, and returns when it is gone.
    async fn stop(&self);

    /// Starts it again on the same port with the same data, and returns when it answers.
    async fn start(&self);

    /// Cuts every connection that is open now; new ones work.
    async fn cut(&self);
}

/// How long things may take here. Under paused time it costs nothing to be generous.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// What should come, comes within.
    pub arrival: Duration,
    /// What has not come for so long, does not come.
    pub silence: Duration,
    /// A delay that is worth waiting for.
    pub delay: Duration,
}

/// One queue of a lab, with what the sentences say over and over.
pub(crate) struct Bench<'a> {
    lab: &'a dyn Lab,
    broker: Arc<dyn Broker>,
    queue: String,
}

impl<'a> Bench<'a> {
    pub(crate) async fn new(lab: &'a dyn Lab) -> Self {
        Self { lab, broker: lab.broker(), queue: lab.fresh_queue().await }
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        self.broker.capabilities()
    }

    pub(crate) fn patience(&self) -> Patience {
        self.lab.patience()
    }

    /// Joins a group that only this sentence has: where groups belong to the server, a group that others share would be
    /// dealt out anew whenever one of them joins or leaves.
    pub(crate) async fn join(&self, group: &str) -> Box<dyn Source> {
        self.broker.source(&self.queue, &self.group(group)).await.expect("the queue is there")
    }

    pub(crate) fn group(&self, name: &str) -> String {
        format!("{name}-{}", self.queue)
    }

    pub(crate) fn outgoing(&self, message: Message) -> Outgoing {
        Outgoing { to: Destination::queue(&self.queue), message, delay: None }
    }

    /// Publishes and demands that everything is confirmed.
    pub(crate) async fn publish(&self, messages: Vec<Message>) -> Vec<Confirmed> {
        let outgoing = messages.into_iter().map(|message| self.outgoing(message)).collect();
        self.publish_as_is(outgoing).await
    }

    pub(crate) async fn publish_as_is(&self, outgoing: Vec<Outgoing>) -> Vec<Confirmed> {
        let results = self.broker.publisher().publish(outgoing).await;
        results.into_iter().map(|result| result.expect("a good message is confirmed")).collect()
    }

    /// Exactly `count` deliveries, or a failure that says how many came.
    pub(crate) async fn receive(&self, source: &mut Box<dyn Source>, count: usize) -> Vec<Delivery> {
        let deadline = tokio::time::Instant::now() + self.patience().arrival;
        let mut all: Vec<Delivery> = Vec::new();
        while all.len() < count {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            assert!(!left.is_zero(), "expected {count} deliveries, {} came: {:?}", all.len(), texts(&all));
            all.extend(source.receive(count - all.len(), left).await.expect("the broker is up"));
        }
        if self.capabilities().cumulative_ack {
            assert!(all.is_sorted_by(|one, next| one.number() < next.number()), "deliveries do not count up");
        }
        all
    }

    /// Exactly these bodies come to stand in the queue since `from`. A transaction that was confirmed may be seen a moment later:
    /// its markers are on their way to the partitions.
    pub(crate) async fn expect_since(&self, from: &[Position], expected: &[&str]) {
        let deadline = tokio::time::Instant::now() + self.patience().arrival;
        loop {
            let bodies = self.read_since(from).await;
            if bodies == expected {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "expected {expected:?}, read {bodies:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The bodies of what stands in the queue between `from` and its end now, sorted.
    pub(crate) async fn read_since(&self, from: &[Position]) -> Vec<String> {
        let ends = self.broker.ends(&self.queue).await.expect("queues have positions");
        let deadline = tokio::time::Instant::now() + self.patience().arrival;
        let mut bodies = Vec::new();
        for end in ends {
            let from = from.iter().find(|from| from.partition == end.partition);
            let reader = self.broker.reader(&self.queue, end.partition, from).await;
            let (mut reader, mut next) = (reader.expect("looking is free"), from.map_or(0, |from| from.next));
            // A position may move without a record, past a marker.
            while next < end.next {
                assert!(tokio::time::Instant::now() < deadline, "read up to {next} of {}", end.next);
                let look = reader.read(7, Duration::from_millis(500)).await.expect("the broker is up");
                next = look.position.next;
                bodies.extend(
                    look.seen.iter().map(|one| String::from_utf8_lossy(&one.message.payload.0).into_owned()),
                );
            }
        }
        sorted(bodies)
    }

    /// Nothing comes for the time of silence.
    pub(crate) async fn expect_silence(&self, source: &mut Box<dyn Source>) {
        let came = source.receive(10, self.patience().silence).await.expect("the broker is up");
        assert!(came.is_empty(), "expected nothing, got {:?}", texts(&came));
    }
}

pub(crate) async fn settle(source: &dyn Source, deliveries: Vec<Delivery>, how: Settlement) {
    let settled = deliveries.into_iter().map(|delivery| delivery.settle(how)).collect();
    source.settler().settle(settled).await.expect("the broker is up");
}

pub(crate) fn text(text: impl Into<String>) -> Message {
    Message { payload: Payload::from(text.into()), ..Message::default() }
}

pub(crate) fn keyed(key: &str, body: impl Into<String>) -> Message {
    Message { key: Some(Payload::from(key.to_owned())), ..text(body) }
}

pub(crate) fn numbered(count: usize) -> Vec<Message> {
    (0..count).map(|n| keyed(&format!("k{}", n % 7), format!("m{n}"))).collect()
}

pub(crate) fn text_of(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.message.payload.0).into_owned()
}

pub(crate) fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(text_of).collect()
}

pub(crate) fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

/// Writes one test per sentence on outages: `broker_outages! { #[tokio::test] lab }`, where `lab` is an
/// `async fn() -> impl Outages`. Each has the server for itself while it runs.
#[macro_export]
macro_rules! broker_outages {
    ($(#[$test:meta])* $lab:path) => {
        $crate::broker_conformance! { @each [$(#[$test])*] $lab,
            outages: nothing_confirmed_is_lost_when_the_server_stops_in_the_middle;
            outages: a_source_goes_on_after_the_server_was_away;
            outages: a_source_goes_on_after_its_connection_was_cut;
            outages: a_publisher_confirms_nothing_while_the_server_is_away_and_goes_on_after;
            outages: a_reader_goes_on_after_the_server_was_away;
            doubts: sends_in_doubt_are_known_after_the_server_was_away;
            doubts: sends_in_doubt_are_known_after_the_wire_was_cut;
        }
    };
}

/// Writes one test per sentence of the suite: `broker_conformance! { #[tokio::test] lab }`, where `lab` is an
/// `async fn() -> impl Lab`.
#[macro_export]
macro_rules! broker_conformance {
    ($(#[$test:meta])* $lab:path) => {
        $crate::broker_conformance! { @each [$(#[$test])*] $lab,
            settling: what_is_done_is_not_delivered_again;
            settling: what_is_dropped_unsettled_comes_again_when_its_source_goes;
            settling: closing_hands_back_what_is_in_flight;
            settling: a_cancelled_receive_loses_nothing;
            settling: a_settlement_after_the_source_is_gone_settles_nothing;
            settling: what_is_refused_is_not_delivered_again;
            settling: a_message_in_flight_is_in_one_hand_only;
            settling: deliveries_are_counted_where_the_broker_counts;
            settling: nothing_confirmed_is_lost_in_a_rough_life;
            order: messages_of_one_key_come_in_their_order;
            order: what_is_handed_back_keeps_its_order;
            order: offsets_are_where_the_confirm_said;
            order: a_partition_that_is_told_is_honoured;
            delays: what_comes_again_later_does_not_come_before_its_time;
            delays: what_waits_does_not_hold_up_what_is_behind;
            delays: a_delayed_publish_is_invisible_until_its_time;
            delays: a_receive_waits_no_longer_than_told;
            delays: a_receive_wakes_when_something_comes;
            carrying: what_is_carried_stands_on_the_next_delivery_in_place_of_what_stood_there;
            carrying: what_is_carried_reaches_the_next_consumer_as_well;
            carrying: what_is_carried_is_for_its_own_group_only;
            bytes: payload_and_key_arrive_byte_for_byte;
            bytes: an_empty_payload_and_one_of_a_megabyte_arrive;
            bytes: text_headers_arrive;
            bytes: headers_survive_as_declared;
            bytes: what_is_too_large_is_refused_with_its_size;
            publishing: each_message_has_its_own_result;
            publishing: what_is_confirmed_is_there;
            publishing: a_queue_that_does_not_exist_confirms_nothing;
            reading: a_reader_sees_everything_in_order_and_takes_nothing;
            reading: a_reader_goes_on_where_its_position_says;
            reading: a_reader_wakes_when_something_comes;
            reading: a_record_is_fetched_by_its_coordinates;
            reading: a_queue_created_anew_is_another_incarnation;
            reading: what_is_drained_is_gone_as_declared;
            replaying: a_send_that_is_repeated_is_one_message_as_declared;
            replaying: a_fenced_publisher_adds_nothing_after_its_successor_was_made;
            replaying: what_is_published_since_the_ends_is_read_from_there;
            replaying: a_group_has_passed_what_it_settled_and_not_what_it_holds;
            replaying: a_fenced_publisher_carries_byte_for_byte_what_a_publisher_does;
            replaying: what_a_fenced_publisher_refuses_does_no_harm_to_its_neighbours;
            groups: groups_are_independent_as_declared;
            groups: consumers_of_one_group_divide_the_messages;
            groups: a_consumer_that_leaves_hands_its_share_to_the_others;
            inspecting: depth_counts_what_waits_and_what_is_in_flight;
            inspecting: looking_takes_nothing;
            inspecting: a_missing_queue_is_said_to_be_missing;
            topology: a_plan_changes_nothing;
            topology: what_is_applied_is_there_and_applying_twice_finds_nothing;
            topology: applying_to_what_is_there_deletes_nothing;
        }
    };
    (@each $attributes:tt $lab:path, $($theme:ident : $sentence:ident;)+) => {
        $( $crate::broker_conformance! { @one $attributes $lab, $theme, $sentence } )+
    };
    (@one [$(#[$test:meta])*] $lab:path, $theme:ident, $sentence:ident) => {
        $(#[$test])*
        async fn $sentence() {
            $crate::conformance::$theme::$sentence(&$lab().await).await;
        }
    };
}
