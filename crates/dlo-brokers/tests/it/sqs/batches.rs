//! Full batches, counted on the wire; entries that fail alone; refusals that name what to mend.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_core::broker::{BrokerError, PublishError, Settlement};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A wire that remembers what clients said.
struct Wiretap {
    endpoint: String,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Wiretap {
    async fn before(endpoint: &str) -> Self {
        let server = endpoint.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let said: Arc<Mutex<Vec<u8>>> = Arc::default();
        let log = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server.clone(), Arc::clone(&log)));
            }
        });
        Self { endpoint, said }
    }

    fn calls(&self, operation: &str) -> usize {
        let said = String::from_utf8_lossy(&self.said.lock().unwrap()).to_lowercase();
        said.matches(&format!("amazonsqs.{}\r\n", operation.to_lowercase())).count()
    }
}

async fn pass(client: TcpStream, server: String, log: Arc<Mutex<Vec<u8>>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let (mut buffer, mut own) = (vec![0; 65_536], Vec::new());
    while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
        own.extend_from_slice(&buffer[..count]);
        // Whole requests only, so that those of several connections do not run into each other.
        if own.ends_with(b"}") {
            log.lock().unwrap().append(&mut own);
        }
        if to_server.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_messages_are_sent_received_and_deleted_in_full_batches() {
    let tap = Wiretap::before(&Sqs::elasticmq().await.endpoint).await;
    let (broker, queue) = (broker(config(&tap.endpoint, 30)).await, name());
    create(&client(&tap.endpoint), &queue, &[]).await;
    publish(&*broker, &queue, (0..1_000).map(|n| keyed("k", &n.to_string())).collect()).await;
    assert_eq!(tap.calls("SendMessageBatch"), 100);
    let mut drain = broker.drain(&queue).await.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 1_000 {
        // As capture does: batches of 500.
        let came = drain.receive(500, Duration::from_secs(5)).await.unwrap();
        assert!(!came.is_empty(), "{} of 1000 came", seen.len());
        seen.extend(came.iter().map(body));
        settle(&*drain, came, Settlement::Done).await;
    }
    let (receives, deletes) = (tap.calls("ReceiveMessage"), tap.calls("DeleteMessageBatch"));
    assert!((100..=110).contains(&receives), "{receives} receives for 1000 messages");
    assert!((100..=104).contains(&deletes), "{deletes} deletes for 1000 messages");
    assert_eq!(tap.calls("DeleteMessage") + tap.calls("SendMessage"), 0, "never one by one");
    drain.close().await.unwrap();
    assert_eq!(tap.calls("ChangeMessageVisibilityBatch"), 0, "nothing was left to hand back");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_source_asks_once_per_wait() {
    let tap = Wiretap::before(&Sqs::elasticmq().await.endpoint).await;
    let (broker, queue) = (broker(config(&tap.endpoint, 30)).await, name());
    create(&client(&tap.endpoint), &queue, &[]).await;
    let mut source = broker.drain(&queue).await.unwrap();
    let began = std::time::Instant::now();
    for _ in 0..20 {
        assert!(source.receive(500, Duration::from_millis(100)).await.unwrap().is_empty());
    }
    let receives = tap.calls("ReceiveMessage");
    let most = began.elapsed().as_secs() as usize + 2;
    assert!((1..=most).contains(&receives), "{receives} receives in {most} seconds of silence");
    source.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_entry_of_a_batch_fails_alone() {
    let endpoint = &Sqs::elasticmq().await.endpoint;
    let (broker, queue) = (broker(config(endpoint, 30)).await, name());
    create(&client(endpoint), &queue, &[]).await;
    let delayed = |body: &str, seconds| Outgoing {
        delay: Some(Duration::from_secs(seconds)),
        ..to(&queue, text(body))
    };
    let outgoing = vec![
        to(&queue, text("a")),
        delayed("too late", 901),
        to(&queue, Message { payload: Payload(vec![b'x'; 262_145].into()), ..Message::default() }),
        to(&name(), text("nowhere")),
        to(&queue, text("b")),
    ];
    let results = broker.publisher().publish(outgoing).await;
    assert!(
        matches!(
            results[..],
            [
                Ok(_),
                Err(PublishError::Refused(_)),
                Err(PublishError::TooLarge { size: 262_145, limit: 262_144 }),
                Err(PublishError::Refused(_)),
                Ok(_),
            ]
        ),
        "{results:?}"
    );
    let mut source = broker.source(&queue, "g").await.unwrap();
    let mut names: Vec<String> = receive(&mut source, 2).await.iter().map(body).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_share_a_batch_only_as_far_as_they_fit() {
    let endpoint = &Sqs::elasticmq().await.endpoint;
    let (broker, queue) = (broker(config(endpoint, 30)).await, name());
    create(&client(endpoint), &queue, &[]).await;
    let large = |n: u8| Message { payload: Payload(vec![b'a' + n; 100_000].into()), ..Message::default() };
    publish(&*broker, &queue, (0..7).map(large).collect()).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    let came = receive(&mut source, 7).await;
    assert!(came.iter().all(|delivery| delivery.message.payload.0.len() == 100_000));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_out_of_reach_and_not_an_answer() {
    let broker = broker(config("http://127.0.0.1:1", 30)).await;
    for error in [broker.ping().await.unwrap_err(), broker.source("orders", "g").await.unwrap_err()] {
        assert!(matches!(error, BrokerError::Unavailable(_)), "{error}");
    }
}

#[tokio::test]
async fn a_name_that_is_no_queue_and_a_url_of_none_are_missing_by_their_names() {
    let endpoint = &Sqs::localstack().await.endpoint;
    let broker = broker(config(endpoint, 30)).await;
    for given in [name(), format!("arn:aws:sqs:us-east-1:000000000000:{}", name())] {
        let missing = broker.source(&given, "g").await.unwrap_err();
        assert!(matches!(&missing, BrokerError::Missing(said) if *said == given), "{missing}");
    }
    let url = format!("{endpoint}/000000000000/{}", name());
    let missing = broker.inspector().inspect(&url, None).await.unwrap_err();
    assert!(matches!(&missing, BrokerError::Missing(said) if *said == url), "{missing}");
}

#[tokio::test]
async fn a_queue_is_the_same_by_name_url_and_arn() {
    let endpoint = &Sqs::localstack().await.endpoint;
    let (broker, queue) = (broker(config(endpoint, 30)).await, name());
    let url = create(&client(endpoint), &queue, &[]).await;
    publish(&*broker, &queue, vec![text("m")]).await;
    for given in [queue.clone(), url, format!("arn:aws:sqs:us-east-1:000000000000:{queue}")] {
        assert_eq!(broker.inspector().inspect(&given, None).await.unwrap().depth, Some(1), "{given}");
    }
}
