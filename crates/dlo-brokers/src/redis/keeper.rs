//! What goes on beside a source while it lives, and when it goes.
//!
//! A consumer that works long on what it holds must not lose it to those who look for the dead, so the keeper renews it.
//! When the source is closed or dropped the keeper hands back what it held, with its counts, so that others get it at
//! once. While a stream of dead letters is drained, the keeper also sweeps the groups that are configured for it.

use std::sync::Arc;

use dlo_core::broker::BrokerError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::burial::sweep;
use super::reading::Taken;
use super::reply;
use super::script::{LEAVE, RENEW};
use super::seat::Seat;
use super::{Names, RETURNED};

/// The last word of a source.
#[derive(Debug)]
pub(super) struct Leave {
    /// A read that is under way: what it brings is handed back too.
    pub(super) reading: Option<JoinHandle<Result<Vec<Taken>, BrokerError>>>,
    pub(super) done: Option<oneshot::Sender<Result<(), BrokerError>>>,
}

/// Runs until the source goes.
pub(super) async fn keep(seat: Arc<Seat>, mut told: oneshot::Receiver<Leave>) {
    let mut ticks = tokio::time::interval(seat.shared.config.claim_after.0 / 3);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            leave = &mut told => {
                let Ok(Leave { reading, done }) = leave else { return };
                if let Some(reading) = reading {
                    let _ = reading.await;
                }
                let left = hand_back(&seat).await;
                if let Some(done) = done {
                    let _ = done.send(left);
                }
                return;
            }
            _ = ticks.tick() => {
                if let Err(error) = beside(&seat).await {
                    // The next tick tries again; others may take over what this consumer holds.
                    tracing::debug!(stream = seat.names.stream, %error, "what is held was not renewed");
                }
            }
        }
    }
}

async fn beside(seat: &Seat) -> Result<(), BrokerError> {
    renew(seat).await?;
    if !seat.drain {
        return Ok(());
    }
    let config = &seat.shared.config;
    for one in config.sweep.iter().filter(|one| config.dead_letters_of(&one.stream) == seat.names.stream) {
        sweep(&seat.shared, &Names::new(config, &one.stream, &one.group)).await?;
    }
    Ok(())
}

async fn renew(seat: &Seat) -> Result<(), BrokerError> {
    let idle = (seat.shared.config.claim_after.0 / 4).as_millis() as u64;
    let mut from = "-".to_owned();
    while !from.is_empty() {
        let next = RENEW
            .call(&seat.shared.link, &[&seat.names.stream], |call| {
                call.arg(&seat.names.group).arg(&seat.me).arg(idle).arg(&from);
            })
            .await?;
        from = reply::text(next)?;
    }
    Ok(())
}

async fn hand_back(seat: &Seat) -> Result<(), BrokerError> {
    LEAVE
        .call(&seat.shared.link, &[&seat.names.stream], |call| {
            call.arg(&seat.names.group).arg(&seat.me).arg(RETURNED);
        })
        .await?;
    Ok(())
}
