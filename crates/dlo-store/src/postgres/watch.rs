//! The deadline of a call, kept by the task of its connection.
//!
//! A connection can be dead without being closed: bytes go out and nothing comes back. When a call is overdue, the task
//! drops the connection; every statement that waits on it fails then. A long call (a verification, a plan) is overdue only if
//! the server, asked over another connection, no longer works on it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::dial::{Dial, Running};

/// What the task of a connection and the call that uses it share.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    /// When the call is overdue, in microseconds since `begun`; zero between calls.
    due: AtomicU64,
    is_long: AtomicBool,
    /// When the connection last answered a check, in microseconds since `begun`.
    checked: AtomicU64,
    /// The process of the server that serves this connection.
    backend: AtomicI32,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            due: AtomicU64::new(0),
            is_long: AtomicBool::new(false),
            checked: AtomicU64::new(0),
            backend: AtomicI32::new(0),
        }
    }
}

impl Watch {
    pub(super) fn begin_call(&self, due: Instant, is_long: bool) {
        self.is_long.store(is_long, Ordering::Relaxed);
        self.due.store(self.micros(due), Ordering::Release);
    }

    pub(super) fn end_call(&self) {
        self.due.store(0, Ordering::Release);
    }

    pub(super) fn set_backend(&self, backend: i32) {
        self.backend.store(backend, Ordering::Relaxed);
    }

    pub(super) fn set_checked(&self) {
        self.checked.store(self.micros(Instant::now()), Ordering::Relaxed);
    }

    pub(super) fn checked(&self) -> Instant {
        self.begun + Duration::from_micros(self.checked.load(Ordering::Relaxed))
    }

    fn micros(&self, at: Instant) -> u64 {
        let micros = at.saturating_duration_since(self.begun).as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX).max(1)
    }

    fn due(&self) -> Option<Instant> {
        match self.due.load(Ordering::Acquire) {
            0 => None,
            micros => Some(self.begun + Duration::from_micros(micros)),
        }
    }

    /// Ready once a call is overdue. A statement wakes the task of its connection, so a call that begins is seen here.
    fn poll_overdue(&self, alarm: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(due) = self.due() else { return Poll::Pending };
            let sleep = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            // The alarm is set once for many calls: it may be that of an earlier one.
            if due < sleep.deadline() {
                sleep.as_mut().reset(due);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            *alarm = None;
            if due <= Instant::now() {
                return Poll::Ready(());
            }
        }
    }
}

/// Runs a connection until it ends, or until a call on it is overdue.
pub(super) async fn run(mut connection: Running, watch: Arc<Watch>, dial: Arc<Dial>) {
    loop {
        let mut alarm = None;
        let overdue = poll_fn(|cx| watch.poll_overdue(&mut alarm, cx));
        tokio::select! {
            biased;
            _ = &mut connection => return,
            () = overdue => {}
        }
        if !watch.is_long.load(Ordering::Relaxed) {
            return;
        }
        let backend = watch.backend.load(Ordering::Relaxed);
        let works = tokio::select! {
            biased;
            _ = &mut connection => return,
            works = dial.works(backend) => works,
        };
        if !works {
            return;
        }
        // If the call ended meanwhile, this changes nothing: the next one sets its own.
        let due = watch.micros(Instant::now() + dial.deadline / 2);
        let _ = watch.due.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now != 0).then_some(due));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn dial(deadline: Duration) -> Arc<Dial> {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(1);
        Arc::new(Dial { config, tls: None, deadline })
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_given_up_when_its_call_is_overdue_and_not_between_calls() {
        let (watch, deadline) = (Arc::new(Watch::default()), Duration::from_secs(10));
        let begun = Instant::now();
        let mut task = tokio::spawn(run(Box::pin(pending()), Arc::clone(&watch), dial(deadline)));
        let left = tokio::time::timeout(deadline * 10, &mut task).await;
        assert!(left.is_err(), "no call, no deadline");
        drop(task);
        watch.begin_call(begun + deadline * 11, false);
        tokio::time::timeout(deadline * 2, run(Box::pin(pending()), watch, dial(deadline))).await.unwrap();
        assert!(begun.elapsed() >= deadline * 11 && begun.elapsed() < deadline * 12);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_call_has_a_deadline_of_its_own() {
        let (watch, deadline) = (Arc::new(Watch::default()), Duration::from_secs(10));
        let begun = Instant::now();
        watch.begin_call(begun + deadline, false);
        let next = async {
            tokio::time::sleep(deadline / 2).await;
            watch.end_call();
            watch.begin_call(begun + deadline * 3, false);
            pending::<()>().await;
        };
        tokio::select! {
            () = next => {}
            () = run(Box::pin(pending()), Arc::clone(&watch), dial(deadline)) => {}
        }
        assert!(begun.elapsed() >= deadline * 3, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_call_may_be_overdue_sooner() {
        let (watch, deadline) = (Arc::new(Watch::default()), Duration::from_secs(10));
        let begun = Instant::now();
        watch.begin_call(begun + deadline, false);
        let mut alarm = None;
        let overdue = poll_fn(|cx| watch.poll_overdue(&mut alarm, cx));
        assert!(tokio::time::timeout(deadline / 4, overdue).await.is_err());
        watch.begin_call(begun + deadline / 2, false);
        poll_fn(|cx| watch.poll_overdue(&mut alarm, cx)).await;
        assert!(begun.elapsed() < deadline, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_long_call_is_given_up_if_the_server_does_not_say_that_it_works() {
        let (watch, deadline) = (Arc::new(Watch::default()), Duration::from_millis(20));
        watch.begin_call(Instant::now() + deadline, true);
        let run = run(Box::pin(pending()), watch, dial(deadline));
        tokio::time::timeout(Duration::from_secs(20), run).await.unwrap();
    }
}
