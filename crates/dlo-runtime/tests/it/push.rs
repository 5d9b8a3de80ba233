//! The way to a handler over HTTP, against a server that answers by script, byte for byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dlo_core::attempt::Attempt;
use dlo_core::message::{Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_runtime::push::{Batch, PushConfig, PushHandler};
use dlo_runtime::{Context, Handler, SystemClock, Unhandled};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// What the server does with one request.
#[derive(Debug, Clone, Copy)]
enum Step {
    Answer(&'static str),
    /// Answers and closes, without having said so.
    AnswerAndClose(&'static str),
    /// Closes when it has read the request.
    Vanish,
    /// Never answers.
    Hang,
}

/// A server that takes its steps in order, over all connections, and the last one for ever.
struct Scripted {
    address: String,
    connections: Arc<AtomicUsize>,
    bodies: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Scripted {
    async fn start(steps: &'static [Step]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/price", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let bodies = Arc::new(std::sync::Mutex::default());
        let (counted, kept, next) = (connections.clone(), Arc::clone(&bodies), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, steps, next.clone(), Arc::clone(&kept)));
            }
        });
        Self { address, connections, bodies }
    }

    fn handler(&self, batch: Option<Batch>) -> PushHandler {
        let config = PushConfig { handler: self.address.clone(), batch, health: None };
        PushHandler::new(&config, Arc::new(SystemClock)).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    steps: &'static [Step],
    next: Arc<AtomicUsize>,
    bodies: Arc<std::sync::Mutex<Vec<String>>>,
) {
    while let Some(body) = request(&mut stream).await {
        bodies.lock().unwrap().push(body);
        let at = next.fetch_add(1, Ordering::SeqCst).min(steps.len() - 1);
        match steps[at] {
            Step::Answer(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Step::AnswerAndClose(text) => {
                stream.write_all(text.as_bytes()).await.unwrap();
                return;
            }
            Step::Vanish => return,
            Step::Hang => std::future::pending().await,
        }
    }
}

/// Reads one request and gives its body; `None` at the end of the connection.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(body.to_owned());
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

fn context(offset: i64) -> Context {
    Context {
        origin: Origin::log(BrokerKind::Kafka, "orders", 0, offset),
        published_at: None,
        attempt: Attempt::FIRST,
        timeout: Duration::from_secs(10),
        replay: None,
    }
}

async fn push(handler: &PushHandler, offset: i64) -> Result<(), Unhandled> {
    let message = Message { payload: Payload::from(format!("{{\"n\":{offset}}}")), ..Message::default() };
    handler.handle(message, &context(offset)).await
}

#[tokio::test]
async fn requests_one_after_the_other_share_one_connection() {
    let server =
        Scripted::start(&[Step::Answer(OK), Step::Answer("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")])
            .await;
    let handler = server.handler(None);
    for n in 0..20 {
        push(&handler, n).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
    assert_eq!(server.bodies.lock().unwrap()[7], "{\"n\":7}");
}

#[tokio::test]
async fn a_connection_that_was_closed_while_it_idled_costs_nobody_anything() {
    let server = Scripted::start(&[Step::AnswerAndClose(OK)]).await;
    let handler = server.handler(None);
    for n in 0..10 {
        push(&handler, n).await.unwrap();
        // The close is seen when the system has told of it; until then a request on it could be lost.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.connections(), 10);
}

#[tokio::test]
async fn a_handler_that_vanishes_with_a_message_leaves_a_suspect() {
    let server = Scripted::start(&[Step::Answer(OK), Step::Vanish, Step::Answer(OK)]).await;
    let handler = server.handler(None);
    push(&handler, 0).await.unwrap();
    let lost = push(&handler, 1).await.unwrap_err();
    assert!(matches!(&lost, Unhandled::Lost(why) if why.contains("lost")), "{lost:?}");
    push(&handler, 2).await.unwrap();
    assert_eq!(server.bodies.lock().unwrap().len(), 3, "what was lost was not sent again behind our back");
}

#[tokio::test]
async fn nobody_there_is_told_from_somebody_who_went_away() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", taken.local_addr().unwrap());
    drop(taken);
    for handler in [address.as_str(), "http://no-such-host.invalid/"] {
        let config = PushConfig { handler: handler.to_owned(), batch: None, health: None };
        let handler = PushHandler::new(&config, Arc::new(SystemClock)).unwrap();
        assert!(matches!(push(&handler, 0).await, Err(Unhandled::Absent(_))));
        assert!(handler.is_there().await.is_err());
    }
}

#[tokio::test]
async fn of_an_endless_answer_a_bounded_part_is_read() {
    let body: &'static str = Box::leak(
        format!("HTTP/1.1 500 Oops\r\ncontent-length: 10000000\r\n\r\n{}", "x".repeat(100_000))
            .into_boxed_str(),
    );
    let steps: &'static [Step] = Box::leak(vec![Step::Answer(body), Step::Answer(OK)].into_boxed_slice());
    let server = Scripted::start(steps).await;
    let handler = server.handler(None);
    let Err(Unhandled::Failed(failure)) = push(&handler, 0).await else { panic!("it has failed") };
    assert_eq!(failure.http_status, Some(500));
    assert!(failure.message.len() <= 4_096);
    push(&handler, 1).await.unwrap();
    assert_eq!(server.connections(), 2, "a connection with half an answer on it is not used again");
}

#[tokio::test]
async fn a_message_that_ran_over_its_time_takes_its_connection_with_it() {
    let server = Scripted::start(&[Step::Hang, Step::Answer(OK)]).await;
    let handler = server.handler(None);
    assert!(tokio::time::timeout(Duration::from_millis(50), push(&handler, 0)).await.is_err());
    push(&handler, 1).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn messages_at_once_are_one_request_and_each_has_its_verdict() {
    const BODY: &str = r#"{"results":[{"id":"0-0","verdict":"done"},{"id":"0-1","verdict":"discard"}]}"#;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let steps: &'static [Step] =
        Box::leak(vec![Step::Answer(Box::leak(answer.into_boxed_str()))].into_boxed_slice());
    let server = Scripted::start(steps).await;
    let handler = server.handler(Some(Batch { size: 3, linger: Duration::from_secs(1) }));
    let (first, second, third) = tokio::join!(push(&handler, 0), push(&handler, 1), push(&handler, 2));
    assert_eq!(first, Ok(()));
    assert!(matches!(second, Err(Unhandled::Failed(failure)) if failure.says.is_some()));
    assert!(matches!(third, Err(Unhandled::Failed(failure)) if failure.class == "dlo.NoResult"));
    assert_eq!(server.bodies.lock().unwrap().len(), 1);
    let alone = push(&handler, 0).await;
    assert_eq!(alone, Ok(()), "one that nobody joins goes when its time has come");
}

#[tokio::test]
async fn everybody_in_a_batch_is_a_suspect_when_the_handler_vanishes_with_it() {
    let server = Scripted::start(&[Step::Vanish]).await;
    let handler = server.handler(Some(Batch { size: 2, linger: Duration::from_secs(1) }));
    let (first, second) = tokio::join!(push(&handler, 0), push(&handler, 1));
    assert!(matches!(first, Err(Unhandled::Lost(_))) && matches!(second, Err(Unhandled::Lost(_))));
}
