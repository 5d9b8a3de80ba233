//! Limits really kill, and neighbours of the letter at fault live on.

use std::time::{Duration, Instant};

use dlo_core::message::{Message, Payload};
use dlo_server::{Facts, RepairError, RepairLimits, Repaired, Repairer, Subject, WorkerCommand};

fn repairer(limits: RepairLimits) -> Repairer {
    let program = env!("CARGO_BIN_EXE_dlo").into();
    Repairer::new(WorkerCommand { program, arguments: vec!["repair-worker".into()] }, limits)
}

fn messages(payloads: &[&str]) -> Vec<Message> {
    let message =
        |payload: &&str| Message { payload: Payload::from(payload.to_string()), ..Message::default() };
    payloads.iter().map(message).collect()
}

fn subjects(messages: &[Message]) -> Vec<Subject<'_>> {
    let facts = Facts { id: "1", source: "orders", ..Facts::default() };
    messages.iter().map(|message| Subject { message, facts }).collect()
}

async fn apply(repairer: &Repairer, expression: &str, payloads: &[&str]) -> Vec<Result<String, String>> {
    let messages = messages(payloads);
    let answers = repairer.apply(expression, &subjects(&messages)).await.unwrap();
    let text = |message: Message| String::from_utf8(message.payload.0.to_vec()).unwrap();
    let answers = answers.into_iter().zip(&messages);
    answers.map(|(answer, original)| Ok(text(answer?.or(original)))).collect()
}

/// An expression that does harm to letters that say so, and counts up in the others.
fn harm(bomb: &str) -> String {
    format!("if .harm then {bomb} else .n += 1 end")
}

