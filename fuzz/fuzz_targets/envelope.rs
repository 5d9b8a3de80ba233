//! Our headers, written by anyone: decoding never fails, and what was decoded round-trips.
#![no_main]

use bytes::Bytes;
use dlo_core::envelope;
use dlo_core::message::{Headers, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pairs: Vec<(String, Option<Vec<u8>>)>| {
    let mut headers = Headers::new();
    headers.push_text("dlo-version", "1");
    for (name, value) in pairs {
        headers.push(format!("dlo-{name}"), value.map(Bytes::from));
    }
    let _ = envelope::decode_hop(&headers);
    let _ = envelope::replay_mark(&headers);
    if let Some(found) = envelope::decode(&headers) {
        if let Ok(written) = envelope::encode(&Message::default(), &found, 1 << 20) {
            assert_eq!(envelope::decode(&written.headers), Some(found));
        }
    }
});
