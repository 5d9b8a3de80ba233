//! Closing: what is in flight is finished, what is new is turned away, the store is closed.

use std::time::Duration;

use dlo_server::{HttpLimits, ServerConfig};
use dlo_store::StoreLimits;
use dlo_store::sqlite::SqliteStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::office::{Office, Reply};

async fn begin_request(office: &Office) -> TcpStream {
    let mut stream = TcpStream::connect(office.address).await.unwrap();
    let head = "POST /api/v1/letters HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 26\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The office asks for the body: the request is being served.
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).await.unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100"));
    stream
}

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_office_closes() {
    let mut office = Office::open().await;
    let mut stream = begin_request(&office).await;
    office.stop();
    while TcpStream::connect(office.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!office.running.is_finished());
    stream.write_all(br#"{"source":"a","payload":1}"#).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(Reply::parse(&answer).json()["stored"], 1);
    (&mut office.running).await.unwrap().unwrap();
    // The store was closed: another process may open it.
    SqliteStore::open(office.data.path(), StoreLimits::default()).unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_finish_is_cut_when_the_grace_period_is_over() {
    let limits = HttpLimits { grace: Duration::from_millis(100), ..HttpLimits::default() };
    let mut office = Office::open_with(ServerConfig { limits, ..ServerConfig::default() }).await;
    let mut stream = begin_request(&office).await;
    office.stop();
    let ended = tokio::time::timeout(Duration::from_secs(20), &mut office.running).await;
    ended.expect("the office closes in time").unwrap().unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
}
