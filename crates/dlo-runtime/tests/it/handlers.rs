//! Handlers that are not there, and handlers that do not survive a message.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_runtime::{Context, Handler, Unhandled};
use tokio::time::Instant;

use crate::shop::{Shop, body, story};

/// A handler in another process: away for a while, and killed by some messages.
struct Remote {
    away_until: Instant,
    deadly: &'static str,
    /// Dies with everybody who is there: those who are in it see it go.
    alive: tokio::sync::watch::Sender<u64>,
    inside: AtomicUsize,
    together: Arc<Mutex<HashMap<String, Vec<usize>>>>,
}

impl Remote {
    fn new(away: Duration, deadly: &'static str) -> Self {
        Self {
            away_until: Instant::now() + away,
            deadly,
            alive: tokio::sync::watch::Sender::new(0),
            inside: AtomicUsize::new(0),
            together: Arc::default(),
        }
    }
}

#[async_trait::async_trait]
impl Handler for Remote {
    async fn handle(&self, message: Message, _: &Context) -> Result<(), Unhandled> {
        if Instant::now() < self.away_until {
            return Err(Unhandled::Absent("connection refused".to_owned()));
        }
        let mut life = self.alive.subscribe();
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.together.lock().unwrap().entry(body(&message)).or_default().push(inside);
        let lost = Unhandled::Lost("connection reset".to_owned());
        let deadly = body(&message) == self.deadly;
        // Before any neighbour is done.
        let takes = Duration::from_millis(if deadly { 5 } else { 10 });
        let ended = tokio::select! {
            _ = life.changed() => Err(lost),
            () = tokio::time::sleep(takes) => {
                if deadly {
                    self.alive.send_modify(|life| *life += 1);
                    Err(lost)
                } else {
                    Ok(())
                }
            }
        };
        self.inside.fetch_sub(1, Ordering::SeqCst);
        ended
    }
}

#[tokio::test(start_paused = true)]
async fn while_nobody_is_there_messages_wait_and_are_not_charged() {
    let shop = Shop::open();
    shop.orders(["a", "b", "c"]).await;
    let consumer = shop.consumer().handler(Remote::new(Duration::from_secs(300), ""));
    shop.run_until(consumer, |seen| seen.handled() == 3).await;
    assert_eq!(shop.seen.story(), ["handler away", "handler back"]);
    assert_eq!((shop.seen.retried.load(Ordering::SeqCst), shop.letters().await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_handler_is_parked_as_poison_and_its_neighbours_are_not_charged() {
    let shop = Shop::open();
    let orders: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    shop.orders(orders.iter().map(String::as_str)).await;
    let remote = Remote::new(Duration::ZERO, "17");
    let together = remote.together.clone();
    shop.run_until(shop.consumer().handler(remote), |seen| seen.handled() == 29 && seen.parked() == 1).await;
    let letter = shop.letters().await.remove(0);
    assert_eq!((body(&letter), story(&letter).reason), ("17".to_owned(), Some(Reason::Poison)));
    assert!(story(&letter).error_message.is_some_and(|text| text.contains("3 crashes")));
    assert_eq!(shop.seen.retried.load(Ordering::SeqCst), 0, "nobody was charged");
    let together = together.lock().unwrap();
    let again: Vec<usize> = together.values().flat_map(|tries| &tries[1..]).copied().collect();
    assert_eq!(again, [1; 31], "29 suspects ran alone, and the deadly one twice more: {together:?}");
}
