//! Batch calls: full ones, several in flight, and every entry's own result.
//!
//! A call that failed, and entries that failed by the service's own fault, are tried again a few times with growing
//! pauses. An entry whose receipt is no longer good is no error: the broker has taken that message back.

use std::collections::BTreeSet;

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use dlo_core::broker::BrokerError;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::config::BATCH;
use super::connection::{Connection, Queue};
use super::errors::Fault;
use crate::backoff::Backoff;

/// Tries of one batch before its failure is told.
const TRIES: u32 = 4;

/// What the service is to be told of one receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) receipt: String,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Delete the message.
    Forget,
    /// Show it again after so many seconds.
    ShowAfter(i32),
}

/// Tells all, in batches of one kind; in the order given where `in_order`, else several at once.
pub(super) async fn tell(
    connection: &Connection,
    queue: &Queue,
    words: Vec<Word>,
    in_order: bool,
) -> Result<(), BrokerError> {
    let (forget, show): (Vec<Word>, Vec<Word>) =
        words.into_iter().partition(|word| matches!(word.what, What::Forget));
    let batches = forget.chunks(BATCH).chain(show.chunks(BATCH)).map(<[Word]>::to_vec);
    let most = if in_order { 1 } else { connection.config.parallel };
    let batches: Vec<Vec<Word>> = batches.collect();
    stream::iter(batches)
        .map(|batch| tell_batch(connection, queue, batch))
        .buffer_unordered(most)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

async fn tell_batch(connection: &Connection, queue: &Queue, mut words: Vec<Word>) -> Result<(), BrokerError> {
    let mut backoff = Backoff::default();
    for attempt in 1.. {
        let failed = match call(connection, queue, &words).await {
            Ok(failed) => failed,
            Err(error) if error.is_transient() && attempt < TRIES => {
                tokio::time::sleep(backoff.next()).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut again = BTreeSet::new();
        let mut why = String::new();
        for entry in failed {
            let said = format!("{}: {}", entry.code(), entry.message().unwrap_or_default());
            match Fault::of(entry.code(), entry.sender_fault()) {
                Fault::TakenBack => {}
                Fault::Ours => return Err(BrokerError::Refused(said)),
                Fault::Theirs => {
                    again.extend(entry.id().parse::<usize>());
                    why = said;
                }
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        if attempt >= TRIES {
            return Err(BrokerError::Unavailable(why));
        }
        let mut at = 0..;
        words.retain(|_| at.next().is_some_and(|at: usize| again.contains(&at)));
        tokio::time::sleep(backoff.next()).await;
    }
    Ok(())
}

/// One request; the entries that failed come back.
async fn call(
    connection: &Connection,
    queue: &Queue,
    words: &[Word],
) -> Result<Vec<BatchResultErrorEntry>, BrokerError> {
    let client = connection.client().await?;
    let built = |error: aws_sdk_sqs::error::BuildError| BrokerError::Refused(error.to_string());
    if words.iter().any(|word| matches!(word.what, What::Forget)) {
        let entries: Vec<_> = words
            .iter()
            .enumerate()
            .map(|(at, word)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(at.to_string())
                    .receipt_handle(&word.receipt)
                    .build()
            })
            .collect::<Result<_, _>>()
            .map_err(built)?;
        let call = client.delete_message_batch().queue_url(&queue.url).set_entries(Some(entries));
        let answer = call.send().await.map_err(|error| connection.failed(&error, queue))?;
        return Ok(answer.failed);
    }
    let entries: Vec<_> = words
        .iter()
        .enumerate()
        .map(|(at, word)| {
            let after = match word.what {
                What::Forget => 0,
                What::ShowAfter(seconds) => seconds,
            };
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(at.to_string())
                .receipt_handle(&word.receipt)
                .visibility_timeout(after)
                .build()
        })
        .collect::<Result<_, _>>()
        .map_err(built)?;
    let call = client.change_message_visibility_batch().queue_url(&queue.url).set_entries(Some(entries));
    let answer = call.send().await.map_err(|error| connection.failed(&error, queue))?;
    Ok(answer.failed)
}
