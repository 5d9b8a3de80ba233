//! Receipts: which messages make one, and how they get to the office.

use std::sync::{Arc, Mutex};

use dlo_core::broker::Publisher;
use dlo_core::envelope::{ReplayMark, mark_replayed};
use dlo_core::id::LetterId;
use dlo_core::message::Message;
use dlo_runtime::{Receipt, Receipts};

use crate::shop::{Shop, order, out};

#[derive(Default)]
struct Kept(Mutex<Vec<Receipt>>);

impl Receipts for Kept {
    fn take(&self, receipt: Receipt) {
        self.0.lock().unwrap().push(receipt);
    }
}

fn replayed(id: &str, letter: Option<LetterId>, group: Option<&str>) -> Message {
    let mut message = order(id);
    let target_group = group.map(ToOwned::to_owned);
    mark_replayed(
        &mut message.headers,
        &ReplayMark { letter, replay_id: id.to_owned(), count: 1, target_group },
    );
    message
}

#[tokio::test(start_paused = true)]
async fn a_replayed_message_that_was_handled_makes_a_receipt_and_no_other_does() {
    let shop = Shop::open();
    let kept = Arc::new(Kept::default());
    let letter = "01939c1e-7c00-7000-8000-000000000001".parse::<LetterId>().unwrap();
    let all = [
        order("plain"),
        replayed("r/1", Some(letter), Some("pricing")),
        replayed("r/2", None, Some("mail")),
        replayed("r/3", Some(letter), None),
    ];
    shop.broker.publish(all.into_iter().map(out).collect()).await;
    let handler = |message: Message| async move {
        match &*message.payload.0 {
            b"r/2" => panic!("it is meant for another group"),
            b"r/3" => Err("no tax for it".to_owned()),
            _ => Ok(()),
        }
    };
    let consumer = shop.consumer().handler(handler).receipts(kept.clone());
    shop.run_until(consumer, |seen| seen.handled() == 2 && seen.parked() == 1 && seen.story() == ["skipped"])
        .await;
    let receipts = kept.0.lock().unwrap().clone();
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    let told = (receipts[0].replay_id.as_str(), receipts[0].letter, receipts[0].consumer.as_str());
    assert_eq!(told, ("r/1", Some(letter), "pricing"));
}

#[cfg(feature = "push")]
mod over_http {
    use std::time::{Duration, Instant};

    use dlo_core::time::Timestamp;
    use dlo_runtime::push::{BadOffice, OfficeReceipts, ReceiptCounts};
    use dlo_runtime::{Receipt, Receipts, Standing};
    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    const TAKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    const NEVER: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";

