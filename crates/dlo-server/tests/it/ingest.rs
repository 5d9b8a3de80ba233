//! Letters in: one, an array, a stream; each answered for itself and durable before it is.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_server::{HttpLimits, ServerConfig};
use dlo_store::StoreLimits;

use crate::office::Office;

pub(crate) const FULL: &str = r#"{"source":"orders","queue":"orders","partition":17,"offset":42,"message_id":"msg_9ab31","key":"C-441","headers":[["x-tenant","acme"],["x-tenant","two"],["absent",null],{"name":"raw","value_base64":"AP8="}],"content_type":"application/json",
 "payload":{"order_id": "ORD-88812"},"event_type":"order.placed","event_version":1,"correlation_id":"req_274ad","consumer":"pricing","consumer_id":"pod-7","attempts":3,
 "error_class":"KeyError","error_message":"pin 560001 not in tax table","error_stack":"at price","reason":"processing_error","received_at":"2026-11-01T12:30:00Z","first_failed_at":"2026-11-01T12:30:01Z","failed_at":"2026-11-01T12:30:02Z",
 "trace_id":"4bf92f","published_at":"2026-11-01T12:29:00Z","attempt_history":[{"number":1,"at":"2026-11-01T12:30:01Z","error_class":"KeyError","message":"pin","verdict":"retry","delay_ms":200}],"verdict":"dead_letter"}"#;

#[tokio::test]
async fn a_letter_is_stored_and_read_back_whole() {
    let office = Office::open().await;
    let id = office.letter(FULL).await;

    let list = office.get("/api/v1/letters").await.json();
    assert_eq!(
        (list["letters"].as_array().unwrap().len(), &list["next_cursor"]),
        (1, &serde_json::Value::Null)
    );
    let letter = office.get(&format!("/api/v1/letters/{id}")).await.json();
    let sent: serde_json::Value = serde_json::from_str(FULL).unwrap();
    for (name, value) in sent.as_object().unwrap().iter().filter(|(name, _)| *name != "payload") {
        assert_eq!(&letter[name], value, "{name}");
        if !["headers", "error_stack", "attempt_history"].contains(&name.as_str()) {
            assert_eq!(&list["letters"][0][name], value, "{name} in the list");
        }
    }
    assert_eq!((&letter["status"], &letter["id"]), (&"open".into(), &id.into()));
    assert_eq!(letter["deaths"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_same_origin_twice_is_a_duplicate_of_the_first() {
    let office = Office::open().await;
    let id = office.letter(FULL).await;
    let again = office.post_json("/api/v1/letters", FULL).await.json();
    assert_eq!((&again["stored"], &again["duplicate"]), (&0.into(), &1.into()));
    assert_eq!(again["results"][0]["status"], "duplicate");
    assert_eq!(again["results"][0]["id"], id);
}

#[tokio::test]
async fn an_array_is_answered_item_by_item_in_the_order_sent() {
    let office = Office::open().await;
    let body = r#"[{"source":"a","offset":1,"payload":1},{"source":"a","offset":2,"payload":2},
        {"source":"a","offset":1,"payload":1},{"source":"a","payload":1,"ofset":3}]"#;
    let reply = office.post_json("/api/v1/letters", body).await;
    let answer = reply.json();
    assert_eq!(reply.status, 200);
    assert_eq!(
        (&answer["stored"], &answer["duplicate"], &answer["rejected"]),
        (&2.into(), &1.into(), &1.into())
    );
    let statuses: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|r| r["status"].clone()).collect();
    assert_eq!(statuses, ["stored", "stored", "duplicate", "rejected"]);
    assert_eq!(answer["results"][2]["id"], answer["results"][0]["id"]);
    assert_eq!(answer["results"][3]["error"]["code"], "unknown_field");
    assert_eq!(answer["results"][3]["error"]["field"], "ofset");
}

fn lines(count: usize) -> Vec<u8> {
    (0..count)
        .map(|n| {
            format!(
                "{{\"source\":\"orders\",\"offset\":{n},\"payload\":{{\"n\":{n}}},\"error_message\":\"e\"}}\n"
            )
        })
        .collect::<String>()
        .into_bytes()
}

#[tokio::test]
async fn a_stream_of_many_chunks_is_answered_in_order_as_json() {
    let office = Office::open().await;
    let answer = office.post_lines(&lines(3_500)).await.json();
    assert_eq!((&answer["stored"], &answer["rejected"]), (&3_500.into(), &0.into()));
    assert_eq!(answer["results"].as_array().unwrap().len(), 3_500);
    let last = answer["results"][3_499]["id"].as_str().unwrap();
    let letter = office.get(&format!("/api/v1/letters/{last}")).await.json();
    assert_eq!(letter["offset"], 3_499);
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["open"], 3_500);
}

