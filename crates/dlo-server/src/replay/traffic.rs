//! What the consumer of a queue gets without a replay: from how much the queue ever had, and how much of that was ours.

use tokio::time::Instant;

/// What the consumer gets without us.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    last: Option<(i64, u64, Instant)>,
    pub(super) rate: Option<f64>,
    /// Records beside the messages that we wrote: a transaction leaves one in every partition it touched.
    pub(super) markers: u64,
}

impl Traffic {
    /// Smooths what the queue gets beside us.
    pub(super) fn seen(&mut self, published: i64, sent: u64) {
        let now = Instant::now();
        if let Some((before, ours, at)) = self.last {
            let seconds = now.duration_since(at).as_secs_f64();
            if seconds < 0.5 {
                return;
            }
            let all = published.saturating_sub(before) as f64;
            let rate = ((all - sent.saturating_sub(ours) as f64) / seconds).max(0.0);
            self.rate = Some(self.rate.map_or(rate, |old| old * 0.8 + rate * 0.2));
        }
        self.last = Some((published, sent, now));
    }
}