    /// An office that answers by script, the last answer for ever, and passes on what it was sent: head and body.
    async fn office(answers: &'static [&'static str]) -> (String, mpsc::UnboundedReceiver<(String, Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut answers = answers.iter().chain(std::iter::repeat(answers.last().unwrap()));
            while let Ok((mut stream, _)) = listener.accept().await {
                while let Some((head, body)) = request(&mut stream).await {
                    tell.send((head, serde_json::from_str(&body).unwrap())).unwrap();
                    stream.write_all(answers.next().unwrap().as_bytes()).await.unwrap();
                }
            }
        });
        (address, told)
    }

    async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
        let mut read = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&read).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                    return Some((head.to_owned(), body.to_owned()));
                }
            }
            if stream.read_buf(&mut read).await.ok()? == 0 {
                return None;
            }
        }
    }

    fn receipt(n: usize) -> Receipt {
        let (replay_id, consumer) = (format!("r/{n}"), "pricing".to_owned());
        Receipt { replay_id, letter: None, consumer, handled_at: Timestamp::EPOCH }
    }

    #[tokio::test]
    async fn receipts_are_posted_in_batches_with_the_token() {
        let (address, mut told) = office(&[TAKEN]).await;
        let office = OfficeReceipts::new(&format!("{address}/"), Some("s3cret")).unwrap();
        (0..1_200).for_each(|n| office.take(receipt(n)));
        office.flush().await;
        let mut ids = Vec::new();
        for count in [500, 500, 200] {
            let (head, body) = told.recv().await.unwrap();
            assert!(head.starts_with("POST /api/v1/receipts HTTP/1.1"), "{head}");
            assert!(head.contains("authorization: Bearer s3cret"), "{head}");
            let receipts = body["receipts"].as_array().unwrap();
            assert_eq!(receipts.len(), count);
            assert_eq!(receipts[0]["consumer"], "pricing");
            assert_eq!(receipts[0]["handled_at"], "1970-01-01T00:00:00Z");
            ids.extend(receipts.iter().map(|one| one["replay_id"].as_str().unwrap().to_owned()));
        }
        assert_eq!(ids, (0..1_200).map(|n| format!("r/{n}")).collect::<Vec<_>>());
        assert_eq!(office.counts(), ReceiptCounts { taken: 1_200, dropped: 0 });
        assert!(!format!("{office:?}").contains("s3cret"));
    }

    #[tokio::test]
    async fn a_batch_that_was_not_taken_is_posted_again_and_one_that_is_refused_is_not() {
        let (address, mut told) = office(&[BUSY, TAKEN, NEVER]).await;
        let office = OfficeReceipts::new(&address, None).unwrap();
        office.take(receipt(1));
        office.flush().await;
        assert_eq!(told.recv().await.unwrap().1, told.recv().await.unwrap().1);
        office.take(receipt(2));
        office.flush().await;
        assert_eq!(told.recv().await.unwrap().1["receipts"][0]["replay_id"], "r/2");
        assert!(told.try_recv().is_err(), "it was refused once");
        assert_eq!(office.counts(), ReceiptCounts { taken: 1, dropped: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_is_there_the_oldest_are_dropped_and_nobody_waits() {
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let office = OfficeReceipts::new(&format!("http://{nobody}"), None).unwrap();
        let began = Instant::now();
        (0..10_300).for_each(|n| office.take(receipt(n)));
        assert!(began.elapsed() < Duration::from_secs(5), "nobody waits for the office");
        assert_eq!(office.counts(), ReceiptCounts { taken: 0, dropped: 300 });
        office.flush().await;
        assert_eq!(office.counts(), ReceiptCounts { taken: 0, dropped: 10_300 });
    }

    #[tokio::test]
    async fn how_a_consumer_stands_is_posted_first_the_latest_word_only_and_once() {
        let (address, mut told) = office(&[BUSY, TAKEN]).await;
        let office = OfficeReceipts::new(&address, None).unwrap();
        let word = |halted: Option<&str>| Standing {
            queue: "orders".to_owned(),
            consumer: "pricing".to_owned(),
            instance: "1".to_owned(),
            halted: halted.map(ToOwned::to_owned),
            paused: None,
        };
        office.take(receipt(1));
        office.hear(word(None));
        office.hear(word(Some("its breaker for tax is open")));
        office.flush().await;
        let (head, body) = told.recv().await.unwrap();
        assert!(head.starts_with("POST /api/v1/consumers HTTP/1.1"), "{head}");
        let expected = serde_json::json!({"queue": "orders", "consumer": "pricing", "instance": "1", "halted": "its breaker for tax is open"});
        assert_eq!(body, serde_json::json!({ "consumers": [expected] }));
        assert!(told.recv().await.unwrap().0.starts_with("POST /api/v1/receipts"), "it was not posted again");
        assert_eq!(office.counts(), ReceiptCounts { taken: 1, dropped: 0 });
    }

    #[tokio::test]
    async fn an_address_or_a_token_that_cannot_work_is_refused_without_showing_it() {
        let refusal = OfficeReceipts::new("office", None).unwrap_err();
        assert!(
            matches!(&refusal, BadOffice::Address(_)) && refusal.to_string().contains("8404"),
            "{refusal}"
        );
        let refusal = OfficeReceipts::new("http://office", Some("a\nb")).unwrap_err();
        assert_eq!(refusal, BadOffice::Token);
    }
}
