//! Known bytes become known text, and no bytes at all make a decoder fail, loop or write without end.

use proptest::prelude::*;

use super::*;

fn shown(bytes: &[u8], kind: &str) -> Shown {
    let hint = Hint { content_type: Some(kind.to_string()), ..Hint::default() };
    show(bytes, &hint, &Formats::default())
}

fn by(format: Format, bytes: &[u8]) -> Shown {
    let mut formats = Formats::default();
    formats.of_source("orders", format);
    show(bytes, &Hint { source: "orders".to_string(), ..Hint::default() }, &formats)
}

/// Without its line breaks.
fn flat(shown: &Shown) -> String {
    shown.text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn json_keeps_every_digit_and_text_stays_text() {
    let shown = show(br#"{"id":12345678901234567890123}"#, &Hint::default(), &Formats::default());
    assert_eq!(shown.text, "{\n  \"id\": 12345678901234567890123\n}");
    assert_eq!(show("grüße".as_bytes(), &Hint::default(), &Formats::default()).how, "text");
    assert_eq!(show(b"", &Hint::default(), &Formats::default()).text, "");
}

#[test]
fn messagepack_is_read_by_its_type_and_guessed_from_its_bytes() {
    // {"a": -1, "big": 2^64-1, "list": [nil, true, 1.5], "raw": h'00ff', "at": a time}
    let bytes = b"\x85\xa1a\xff\xa3big\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa4list\x93\xc0\xc3\xcb\x3f\xf8\0\0\0\0\0\0\xa3raw\xc4\x02\0\xff\xa2at\xd6\xff\0\0\0\x01";
    let expected = r#"{ "a": -1, "big": 18446744073709551615, "list": [ null, true, 1.5 ], "raw": h'00ff', "at": 1970-01-01T00:00:01Z }"#;
    assert_eq!(flat(&shown(bytes, "application/x-msgpack")), expected);
    let guessed = show(bytes, &Hint::default(), &Formats::default());
    assert_eq!(
        (flat(&guessed).as_str(), guessed.how.as_str()),
        (expected, "MessagePack, guessed from its bytes")
    );
}

#[test]
fn cbor_is_written_as_its_diagnostic_notation() {
    // {"a": -18446744073709551616, "b": h'0102', "c": [_ 1, 1.0], 2: 1(0), "t": (_ "x", "y")} from RFC 8949's examples.
    let bytes = b"\xa5aa\x3b\xff\xff\xff\xff\xff\xff\xff\xffab\x42\x01\x02ac\x9f\x01\xf9\x3c\0\xff\x02\xc1\0at\x7fax\x61y\xff";
    let expected =
        r#"{ "a": -18446744073709551616, "b": h'0102', "c": [ 1, 1.0 ], 2: 1(0), "t": (_ "x", "y") }"#;
    assert_eq!(flat(&shown(bytes, "application/cbor")), expected);
    let halves = [(0x3c00_u16, "1.0"), (0x0001, "5.960464477539063e-8"), (0xc400, "-4.0"), (0x7c00, "inf")];
    for (bits, text) in halves {
        let [high, low] = bits.to_be_bytes();
        assert_eq!(shown(&[0xf9, high, low], "application/cbor").text, text);
    }
}

/// `message Order { string id = 1; sint64 cents = 2; repeated int32 lines = 3; Kind kind = 4; Item item = 5; message Item { bool gift = 1; } }`
/// in the package `shop`, with `enum Kind { NONE = 0; PAID = 1; }`.
fn descriptor() -> Vec<u8> {
    fn bytes(number: u8, value: &[u8]) -> Vec<u8> {
        let length = u8::try_from(value.len() % 128).unwrap();
        let length = match u8::try_from(value.len() / 128).unwrap() {
            0 => vec![length],
            high => vec![length | 0x80, high],
        };
        [&[number << 3 | 2], length.as_slice(), value].concat()
    }
    fn varint(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }
    fn field(name: &str, number: u8, kind: u8, type_name: &str) -> Vec<u8> {
        let mut all = [bytes(1, name.as_bytes()), varint(3, number), varint(5, kind)].concat();
        if !type_name.is_empty() {
            all.extend(bytes(6, type_name.as_bytes()));
        }
        bytes(2, &all)
    }
    let item = [bytes(1, b"Item"), field("gift", 1, 8, "")].concat();
    let order = [
        bytes(1, b"Order"),
        field("id", 1, 9, ""),
        field("cents", 2, 18, ""),
        field("lines", 3, 5, ""),
        field("kind", 4, 14, ".shop.Kind"),
        field("item", 5, 11, ".shop.Order.Item"),
        bytes(3, &item),
    ];
    let value = |name: &[u8], number| bytes(2, &[bytes(1, name), varint(2, number)].concat());
    let kind = [bytes(1, b"Kind"), value(b"NONE", 0), value(b"PAID", 1)].concat();
    bytes(1, &[bytes(2, b"shop"), bytes(4, &order.concat()), bytes(5, &kind)].concat())
}

const ORDER: &[u8] = b"\x0a\x03A-1\x10\xe7\x07\x1a\x03\x01\x02\x03\x20\x01\x2a\x02\x08\x01\x98\x06\x05";

#[test]
fn protobuf_is_read_by_names_with_a_schema_and_by_numbers_without() {
    let format = Format::protobuf(&descriptor()).unwrap();
    let named = r#"{ "id": "A-1", "cents": -500, "lines": [ 1, 2, 3 ], "kind": "PAID", "item": { "gift": true }, 99: 5 }"#;
    let shown = by(format.clone(), ORDER);
    assert_eq!(
        (flat(&shown).as_str(), shown.how.as_str()),
        (named, "Protocol Buffers, shop.Order by its schema")
    );
    // Framed: a zero, schema 7, and the first message, in short and at length.
    for way in [&b"\0\0\0\0\x07\0"[..], b"\0\0\0\0\x07\x02\0"] {
        let shown = by(format.clone(), &[way, ORDER].concat());
        assert_eq!(flat(&shown), named);
        assert!(shown.how.ends_with("framed as schema 7"), "{}", shown.how);
    }
    let inner = by(format, b"\0\0\0\0\x07\x04\0\0\x08\x01");
    assert_eq!(flat(&inner), r#"{ "gift": true }"#);

    let guessed = show(ORDER, &Hint::default(), &Formats::default());
    assert_eq!(flat(&guessed), r#"{ 1: "A-1", 2: 999, 3: h'010203', 4: 1, 5: { 1: 1 }, 99: 5 }"#);
    assert!(guessed.how.contains("no schema is at hand"), "{}", guessed.how);
}

const SCHEMA: &str = r#"{"type":"record","name":"Order","namespace":"shop","fields":[
    {"name":"id","type":"string"},{"name":"cents","type":"long"},
    {"name":"kind","type":{"type":"enum","name":"Kind","symbols":["NONE","PAID"]}},
    {"name":"tags","type":{"type":"map","values":"int"}},
    {"name":"next","type":["null","Order"]}]}"#;

#[test]
fn avro_is_read_by_its_schema_framed_or_not() {
    let format = Format::avro(SCHEMA).unwrap();
    // The inner order: id "B", 0 cents, NONE, no tags, no next.
    let bytes = b"\x02A\xe7\x07\x02\x02\x02x\x0e\0\x02\x02B\0\0\0\0";
    let expected = r#"{ "id": "A", "cents": -500, "kind": "PAID", "tags": { "x": 7 }, "next": { "id": "B", "cents": 0, "kind": "NONE", "tags": {}, "next": null } }"#;
    assert_eq!(flat(&by(format.clone(), bytes)), expected);
    let framed = by(format.clone(), &[b"\0\0\0\x01\0", &bytes[..]].concat());
    assert_eq!(
        (flat(&framed).as_str(), framed.how.as_str()),
        (expected, "Avro by its schema, framed as schema 256")
    );
    // With the wrong schema it is not shown as something that it is not.
    let other = by(format, b"\0\0\0\x01\0\xff\xff\xff\xff");
    assert!(other.how.starts_with("bytes, as hex; it begins as Confluent"), "{}", other.how);
}

#[test]
fn a_schema_that_cannot_be_used_says_why() {
    let said = |text: &str| Format::avro(text).unwrap_err().to_string();
    assert!(said("{").contains("not JSON"));
    assert_eq!(said(r#""Order""#), "it names the type `Order` and does not define it");
    assert_eq!(said(r#"{"type":"array"}"#), "a type `array` has no `items`");
    assert_eq!(said(r#"{"type":"record","name":"R","fields":[{"type":"int"}]}"#), "a field has no `name`");
    assert!(said(&("[".repeat(100) + &"]".repeat(100))).contains("levels"));
    assert!(Format::protobuf(b"\xff").unwrap_err().to_string().contains("no descriptor set"));
    assert!(Format::protobuf(b"").is_err());
}

#[test]
fn a_bomb_is_cut_where_it_grows() {
    // An array of 2^32-1 empty arrays; arrays inside arrays; an Avro array of 2^62 nulls.
    let wide = [b"\xdd\xff\xff\xff\xff".as_slice(), &[0x90; 300_000]].concat();
    let deep = vec![0x91; 100_000];
    for bytes in [&wide, &deep] {
        let shown = shown(bytes, "msgpack");
        assert!(shown.cut && shown.text.len() < TEXT * 2, "{}", shown.text.len());
    }
    let format = Format::avro(r#"{"type":"array","items":"null"}"#).unwrap();
    let nulls = by(format, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f");
    assert!(nulls.cut && nulls.text.len() < TEXT * 2);
    // A type that is nothing but itself.
    let format = Format::avro(r#"{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}"#).unwrap();
    assert!(by(format, b"\x80").cut);
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_fail_or_write_without_end(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in "(msgpack|cbor|json|)", framed in any::<bool>(),
    ) {
        let bytes = if framed { [b"\0\0\0\0\x01".as_slice(), &bytes].concat() } else { bytes };
        for shown in [shown(&bytes, &kind), by(Format::avro(SCHEMA).unwrap(), &bytes), by(Format::protobuf(&descriptor()).unwrap(), &bytes)] {
            prop_assert!(shown.text.len() <= TEXT * 2);
            prop_assert!(!shown.how.is_empty());
        }
    }

    #[test]
    fn no_text_makes_a_schema_fail(text in "[{}\\[\\]\":,a-z]{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Format::avro(&text);
        let _ = Format::protobuf(&bytes);
    }
}
