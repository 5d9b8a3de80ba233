//! What is known around letters in doubt, in sentences: a person reads it before they settle them.

use dlo_core::replay::{ItemState, Replay};
use dlo_core::time::Timestamp;
use dlo_store::StoreError;

use crate::office::Office;
use crate::replay::{Evidence, QueueEvidence, evidence};
use crate::ui::show::ago;
use crate::ui::words;

/// The sentences for a replay and its parts; none where nothing is in doubt.
pub(super) async fn read(
    office: &Office,
    replay: &Replay,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    if replay.counts.get(ItemState::InDoubt) == 0 {
        return Ok(Vec::new());
    }
    let parts = evidence(office, replay.id).await?;
    Ok(parts.iter().flat_map(|part| sentences(part, now)).collect())
}

fn sentences(part: &Evidence, now: Timestamp) -> Vec<String> {
    let mut all = Vec::new();
    if let (Some(first), Some(last)) = (part.first_at, part.last_at) {
        all.push(format!(
            "{} in doubt: the first send began {} ({first}), the last {} ({last})",
            words::letters(part.in_doubt),
            ago(first, now),
            ago(last, now),
        ));
    }
    all.extend(part.queues.iter().map(|queue| of_queue(queue, now)));
    all.push(format!(
        "Of this replay {} confirmed by a consumer, {} came back, {} of these since the first doubt",
        words::number(part.confirmed),
        words::number(part.came_back),
        words::number(part.came_back_since),
    ));
    all
}

fn of_queue(queue: &QueueEvidence, now: Timestamp) -> String {
    let name = match &queue.group {
        Some(group) => format!("Queue {}, group {group}", queue.queue),
        None => format!("Queue {}", queue.queue),
    };
    if let Some(problem) = &queue.problem {
        return format!("{name}: the broker did not say ({problem})");
    }
    let mut facts = Vec::new();
    facts.extend(queue.depth.map(|depth| format!("{} wait", words::number(depth))));
    facts.extend(queue.in_flight.map(|count| format!("{} are with consumers", words::number(count))));
    facts.extend(queue.consumers.map(|count| format!("{} consumers", words::number(u64::from(count)))));
    facts.extend(queue.oldest.map(|oldest| format!("the oldest was published {}", ago(oldest, now))));
    let positions = queue.positions.iter();
    facts.extend(positions.map(|(partition, next)| format!("position of partition {partition}: {next}")));
    if facts.is_empty() {
        facts.push("the broker tells nothing of it".to_owned());
    }
    format!("{name}: {}", facts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_described_by_what_its_broker_tells() {
        let now = Timestamp::from_millis(1_793_534_400_000);
        let silent = QueueEvidence { queue: "orders".to_owned(), ..QueueEvidence::default() };
        assert_eq!(of_queue(&silent, now), "Queue orders: the broker tells nothing of it");
        let known = QueueEvidence {
            queue: "orders".to_owned(),
            group: Some("pricing".to_owned()),
            depth: Some(1_200),
            in_flight: Some(3),
            positions: [(0, 4_711)].into(),
            ..QueueEvidence::default()
        };
        let told =
            "Queue orders, group pricing: 1,200 wait, 3 are with consumers, position of partition 0: 4711";
        assert_eq!(of_queue(&known, now), told);
        let away = QueueEvidence { problem: Some("no answer within 2s".to_owned()), ..silent };
        assert_eq!(of_queue(&away, now), "Queue orders: the broker did not say (no answer within 2s)");
    }
}
