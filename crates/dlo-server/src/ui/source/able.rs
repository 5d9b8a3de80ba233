//! What a broker can do, in words: each line of [`Capabilities`] as a question, its answer, and what follows for people.

use dlo_core::broker::{Capabilities, DelayLimits, LostConfirm, Order};
use dlo_core::units::HumanDuration;

use crate::ui::show::size;

/// One line of the table.
pub(super) struct Ability {
    pub(super) question: &'static str,
    pub(super) answer: String,
    pub(super) means: &'static str,
}

pub(super) fn all(able: &Capabilities) -> Vec<Ability> {
    let line = |question, answer: String, means| Ability { question, answer, means };
    let either = |holds: bool| if holds { "yes".to_string() } else { "no".to_string() };
    vec![
        line(
            "Can it be looked at without being taken?",
            either(able.looking_is_free),
            if able.looking_is_free {
                "The office can mirror the dead-letter queue and leave it as it is for others."
            } else {
                "Reading takes messages out or counts them: the office drains the dead-letter queue."
            },
        ),
        line(
            "Is what was captured gone from the queue?",
            either(able.drain_removes),
            if able.drain_removes {
                "The dead-letter queue becomes empty; the office has the letters."
            } else {
                "Letters stay in the log until the broker's retention removes them; the office keeps its place."
            },
        ),
        line("In which order do messages come?", order(able.order), order_means(able.order)),
        line(
            "Does each consumer group get every message?",
            either(able.groups),
            if able.groups {
                "A replay reaches every group of the queue; send to the group that failed only, if others must not see it twice."
            } else {
                "Consumers share the queue: a replay reaches one of them."
            },
        ),
        line("What if the confirmation of a send is lost?", lost(able), lost_means(able.lost_confirm)),
        line(
            "Does it count deliveries itself?",
            either(able.delivery_count),
            if able.delivery_count {
                "Attempts are counted even when a consumer dies."
            } else {
                "Attempts are counted in headers or by the runtime."
            },
        ),
        line("Can a redelivery wait?", delay(able.delay), "How delayed retries are made."),
        line(
            "How large may a message be?",
            size(able.max_message as u64),
            "Larger letters are left out of a replay.",
        ),
        line("What becomes of headers?", headers(able), "What a replayed message keeps of them."),
    ]
}

/// What the office can know of a letter after it was sent.
pub(crate) fn afterwards(able: &Capabilities) -> Vec<String> {
    let mut all = vec!["A receipt from the runtime says for sure that it was handled.".to_string()];
    all.push(if able.groups && able.offsets {
        "Without one, the position of the consumer group tells whether it was passed: then it counts as handled unless it comes back."
            .to_string()
    } else {
        "Without one, it was probably handled when the queue was seen empty afterwards and it did not come back; that is presumed and never counted as a success. On a queue that is never empty its outcome stays unknown."
            .to_string()
    });
    all.push(format!("If a send is not confirmed: {}", lost_means(able.lost_confirm)));
    all
}

fn order(order: Order) -> String {
    match order {
        Order::None => "in none",
        Order::PerPartition => "in order inside a partition; equal keys share one",
        Order::WholeQueue => "in one order for the whole queue",
    }
    .to_string()
}

const fn order_means(order: Order) -> &'static str {
    match order {
        Order::None => "A consumer must cope with any order.",
        Order::PerPartition | Order::WholeQueue => {
            "A replay can keep the order of a key, if the plan says so."
        }
    }
}

fn lost(able: &Capabilities) -> String {
    match able.lost_confirm {
        LostConfirm::SendAgain => "it is sent again, and is one message".to_string(),
        LostConfirm::SendAgainInWindow => {
            let window = able.dedupe_window.map(HumanDuration).unwrap_or_default();
            format!("sent again within {window}, it is one message")
        }
        LostConfirm::ReadBack => "the queue is read back".to_string(),
        LostConfirm::Unknown => "nobody can tell".to_string(),
    }
}

const fn lost_means(lost: LostConfirm) -> &'static str {
    match lost {
        LostConfirm::SendAgain => "the broker knows the id of the send, so trying again never makes two.",
        LostConfirm::SendAgainInWindow => {
            "the broker knows the id for a while; after that the letter is in doubt, and a person decides."
        }
        LostConfirm::ReadBack => "the office looks whether it arrived, and never sends it twice.",
        LostConfirm::Unknown => "the letter is in doubt, and a person decides.",
    }
}

fn delay(delay: Option<DelayLimits>) -> String {
    match delay {
        None => "no".to_string(),
        Some(limits) => format!("yes, up to {}", HumanDuration(limits.longest)),
    }
}

fn headers(able: &Capabilities) -> String {
    let rules = able.headers;
    let lost = [
        (rules.binary_values, "values that are no text"),
        (rules.repeated_names, "repeated names"),
        (rules.absent_values, "names without a value"),
        (rules.keeps_order, "their order"),
    ];
    let lost: Vec<&str> = lost.iter().filter(|(kept, _)| !kept).map(|(_, what)| *what).collect();
    if lost.is_empty() {
        "kept as they are".to_string()
    } else {
        format!("not carried as they are: {}", lost.join(", "))
    }
}
