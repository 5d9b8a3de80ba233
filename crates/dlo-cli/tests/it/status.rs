//! `dlo status`: what does not work, for people and for scripts.

use std::net::TcpListener;

use crate::office::{Office, run};

#[test]
fn an_office_without_trouble_says_so_and_ends_with_zero() {
    let office = Office::start();
    let said = office.dlo(&["status"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert!(said.out.contains("nothing is wrong") && said.out.contains(&office.address), "{said:?}");
    let status = office.dlo(&["status", "--json"]).json();
    assert_eq!((&status["ok"], &status["troubles"]), (&true.into(), &serde_json::json!([])), "{status:#}");
}

#[test]
fn an_office_that_does_not_answer_has_an_exit_code_of_its_own() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = run(&["status", "--server", &format!("http://{free}")]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("is out of reach"), "{said:?}");
}

#[test]
fn an_office_that_takes_the_question_and_is_silent_does_not_hold_the_command() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let began = std::time::Instant::now();
    let said = run(&["status", "--server", &server]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}