const MIXED: [&str; 5] = [r#"{"n":1}"#, r#"{"harm":1}"#, r#"{"n":2}"#, r#"{"harm":2}"#, r#"{"n":3}"#];

async fn neighbours_survive(bomb: &str, said: &str) {
    // The time of a letter is its own, the time of a batch is the clock's: a busy machine must not meet the second first.
    let batch_time = Duration::from_secs(300);
    let repairer = repairer(RepairLimits { batch_time, ..RepairLimits::default() });
    let answers = apply(&repairer, &harm(bomb), &MIXED).await;
    for (at, counted) in [(0, r#"{"n":2}"#), (2, r#"{"n":3}"#), (4, r#"{"n":4}"#)] {
        assert_eq!(answers[at].as_deref(), Ok(counted), "{answers:?}");
    }
    for at in [1, 3] {
        assert!(answers[at].as_ref().is_err_and(|why| why.contains(said)), "{answers:?}");
    }
    // And the office goes on repairing.
    assert_eq!(apply(&repairer, ".n", &[r#"{"n":7}"#]).await, [Ok("7".to_string())]);
}

#[tokio::test]
async fn an_endless_loop_is_killed_and_its_neighbours_survive() {
    neighbours_survive("last(repeat(.))", "took more than 1 s").await;
}

#[tokio::test]
async fn a_memory_bomb_is_killed_and_its_neighbours_survive() {
    neighbours_survive(r#"("x" * 1000000000)"#, "more than 512 MiB").await;
    // This one grows step by step: whichever limit it meets first, it does not live.
    neighbours_survive("[range(1e9)]", "the expression").await;
}

#[tokio::test]
async fn a_stack_that_overflows_is_an_error_of_its_letter() {
    neighbours_survive("def deep: [deep]; deep", "ended its worker").await;
}

#[tokio::test]
async fn an_output_bomb_is_refused() {
    neighbours_survive(r#"(reduce range(40) as $i ("0123456789"; [., .]))"#, "larger than 16777216 bytes")
        .await;
}

#[tokio::test]
async fn a_batch_ends_in_time_even_if_every_letter_is_endless() {
    let repairer = repairer(RepairLimits { batch_time: Duration::from_secs(3), ..RepairLimits::default() });
    let started = Instant::now();
    let payloads = ["1"; 50];
    let answers = apply(&repairer, "last(repeat(.))", &payloads).await;
    assert_eq!(answers.len(), 50);
    assert!(answers.iter().all(Result::is_err));
    assert!(answers[49].as_ref().is_err_and(|why| why.contains("more than 3 s")), "{answers:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_expression_that_is_not_understood_is_refused_before_any_letter() {
    let repairer = repairer(RepairLimits::default());
    let messages = messages(&["1"]);
    match repairer.apply(".a = (", &subjects(&messages)).await {
        Err(RepairError::Expression(bad)) => assert_eq!(bad.at, 6),
        other => panic!("{other:?}"),
    }
    for expression in ["env", "$ENV.PATH", "input", "import \"x\" as x; ."] {
        assert!(
            repairer.check(expression).await.is_err_and(|error| error.to_string().contains("not available"))
        );
    }
    let deep = "(".repeat(16_000);
    assert!(matches!(repairer.check(&deep).await, Err(RepairError::Expression(_))));
    assert!(repairer.check(&"1".repeat(17_000)).await.is_err());
    repairer.check(".").await.unwrap();
}

#[tokio::test]
async fn many_batches_keep_their_order_and_untouched_messages_their_bytes() {
    let repairer = repairer(RepairLimits::default());
    let payloads: Vec<String> = (1..=2_000).map(|n| format!("{{ \"n\" : {n} }}")).collect();
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    let messages = messages(&payloads);
    let answers = repairer.apply("if .n % 2 == 0 then .n *= 10 end", &subjects(&messages)).await.unwrap();
    for (n, answer) in (1..).zip(answers) {
        match answer.unwrap() {
            Repaired::Same => assert_eq!(n % 2, 1),
            Repaired::Changed(message) => assert_eq!(message.payload.0, format!("{{\"n\":{}}}", n * 10)),
        }
    }
}

#[tokio::test]
async fn key_and_headers_are_changed_and_the_others_stay() {
    let mut message =
        Message { key: Some(Payload::from("old")), payload: Payload::from("{}"), ..Message::default() };
    for (name, value) in [("a", "1"), ("X-Tenant", "us"), ("b", "2"), ("x-tenant", "de")] {
        message.headers.push_text(name, value);
    }
    let expression = r#".key = $key | .was = $headers["x-tenant"] | .source = $letter.source
        | set_key(null) | set_header("x-tenant"; "eu") | drop_header("b")"#;
    let answers = repairer(RepairLimits::default()).apply(expression, &subjects(&[message])).await.unwrap();
    let repaired = match answers.into_iter().next().unwrap().unwrap() {
        Repaired::Changed(message) => message,
        Repaired::Same => panic!("nothing changed"),
    };
    assert_eq!(repaired.payload.0, r#"{"key":"old","was":"de","source":"orders"}"#);
    assert_eq!(repaired.key, None);
    let headers: Vec<_> =
        repaired.headers.iter().map(|header| (header.name.as_str(), header.text())).collect();
    assert_eq!(headers, [("a", Some("1")), ("x-tenant", Some("eu"))]);
}

#[tokio::test]
async fn a_worker_that_does_not_start_is_no_fault_of_the_letters() {
    let command = WorkerCommand { program: "/nonexistent/dlo".into(), arguments: Vec::new() };
    let repairer = Repairer::new(command, RepairLimits::default());
    assert!(matches!(repairer.check(".").await, Err(RepairError::Worker(_))));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worker_has_no_environment_no_files_and_no_room_to_grow() {
    use std::process::Stdio;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_dlo"))
        .arg("repair-worker")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let proc = format!("/proc/{}", child.id());
    let deadline = Instant::now() + Duration::from_secs(20);
    let limits = loop {
        let limits = std::fs::read_to_string(format!("{proc}/limits")).unwrap();
        // The last one that is set.
        if limits.lines().any(|line| line.starts_with("Max open files") && line.contains(" 3 ")) {
            break limits;
        }
        assert!(Instant::now() < deadline, "{limits}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let of = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_string();
    assert!(of("Max address space").contains(&(512 * 1024 * 1024).to_string()));
    assert!(of("Max core file size").contains(" 0 ") && of("Max file size").contains(" 0 "));
    assert_eq!(std::fs::read(format!("{proc}/environ")).unwrap(), b"");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "it ends with its office");
}
