//! Files of large letters: who may read them, and what a crash or a full disk leaves.

use dlo_core::envelope::{OriginHeaders, death_mark};
use dlo_core::id::DeathId;
use dlo_core::message::{Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

const ROOMY: ByteSize = ByteSize(1_000);

#[test]
fn files_and_directories_can_be_read_by_their_owner_only() {
    let home = TempDir::new().unwrap();
    let directory = home.path().join("state/orders/large");
    write(&directory, &directory.join("1.json"), b"letter", ROOMY).unwrap();
    private::assert_private(home.path());
}

#[test]
fn what_a_crash_left_unfinished_takes_no_room_and_what_another_process_writes_stays() {
    let home = TempDir::new().unwrap();
    let (left, foreign) = (home.path().join("1.part"), home.path().join("2.part"));
    fs::write(&left, [0; 900]).unwrap();
    fs::write(&foreign, [0; 100]).unwrap();
    let writer = File::open(&foreign).unwrap();
    writer.try_lock().unwrap();
    write(home.path(), &home.path().join("3.json"), &[0; 900], ROOMY).unwrap();
    assert!(!left.exists() && foreign.exists());
    let full = write(home.path(), &home.path().join("4.json"), b"x", ROOMY).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    write(home.path(), &home.path().join("3.json"), &[1; 900], ROOMY).unwrap();
}

#[test]
fn a_file_that_cannot_get_its_name_leaves_nothing_unfinished() {
    let home = TempDir::new().unwrap();
    let taken = home.path().join("1.json");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("other"), "").unwrap();
    write(home.path(), &taken, b"letter", ByteSize(1_000_000)).unwrap_err();
    assert_eq!(files(home.path()), [taken]);
}

#[tokio::test]
async fn every_try_writes_the_same_file_and_says_that_it_may_be_a_copy() {
    let home = TempDir::new().unwrap();
    let store = LargeStore::new("orders", None, home.path(), ByteSize(1_000_000));
    let message = Message { payload: Payload::from("{}"), ..Message::default() };
    let origin = Origin { offset: None, ..Origin::log(BrokerKind::Rabbitmq, "orders", 0, 0) };
    let id = DeathId(Uuid::from_u128(7));
    let origin = OriginHeaders::new(&Origin { partition: None, ..origin }, None);
    let envelope = Envelope { death_id: Some(id), redelivered: true, origin, ..Envelope::default() };
    let letter = LargeLetter { message: &message, envelope: &envelope, name: "1-2" };
    for _try in 0..2 {
        assert_eq!(store.keep(letter).await, Ok(Kept::OnDisk("1-2.json".to_owned())));
    }
    assert_eq!(files(home.path()), [home.path().join("1-2.json")]);
    let document: Value = serde_json::from_slice(&fs::read(home.path().join("1-2.json")).unwrap()).unwrap();
    assert_eq!(document["payload_base64"], STANDARD.encode("{}"));
    let mut headers = Headers::new();
    for header in document["headers"].as_array().unwrap() {
        headers.push_text(header[0].as_str().unwrap(), header[1].as_str().unwrap());
    }
    let mark = death_mark(&headers).unwrap();
    assert_eq!((mark.id, mark.redelivered), (id, true));
}

#[test]
fn a_letter_with_as_many_headers_as_the_office_takes_is_posted_without_the_mark() {
    let envelope = Envelope { death_id: Some(DeathId(Uuid::from_u128(7))), ..Envelope::default() };
    let mut full = Headers::new();
    (0..limits::HEADERS).for_each(|_| full.push_text("h", "x"));
    assert_eq!(headers(&full, &envelope).len(), limits::HEADERS);
}
