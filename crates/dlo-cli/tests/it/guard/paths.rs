//! No answer names a file or a directory of the server: every route is asked wrongly, and asked while the database is
//! damaged and the scratch directory is gone.

use std::path::Path;

use crate::office::{Office, dlo};

/// Parts of paths that an error could name.
fn names_a_path(text: &str, directory: &Path) -> Option<String> {
    let directory = directory.display().to_string();
    let parts = [directory.as_str(), "office.db", "office.lock", "/proc/", "/tmp/", "/usr/", ".rs:"];
    parts.into_iter().find(|part| text.contains(part)).map(str::to_owned)
}

/// Wrong in the query, in the body, in its type; and as a client would ask.
fn variants(method: &str, path: &str) -> Vec<(String, &'static str, &'static str)> {
    let with = |query: &str| format!("{path}{query}");
    if method == "GET" {
        let queries =
            ["", "?nonsense=1", "?limit=x", "?cursor=/etc/passwd", "?q=payload.:", "?q=%2Fetc%2Fpasswd"];
        return queries.iter().map(|query| (with(query), "", "")).collect();
    }
    let json = "application/json";
    let bodies = [
        ("{", json),
        ("{}", json),
        ("{\"reason\":\"x\",\"query\":\"source:orders\",\"dry_run\":false}", json),
        ("{\"ids\":[\"/etc/passwd\"]}", json),
        ("{\"expression\":\".a\",\"query\":\"source:orders\",\"reason\":\"x\",\"dry_run\":false}", json),
        ("{\"classify\":[],\"owners\":[]}", json),
        ("SQLite format 3", "application/octet-stream"),
        ("x", "text/plain"),
    ];
    let query = if path.ends_with("/restore") { "?reason=drill" } else { "" };
    bodies.iter().map(|(body, kind)| (with(query), *body, *kind)).collect()
}

/// How many answers there were, and how many of them were failures of the server.
fn walk(office: &Office, directory: &Path, leaks: &mut Vec<String>) -> (usize, usize) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_recv_body(Some(std::time::Duration::from_secs(2)))
        // A connection whose body was not read is closed behind the answer.
        .max_idle_connections(0)
        .build()
        .into();
    let (mut answers, mut failures) = (0, 0);
    for (method, route) in dlo_server::routes() {
        for id in ["0197f3b0-0000-7000-8000-000000000001", "..%2F..%2Fetc%2Fpasswd"] {
            let path = route.replace("{id}", id).replace("{name}", id);
            for (address, body, kind) in variants(method, &path) {
                let url = format!("{}{address}", office.address);
                let answer = match method {
                    "GET" => agent.get(url).call(),
                    _ => agent.post(url).header("content-type", kind).send(body),
                };
                let mut answer = answer.unwrap();
                let status = answer.status().as_u16();
                answers += 1;
                failures += usize::from(status >= 500);
                if status < 400 {
                    continue;
                }
                // What an error says; a stream that follows is no error.
                let text = answer.body_mut().read_to_string().unwrap();
                if let Some(part) = names_a_path(&text, directory) {
                    leaks.push(format!("{method} {address} {body}: {status} names {part}: {text}"));
                }
            }
        }
    }
    (answers, failures)
}

#[test]
fn no_error_names_a_path_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut command = dlo();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let office = Office::spawn(command, &data);
    office.letter(&serde_json::json!({"source": "orders", "payload": 1, "error_class": "KeyError"}));
    let mut leaks = Vec::new();
    let (wrong, _) = walk(&office, dir.path(), &mut leaks);

    // The database becomes garbage under the running office, and there is no place for scratch files any more.
    let garbage = vec![0xa5_u8; 64 * 1024];
    for entry in std::fs::read_dir(&data).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
            std::fs::write(&path, b"no directory").unwrap();
        } else if path.to_str().is_some_and(|name| name.contains(".db")) {
            use std::os::unix::fs::FileExt;
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&garbage, 0).unwrap();
        }
    }
    let (broken, failures) = walk(&office, dir.path(), &mut leaks);
    assert!(leaks.is_empty(), "{} answers name a path:\n{}", leaks.len(), leaks.join("\n"));
    println!(
        "{wrong} wrong requests, {broken} on a damaged disk with {failures} failures, no path in an error"
    );
    assert!(failures >= 20, "only {failures} answers failed: the damage was not noticed");
}
