//! What goes in comes out byte for byte, as far as the broker says it does.

use ::bytes::Bytes;
use dlo_core::broker::{PublishError, Settlement};
use dlo_core::message::{Header, Headers, Message, Payload};

use super::{Bench, Lab};

async fn round_trip(bench: &Bench<'_>, message: Message) -> Message {
    let mut source = bench.join("g").await;
    bench.publish(vec![message]).await;
    let came = bench.receive(&mut source, 1).await;
    let message = came[0].message.clone();
    // Settled, so that the next one of the same queue is not met by this one again.
    super::settle(&*source, came, Settlement::Done).await;
    message
}

fn every_byte() -> Bytes {
    (0..=255).collect::<Vec<u8>>().into()
}

pub async fn payload_and_key_arrive_byte_for_byte(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let sent = Message {
        key: Some(Payload(Bytes::from_static(b"k\x00\xff\xfe"))),
        headers: Headers::new(),
        payload: Payload(every_byte()),
    };
    let came = round_trip(&bench, sent.clone()).await;
    assert_eq!((came.payload.0, came.key), (sent.payload.0, sent.key));
}

pub async fn an_empty_payload_and_one_of_a_megabyte_arrive(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let large: Bytes =
        (0..1_048_576_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>().into();
    let room = bench.capabilities().max_message;
    for payload in [Bytes::new(), large.slice(..large.len().min(room - room / 16))] {
        let sent = Message { payload: Payload(payload), ..Message::default() };
        assert!(round_trip(&bench, sent.clone()).await.payload.0 == sent.payload.0, "the payload changed");
    }
}

pub async fn text_headers_arrive(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut sent = Message { payload: "m".into(), ..Message::default() };
    sent.headers.push_text("x-tenant", "acme");
    sent.headers.push_text("x-place", "Zürich, 東京");
    let came = round_trip(&bench, sent).await;
    assert_eq!(came.headers.text("x-tenant"), Some("acme"));
    assert_eq!(came.headers.text("x-place"), Some("Zürich, 東京"));
}

/// Each rule both ways: what is declared survives whole, and what is not declared does not happen to survive.
pub async fn headers_survive_as_declared(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let rules = bench.capabilities().headers;
    let header = |name: &str, value: Option<&'static [u8]>| Header {
        name: name.to_owned(),
        value: value.map(Bytes::from_static),
    };
    let cases = [
        ("binary values", rules.binary_values, vec![header("b", Some(b"\x00\xff\xfe\n"))]),
        ("repeated names", rules.repeated_names, vec![header("r", Some(b"1")), header("r", Some(b"2"))]),
        ("absent values", rules.absent_values, vec![header("a", None), header("e", Some(b""))]),
        (
            "order",
            rules.keeps_order,
            vec![
                header("z", Some(b"1")),
                header("a", Some(b"2")),
                header("m", Some(b"3")),
                header("b", Some(b"4")),
            ],
        ),
    ];
    for (what, declared, headers) in cases {
        let sent = Message { headers: Headers(headers), payload: "m".into(), key: None };
        let mut source = bench.join("g").await;
        let result = bench.broker.publisher().publish(vec![bench.outgoing(sent.clone())]).await.remove(0);
        let survived = match result {
            Ok(_) => {
                let came = bench.receive(&mut source, 1).await;
                let survived = wire(came[0].message.headers.clone()) == sent.headers;
                // The next case begins with an empty queue.
                super::settle(&*source, came, Settlement::Done).await;
                survived
            }
            Err(PublishError::Refused(_)) => false,
            Err(other) => panic!("{what}: {other}"),
        };
        assert_eq!(survived, declared, "{what}: survived {survived}, declared {declared}");
    }
}

/// What was a header on the wire: facts of the transport are not what is asked here.
fn wire(headers: Headers) -> Headers {
    Headers(headers.on_wire().cloned().collect())
}

pub async fn what_is_too_large_is_refused_with_its_size(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let limit = bench.capabilities().max_message;
    let sent = Message { payload: Payload(vec![7; limit + 1].into()), ..Message::default() };
    let small = Message { payload: "small".into(), ..Message::default() };
    let outgoing = vec![bench.outgoing(sent), bench.outgoing(small)];
    let results = bench.broker.publisher().publish(outgoing).await;
    assert!(
        matches!(results[0], Err(PublishError::TooLarge { size, limit: said }) if size > limit && said == limit),
        "{:?}",
        results[0]
    );
    assert!(results[1].is_ok(), "its neighbour is not to blame");
}
