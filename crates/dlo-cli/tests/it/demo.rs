//! `dlo demo`: the story is told to its end, once, and again without a second copy of any letter.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::office::{Office, Said, dlo};

/// Tells a short day on a free port: two orders without a tax rate, one malformed event.
fn demo(data: &Path, more: &[&str]) -> Said {
    demo_of("14000", data, more)
}

fn demo_of(orders: &str, data: &Path, more: &[&str]) -> Said {
    let mut command = dlo();
    command.args(["demo", "--exit", "--orders", orders, "--listen", "127.0.0.1:0", "--data"]).arg(data);
    Said::new(&command.args(more).output().unwrap())
}

fn letters(office: &Office, query: &str) -> Vec<Value> {
    let page = office.dlo(&["letters", "list", query, "--json"]).json();
    page["letters"].as_array().unwrap().clone()
}

#[test]
fn the_demo_parks_what_cannot_be_priced_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let told = demo(dir.path(), &[]);
    let out = told.ok();
    assert!(out.contains("13,997 orders priced"), "{out}");
    assert!(out.contains("3 letters parked") && out.contains("tax-team"), "{out}");
    assert!(out.contains("nothing parked because of it"), "{out}");
    let log = std::fs::read_to_string(dir.path().join("demo.log")).unwrap();
    assert_eq!(log.matches("message.dead_lettered").count(), 3, "{log}");
    let office = Office::at(dir.path(), &[]);
    let untaxed = letters(&office, "class:KeyError");
    assert_eq!(untaxed.len(), 2);
    assert_eq!(untaxed[0]["consumer"], "pricing");
    assert_eq!(untaxed[0]["event_type"], "order.placed");
    let broken = letters(&office, "reason:deserialization_error");
    assert_eq!((broken.len(), &broken[0]["error_class"]), (1, &Value::from("JSONDecodeError")));
    assert_eq!(letters(&office, "status:open").len(), 3, "the outage parked nothing");
    assert_eq!(office.dlo(&["audit", "verify"]).code, 0);
}

#[test]
fn a_second_start_goes_on_with_the_same_letters() {
    let dir = TempDir::new().unwrap();
    demo(dir.path(), &[]).ok();
    let again = demo(dir.path(), &[]).ok();
    assert!(!again.contains("orders priced") && again.contains("KeyError"), "{again}");
    // As after an interruption: the day is told again from its morning, and every letter is recognised.
    std::fs::remove_file(dir.path().join("demo-story.txt")).unwrap();
    assert!(demo(dir.path(), &[]).ok().contains("3 letters parked"));
    let office = Office::at(dir.path(), &[]);
    assert_eq!(letters(&office, "status:open").len(), 3);
}

#[test]
fn a_fresh_start_begins_anew() {
    let dir = TempDir::new().unwrap();
    demo_of("100", dir.path(), &[]).ok();
    let out = demo_of("200", dir.path(), &["--fresh"]).ok();
    assert!(out.contains("199 orders priced"), "{out}");
    let office = Office::at(dir.path(), &[]);
    assert_eq!(letters(&office, "status:open").len(), 1, "the letter of the first day is forgotten");
}

#[test]
fn a_port_that_is_taken_is_said_with_directions() {
    let dir = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = dlo();
    command.args(["demo", "--exit", "--listen", &address, "--data"]).arg(dir.path().join("demo"));
    let said = Said::new(&command.output().unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("is in use") && said.err.contains("--listen 127.0.0.1:"), "{}", said.err);
}
