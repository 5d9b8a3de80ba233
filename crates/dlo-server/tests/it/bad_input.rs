//! Whatever is sent: a clear refusal for each item, the good ones stored, no panic.

use std::time::Duration;

use dlo_server::{HttpLimits, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::office::{Office, Reply};

async fn with_limits(limits: HttpLimits) -> Office {
    Office::open_with(ServerConfig { limits, ..ServerConfig::default() }).await
}

#[tokio::test]
async fn bad_items_are_refused_each_for_itself_and_the_good_ones_are_stored() {
    let office = Office::open().await;
    let good = r#"{"source":"a","payload":1}"#;
    let bomb = format!(
        "{{\"source\":\"a\",\"payload\":1,\"headers\":[{}[\"x\",\"y\"]]}}",
        "[\"x\",\"y\"],".repeat(5_000)
    );
    let fat = format!("{{\"source\":\"a\",\"payload\":1,\"headers\":[[\"x\",\"{}\"]]}}", "y".repeat(300_000));
    let bad: Vec<(Vec<u8>, &str)> = vec![
        (b"{\"source\":".to_vec(), "malformed_json"),
        (b"{\"source\":\"\xff\",\"payload\":1}".to_vec(), "invalid_utf8"),
        (b"{\"source\":\"a\0b\",\"payload\":1}".to_vec(), "malformed_json"),
        (br#"{"source":"a\u0000b","payload":1}"#.to_vec(), "nul_character"),
        (br#"{"source":"a","payload":1,"error_message":"\u0000"}"#.to_vec(), "nul_character"),
        (bomb.into_bytes(), "too_large"),
        (fat.into_bytes(), "too_large"),
        (br#"{"source":"a","payload":1,"failed_at":"9999-01-01T00:00:00Z"}"#.to_vec(), "time_in_future"),
        (br#"{"source":"a","payload":1,"failed_at":"1960-01-01T00:00:00Z"}"#.to_vec(), "time_out_of_range"),
        (br#"{"source":"a","payload":1,"failed_at":-5}"#.to_vec(), "wrong_type"),
        (br#"{"source":"a","payload":1,"sauce":"x"}"#.to_vec(), "unknown_field"),
        (br#"{"source":"","payload":1}"#.to_vec(), "missing_field"),
        (b"[[[[".to_vec(), "malformed_json"),
        (br#""text""#.to_vec(), "malformed_json"),
    ];
    let mut body = Vec::new();
    for (item, _) in &bad {
        body.extend_from_slice(good.as_bytes());
        body.push(b'\n');
        body.extend_from_slice(item);
        body.push(b'\n');
    }
    let reply = office.post_lines(&body).await;
    let answer = reply.json();
    assert_eq!(
        (reply.status, &answer["stored"], &answer["rejected"]),
        (200, &bad.len().into(), &bad.len().into())
    );
    for (at, (item, code)) in bad.iter().enumerate() {
        let result = &answer["results"][at * 2 + 1];
        assert_eq!(
            result["error"]["code"],
            *code,
            "{} {result}",
            String::from_utf8_lossy(&item[..item.len().min(80)])
        );
        assert!(result["error"]["detail"].as_str().unwrap().len() > 5);
    }
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["open"], bad.len());
}

#[tokio::test]
async fn a_single_letter_that_is_refused_is_a_problem() {
    let office = Office::open().await;
    let reply = office.post_json("/api/v1/letters", r#"{"source":"a","payload":1,"ofset":1}"#).await;
    assert_eq!(reply.problem(), (422, "unknown_field".to_string()));
    assert_eq!(reply.json()["field"], "ofset");
    for body in ["", "{", "nonsense", "[{\"source\":\"a\",\"payload\":1},"] {
        let reply = office.post_json("/api/v1/letters", body).await;
        assert_eq!(reply.problem(), (400, "malformed_json".to_string()), "{body}");
    }
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["total"], 0);
}

#[tokio::test]
async fn a_body_of_100_megabytes_is_refused_as_too_large() {
    let office = Office::open().await;
    let body = format!("{{\"source\":\"a\",\"payload\":\"{}\"}}", "x".repeat(100_000_000));
    let reply = office.post_json("/api/v1/letters", &body).await;
    assert_eq!(reply.problem(), (413, "body_too_large".to_string()));
    assert_eq!(office.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_line_of_100_megabytes_is_skipped_and_its_neighbours_are_stored() {
    let office = Office::open().await;
    let good = "{\"source\":\"a\",\"payload\":1}\n";
    let body = format!("{good}{{\"source\":\"a\",\"payload\":\"{}\"}}\n{good}", "x".repeat(100_000_000));
    let answer = office.post_lines(body.as_bytes()).await.json();
    assert_eq!((&answer["stored"], &answer["rejected"]), (&2.into(), &1.into()));
    assert_eq!(answer["results"][1]["error"]["code"], "item_too_large");
}

#[tokio::test]
async fn a_stream_that_ends_inside_an_endless_line_refuses_that_line_once() {
    let office = Office::open().await;
    let body = format!("{{\"source\":\"a\",\"payload\":1}}\n{}", "x".repeat(40_000_000));
    let answer = office.post_lines(body.as_bytes()).await.json();
    assert_eq!((&answer["stored"], &answer["rejected"]), (&1.into(), &1.into()));
    assert_eq!(answer["results"][1]["error"]["code"], "item_too_large");
}

#[tokio::test]
async fn a_body_of_another_type_is_refused_with_the_right_ones() {
    let office = Office::open().await;
    for headers in
        [&[("content-type", "text/plain")][..], &[("content-type", "application/x-www-form-urlencoded")], &[]]
    {
        let reply = office.send("POST", "/api/v1/letters", headers, br#"{"source":"a","payload":1}"#).await;
        assert_eq!(reply.problem(), (415, "wrong_content_type".to_string()));
        assert!(reply.json()["detail"].as_str().unwrap().contains("application/x-ndjson"));
    }
}

#[tokio::test]
async fn paths_methods_and_parameters_that_are_unknown_are_problems() {
    let office = Office::open().await;
    let table = [
        ("GET", "/nowhere", 404, "no_such_path"),
        ("DELETE", "/api/v1/letters", 405, "wrong_method"),
        ("GET", "/api/v1/letters?query=x", 400, "bad_parameter"),
        ("GET", "/api/v1/letters?limit=0", 400, "bad_limit"),
        ("GET", "/api/v1/letters?limit=501", 400, "bad_limit"),
        ("GET", "/api/v1/letters?limit=many", 400, "bad_parameter"),
        ("GET", "/api/v1/letters?cursor=nonsense", 400, "bad_cursor"),
        ("GET", "/api/v1/letters?q=stauts:open", 400, "bad_query"),
        ("GET", "/api/v1/groups?holding=nothing", 400, "bad_parameter"),
        ("GET", "/api/v1/letters/7", 404, "bad_id"),
        ("GET", "/api/v1/letters/%ff", 404, "bad_id"),
        ("GET", "/api/v1/letters/01890a5d-ac96-774b-bcce-b302099a8057", 404, "no_letter"),
        ("GET", "/api/v1/letters/01890a5d-ac96-774b-bcce-b302099a8057/payload", 404, "no_letter"),
        ("GET", "/api/v1/letters/01890a5d-ac96-774b-bcce-b302099a8057/timeline", 404, "no_letter"),
        ("GET", "/api/v1/groups/01890a5d-ac96-774b-bcce-b302099a8057", 404, "no_group"),
    ];
    for (method, path, status, code) in table {
        let reply = office.send(method, path, &[], b"").await;
        assert_eq!(reply.problem(), (status, code.to_string()), "{method} {path}");
    }
    assert_eq!(office.get("/api/v1/letters?q=a%20stauts:open").await.json()["position"], 2);
}

#[tokio::test]
async fn a_client_that_falls_silent_in_its_body_is_answered_and_left() {
    let office =
        with_limits(HttpLimits { body_timeout: Duration::from_millis(200), ..HttpLimits::default() }).await;
    let head = |kind: &str| {
        format!(
            "POST /api/v1/letters HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: 1000\r\n\r\n"
        )
    };
    let reply = office.raw((head("application/json") + "{\"source\"").into_bytes()).await;
    assert_eq!(reply.problem(), (408, "body_timeout".to_string()));
    // What was complete before the silence is stored and answered.
    let line = "{\"source\":\"a\",\"payload\":1}\n";
    let reply = office.raw((head("application/x-ndjson") + line + "{\"half").into_bytes()).await;
    let answer = reply.json();
    assert_eq!((reply.status, &answer["stored"]), (408, &1.into()));
    assert_eq!(answer["incomplete"]["code"], "body_timeout");
}

#[tokio::test]
async fn a_client_that_never_finishes_its_head_is_left() {
    let office =
        with_limits(HttpLimits { head_timeout: Duration::from_millis(200), ..HttpLimits::default() }).await;
    let mut stream = TcpStream::connect(office.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").await.unwrap();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "the office still waits");
}

#[tokio::test]
async fn a_request_with_too_many_headers_is_refused() {
    let office = Office::open().await;
    let bomb: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
    let reply =
        office.raw(format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{bomb}\r\n").into_bytes()).await;
    assert_eq!(reply.status, 431);
    let long = "y".repeat(200_000);
    let reply = office
        .raw(format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n").into_bytes())
        .await;
    assert_eq!(reply.status, 431);
}

#[tokio::test]
async fn items_beyond_the_limit_of_a_request_are_not_read_and_that_is_said() {
    let office = with_limits(HttpLimits { items: 5, ..HttpLimits::default() }).await;
    let lines = "{\"source\":\"a\",\"payload\":1}\n".repeat(8);
    let reply = office.post_lines(lines.as_bytes()).await;
    let answer = reply.json();
    assert_eq!((reply.status, &answer["stored"]), (413, &5.into()));
    assert_eq!(answer["incomplete"]["code"], "too_many_items");
    let array = format!("[{}]", [r#"{"source":"a","payload":1}"#; 8].join(","));
    let reply = office.post_json("/api/v1/letters", &array).await;
    assert_eq!(reply.problem(), (413, "too_many_items".to_string()));
}

/// More connections than places: the first ones hold theirs, the next is served when one is free.
#[tokio::test]
async fn connections_beyond_the_cap_wait_for_a_place() {
    let office = with_limits(HttpLimits { connections: 2, ..HttpLimits::default() }).await;
    let first = TcpStream::connect(office.address).await.unwrap();
    let second = TcpStream::connect(office.address).await.unwrap();
    let mut third = TcpStream::connect(office.address).await.unwrap();
    third.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let early = tokio::time::timeout(Duration::from_millis(200), third.read_to_end(&mut answer)).await;
    assert!(early.is_err(), "the third was served while two held their places");
    drop((first, second));
    third.read_to_end(&mut answer).await.unwrap();
    assert_eq!(Reply::parse(&answer).status, 200);
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let office = Office::open().await;
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let reply = office.send("POST", "/api/v1/letters", &headers, b"\x1f\x8b").await;
    assert_eq!(reply.problem(), (415, "wrong_content_encoding".to_string()));
}

#[tokio::test]
async fn bodies_share_a_bounded_memory_and_who_waits_too_long_comes_back_later() {
    let limits =
        HttpLimits { body_memory: 1_000, patience: Duration::from_millis(100), ..HttpLimits::default() };
    let office = with_limits(limits).await;
    let large = format!(r#"{{"source":"a","payload":"{}"}}"#, "x".repeat(2_000));
    let reply = office.post_json("/api/v1/letters", &large).await;
    assert_eq!(reply.problem(), (429, "overloaded".to_string()));
    assert_eq!(office.post_lines(large.as_bytes()).await.problem(), (429, "overloaded".to_string()));
    // Room is given back, by those who were refused and by those who were stored.
    for n in 0..20 {
        let small = format!(r#"{{"source":"a","offset":{n},"payload":"{}"}}"#, "x".repeat(500));
        office.letter(&small).await;
        assert_eq!(office.post_lines(small.as_bytes()).await.json()["duplicate"], 1);
    }
}

#[tokio::test]
async fn more_words_of_consumers_than_there_can_be_are_refused_with_the_bound() {
    let office = Office::open().await;
    let word = |name: &str| format!(r#"{{"queue":"{name}","consumer":"c","instance":"1","halted":"x"}}"#);
    let body = |words: Vec<String>| format!("{{\"consumers\":[{}]}}", words.join(","));
    let many = office.post_json("/api/v1/consumers", &body(vec![word("q"); 101])).await;
    assert_eq!((many.status, &many.json()["code"]), (422, &"too_many".into()));
    let long = office.post_json("/api/v1/consumers", &body(vec![word(&"q".repeat(1_025))])).await;
    assert_eq!((long.status, &long.json()["field"]), (422, &"queue".into()));
    let fine = office.post_json("/api/v1/consumers", &body(vec![word("q"); 100])).await;
    assert_eq!((fine.status, &fine.json()["heard"]), (200, &100.into()));
}
