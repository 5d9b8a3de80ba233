//! A message as a broker's adapter hands it over, through every convention and admission, to a letter for the store.

use dlo_core::message::{Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::owners::{OwnerRule, OwnerWhen, Owners};
use dlo_core::pattern::OneOrMany;
use dlo_server::Intake;

use super::turn;
use crate::{golden, letters};

/// The rule that speaks is the last of three.
fn owners() -> Owners {
    let rule = |queue: &str, owner: &str| OwnerRule {
        when: OwnerWhen { queue: Some(OneOrMany::One(queue.into())), ..OwnerWhen::default() },
        owner: owner.into(),
    };
    Owners::compile(vec![rule("mail.*", "growth"), rule("stock", "core"), rule("*", "payments")])
        .expect("rules")
}

/// Our own letter and those of others in turn, with the payload of the other benchmarks.
fn frame(n: u64, kinds: &[(BrokerKind, Message)]) -> (Message, Origin) {
    let (broker, kind) = &kinds[n as usize % kinds.len()];
    let payload = Payload::from(letters::payload(n));
    let message = Message { payload, key: Some(Payload::from(letters::key(n))), ..kind.clone() };
    let place = match broker {
        BrokerKind::Sqs => Origin::message(*broker, "orders.dlq", format!("{:032x}", letters::mix(n))),
        BrokerKind::Rabbitmq => Origin::queue(*broker, "orders.dlq"),
        _ => Origin::log(*broker, "orders.dlq", (n % 12) as i32, (n / 12) as i64),
    };
    (message, place)
}

pub(super) fn to_letter(turns: u64, most: u64) {
    let intake = Intake::new("orders", "orders.dlq", owners());
    let own = Message { headers: golden::own(), ..Message::default() };
    let mut kinds = vec![(BrokerKind::Kafka, own)];
    kinds.extend(golden::foreign_headers().into_iter().map(|golden| (golden.broker, golden.message)));
    let now = letters::failed_at(1_000_000);
    turn(turns, most, |n| frame(n, &kinds), |(message, place)| intake.letter(message, place, now));
}
