//! The least that pushes: takes messages off RabbitMQ, posts each to the handler over so many kept connections, and
//! acknowledges as far as all are answered, many together. No deadline, no retry, no record. Runs until it is told to stop.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};

/// Messages that wait at a connection, so that it need not ask for the next.
const WAITING: usize = 8;
/// Answers that are looked at together.
const TOGETHER: usize = 512;

pub(crate) async fn run(url: &str, queue: &str, port: u16, connections: u16) {
    let mut stop = signal(SignalKind::terminate()).expect("hear of the end");
    let broker = Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
    let taking = broker.create_channel().await.expect("a channel");
    let prefetch = connections.saturating_mul(2 * WAITING as u16);
    taking.basic_qos(prefetch, BasicQosOptions::default()).await.expect("prefetch");
    let (say, answered) = unbounded_channel();
    let mut posts = Vec::new();
    for _ in 0..connections {
        let (post, waiting) = channel(WAITING);
        tokio::spawn(post_all(connect(port).await, port, waiting, say.clone()));
        posts.push(post);
    }
    drop(say);
    let acknowledging = tokio::spawn(acknowledge(taking.clone(), answered));
    let mut consumer = taking
        .basic_consume(queue.into(), "push".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await
        .expect("consume");
    for post in posts.iter().cycle() {
        let delivery = tokio::select! {
            delivery = consumer.next() => delivery.expect("a delivery").expect("the broker is up"),
            _ = stop.recv() => break,
        };
        post.send(delivery).await.expect("its connection holds");
    }
    // Answers that are under way come, and are acknowledged.
    drop(posts);
    acknowledging.await.expect("acknowledged");
    taking.close(200, "done".into()).await.expect("close");
}

pub(super) async fn connect(port: u16) -> SendRequest<Full<Bytes>> {
    let wire = TcpStream::connect(("127.0.0.1", port)).await.expect("the handler listens");
    wire.set_nodelay(true).expect("no delay");
    let (sender, driver) = http1::handshake(TokioIo::new(wire)).await.expect("a connection");
    tokio::spawn(driver);
    sender
}

async fn post_all(
    mut to: SendRequest<Full<Bytes>>,
    port: u16,
    mut waiting: Receiver<Delivery>,
    say: UnboundedSender<u64>,
) {
    let host = format!("127.0.0.1:{port}");
    while let Some(delivery) = waiting.recv().await {
        post(&mut to, &host, Bytes::from(delivery.data)).await;
        say.send(delivery.delivery_tag).expect("somebody acknowledges");
    }
}

/// One request, to the end of its answer.
pub(super) async fn post(to: &mut SendRequest<Full<Bytes>>, host: &str, body: Bytes) {
    let request = Request::post("/")
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .expect("a request");
    let answer = to.send_request(request).await.expect("an answer");
    assert!(answer.status().is_success(), "the handler refused");
    answer.into_body().collect().await.expect("its end");
}

/// Acknowledges all up to the first that is not answered yet, whenever there are more of them.
async fn acknowledge(channel: Channel, mut answered: UnboundedReceiver<u64>) {
    let (mut through, mut beyond, mut some) = (0, BTreeSet::new(), Vec::new());
    while answered.recv_many(&mut some, TOGETHER).await > 0 {
        let before = through;
        beyond.extend(some.drain(..));
        while beyond.remove(&(through + 1)) {
            through += 1;
        }
        if through > before {
            channel.basic_ack(through, BasicAckOptions { multiple: true }).await.expect("ack");
        }
    }
}
