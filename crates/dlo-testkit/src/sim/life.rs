//! The life of one process: it ends at a step that the seed has chosen.
//!
//! Every touch of the outside is a step: a call to the broker before and after its effect, a message in and out of the
//! handler, a poll of the main future. At the last step the call never returns, and from then on no other call of the
//! process does: whatever of it still runs has no effect, as if the machine were off. Whoever watches [`Life::over`]
//! then drops what is left of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

/// One process.
pub struct Life {
    pub id: u32,
    left: AtomicU64,
    dead: AtomicBool,
    over: CancellationToken,
    /// Called once, in the moment of death, before anything else of the process can run.
    last_will: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life").field("id", &self.id).field("dead", &self.dead).finish_non_exhaustive()
    }
}

impl Life {
    /// `steps`: how many it lives through; `None`: as many as there are.
    pub fn new(id: u32, steps: Option<u64>, last_will: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            id,
            left: AtomicU64::new(steps.unwrap_or(u64::MAX)),
            dead: AtomicBool::new(false),
            over: CancellationToken::new(),
            last_will: Box::new(last_will),
        }
    }

    /// One step. Returns at once, or, if it was the last one, never.
    pub async fn step(&self) {
        if !self.live_on() {
            std::future::pending().await
        }
    }

    /// As [`Life::step`], where nothing can be awaited: false when the process is dead.
    pub fn live_on(&self) -> bool {
        if self.is_over() {
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            self.end();
            return false;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        true
    }

    /// Dies now.
    pub fn end(&self) {
        if !self.dead.swap(true, Ordering::SeqCst) {
            (self.last_will)();
            self.over.cancel();
        }
    }

    pub fn is_over(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub async fn over(&self) {
        self.over.cancelled().await;
    }
}