#[tokio::test]
async fn a_stream_is_answered_line_by_line_to_who_accepts_lines() {
    let office = Office::open().await;
    let headers = [("content-type", "application/jsonl"), ("accept", "application/x-ndjson")];
    let mut body = lines(1_200);
    body.extend_from_slice(b"not json\n");
    let reply = office.send("POST", "/api/v1/letters", &headers, &body).await;
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "application/x-ndjson"));
    let lines = reply.lines();
    assert_eq!(lines.len(), 1_202);
    assert_eq!((&lines[0]["status"], &lines[1_200]["status"]), (&"stored".into(), &"rejected".into()));
    assert_eq!(lines[1_201], serde_json::json!({"stored": 1_200, "duplicate": 0, "rejected": 1}));
}

#[tokio::test]
async fn an_idempotency_key_makes_letters_without_coordinates_unique() {
    let office = Office::open().await;
    let body = br#"[{"source":"a","payload":1},{"source":"a","payload":1}]"#;
    let headers = [("content-type", "application/json"), ("idempotency-key", "upload-7")];
    let first = office.send("POST", "/api/v1/letters", &headers, body).await.json();
    let again = office.send("POST", "/api/v1/letters", &headers, body).await.json();
    assert_eq!((&first["stored"], &again["duplicate"]), (&2.into(), &2.into()));
    let without = office.post_json("/api/v1/letters", r#"{"source":"a","payload":1}"#).await.json();
    assert_eq!(without["stored"], 1);
}

#[tokio::test]
async fn a_payload_comes_back_byte_for_byte() {
    let office = Office::open().await;
    let spaced = office.letter(r#"{"source":"a","payload":{ "b" : 1.0, "a":"\u00e9" }}"#).await;
    let reply = office.get(&format!("/api/v1/letters/{spaced}/payload")).await;
    assert_eq!(reply.body, br#"{ "b" : 1.0, "a":"\u00e9" }"#);
    assert_eq!(reply.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    assert!(reply.headers["content-disposition"].starts_with("attachment"));
    let raw = office.letter(r#"{"source":"a","payload_base64":"AP8Q","content_type":"image/png"}"#).await;
    let reply = office.get(&format!("/api/v1/letters/{raw}/payload")).await;
    assert_eq!(
        (reply.body.as_slice(), reply.headers["content-type"].as_str()),
        (&[0, 255, 16][..], "application/octet-stream")
    );
}

#[tokio::test]
async fn a_replayed_letter_that_dies_again_is_one_more_chapter() {
    let office = Office::open().await;
    let id = office.letter(r#"{"source":"a","offset":1,"payload":1}"#).await;
    let body = format!(
        r#"{{"source":"a","offset":9,"payload":1,"headers":[["x-replayed-from-dlq","{id}"],["dlo-replay-id","r1"]]}}"#
    );
    let answer = office.post_json("/api/v1/letters", &body).await.json();
    assert_eq!((&answer["stored"], &answer["results"][0]["id"]), (&1.into(), &id.clone().into()));
    let letter = office.get(&format!("/api/v1/letters/{id}")).await.json();
    assert_eq!(letter["deaths"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_store_that_is_behind_answers_429_and_takes_nothing() {
    let limits = HttpLimits { patience: Duration::from_millis(50), ..HttpLimits::default() };
    let config = ServerConfig { limits, ..ServerConfig::default() };
    let office =
        Office::start(config, StoreLimits { waiting_bytes: 0, ..StoreLimits::default() }, |s| s).await;
    for reply in [
        office.post_json("/api/v1/letters", FULL).await,
        office.post_json("/api/v1/letters", &format!("[{FULL}]")).await,
        office.post_lines(&lines(10)).await,
    ] {
        assert_eq!(reply.problem(), (429, "overloaded".to_string()));
        assert_eq!(reply.headers["retry-after"], "1");
    }
    let accept = [("content-type", "application/x-ndjson"), ("accept", "application/x-ndjson")];
    let reply = office.send("POST", "/api/v1/letters", &accept, &lines(10)).await;
    assert_eq!(reply.problem(), (429, "overloaded".to_string()));
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["total"], 0);
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_stored_letter_is_one_line_in_the_admission_log() {
    let sink = Sink::default();
    let log = sink.clone();
    let office = Office::start(ServerConfig::default(), StoreLimits::default(), |server| {
        server.admission_log(Box::new(log))
    })
    .await;
    let mut body = lines(1_100);
    body.extend(lines(5));
    assert_eq!(office.post_lines(&body).await.json()["duplicate"], 5);
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let logged: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(logged.len(), 1_100);
    assert!(logged.iter().all(|line| line["event"] == "message.dead_lettered" && line["source"] == "orders"));
}

/// A client that writes everything before it reads anything must not block itself: the answer to these lines is far
/// larger than what the sockets between the two hold.
#[tokio::test]
async fn a_client_that_reads_late_does_not_block_itself() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let office = Office::open().await;
    let body = "x\n".repeat(100_000);
    let mut stream = tokio::net::TcpStream::connect(office.address).await.unwrap();
    let head = format!(
        "POST /api/v1/letters HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\naccept: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        office.address,
        body.len()
    );
    let writing = async {
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(60), writing).await.expect("the office reads on");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let lines = crate::office::Reply::parse(&answer).lines();
    assert_eq!(lines.last().unwrap()["rejected"], 100_000);
}
