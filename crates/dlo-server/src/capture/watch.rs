//! Looking at the dead-letter queue from outside every few seconds: how deep, how far behind, how old.
//!
//! One question at a time per source, given up after one round: a broker that does not answer costs nothing else.

use std::sync::Arc;

use dlo_core::broker::{BrokerError, OFFICE, QueueState};
use tokio_util::sync::CancellationToken;

use super::board::LOOK;
use super::spec::{CaptureSpec, Mode, Way};
use crate::office::Office;

pub(super) async fn watch(office: Arc<Office>, spec: Arc<CaptureSpec>, way: Way, stop: CancellationToken) {
    loop {
        let looked = tokio::time::timeout(LOOK, look(&spec, way));
        match stop.run_until_cancelled(looked).await {
            None => return,
            Some(Ok(Ok((whole, ours)))) => {
                let lag = ours.as_ref().and_then(|state| state.depth);
                let oldest = ours.as_ref().and_then(|state| state.oldest).or(whole.oldest);
                office.captures.inspected(&spec.source, whole.depth, lag, oldest);
            }
            // The lanes say what is wrong; here it only means that nothing is known.
            Some(Ok(Err(_)) | Err(_)) => office.captures.inspected(&spec.source, None, None, None),
        }
        if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
            return;
        }
    }
}

/// The queue, and what of it our position is still behind, where the broker is told of it.
async fn look(spec: &CaptureSpec, way: Way) -> Result<(QueueState, Option<QueueState>), BrokerError> {
    let inspector = spec.broker.inspector();
    match (way, spec.mode) {
        (Way::Queue, _) => Ok((inspector.inspect(&spec.dlq, Some(OFFICE)).await?, None)),
        (Way::Log, Mode::Mirror) => Ok((inspector.inspect(&spec.dlq, None).await?, None)),
        (Way::Log, Mode::Drain) => {
            let whole = inspector.inspect(&spec.dlq, None).await?;
            Ok((whole, Some(inspector.inspect(&spec.dlq, Some(OFFICE)).await?)))
        }
    }
}
