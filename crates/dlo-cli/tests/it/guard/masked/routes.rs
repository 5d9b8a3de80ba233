//! Every route of the route table is asked while every field holds a secret. A route without a probe fails the test, so a
//! new route cannot be forgotten.

use std::io::Read;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::plant::{MARK, ask, leak, letter, office, payload, twice};
use crate::office::Office;

/// A backup is a copy of everything, by intent: who may take one may see all.
const WHOLE_COPY: &str = "/api/v1/backup";

/// What is there to ask about.
struct Planted {
    office: Office,
    _dir: tempfile::TempDir,
    letter: String,
    spare: Vec<String>,
    group: String,
    replay: String,
}

fn secret(field: &str) -> String {
    format!("{MARK}{field}")
}

impl Planted {
    fn new() -> Self {
        let (office, dir) = office();
        let letter_id = office.letter(&letter(1, &payload()));
        let spare = (2..8).map(|offset| office.letter(&letter(offset, &twice()))).collect();
        let group =
            office.get(&format!("/api/v1/letters/{letter_id}"))["group_id"].as_str().unwrap().to_owned();
        let mut planted = Self { office, _dir: dir, letter: letter_id, spare, group, replay: String::new() };
        let plan = planted.plan(&planted.spare[0].clone());
        planted.replay = plan;
        planted
    }

    fn plan(&self, letter: &str) -> String {
        let asked = json!({"ids": [letter], "reason": secret("replay_reason"), "repair": format!(".x = \"{MARK}expression\"")});
        let (status, text) = ask(&self.office, "POST", "/api/v1/replays", Some(&asked));
        let plan: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status, 201, "{text}");
        plan["id"].as_str().unwrap().to_owned()
    }

    /// The body of a `POST` that succeeds, or at least is understood.
    fn body(&self, path: &str) -> Option<Value> {
        let reason = secret("reason");
        Some(match path {
            "/api/v1/letters" => letter(100, &payload()),
            "/api/v1/letters/discard" => json!({"ids": [self.spare[1]], "reason": reason, "dry_run": false}),
            "/api/v1/letters/compensate" => {
                json!({"ids": [self.spare[2]], "reason": reason, "reference": secret("reference"), "dry_run": false})
            }
            "/api/v1/repairs" => {
                json!({"ids": [self.letter], "expression": ".leak = .card", "reason": reason, "dry_run": false})
            }
            "/api/v1/repairs/preview" => json!({"ids": [self.letter], "expression": ".leak = .card"}),
            "/api/v1/replays" => json!({"ids": [self.spare[3]], "reason": reason}),
            "/api/v1/replays/{id}/pace" => json!({"rate": 5.0}),
            "/api/v1/replays/{id}/settle" => json!({"outcome": "open", "reason": reason}),
            "/api/v1/receipts" => {
                json!({"receipts": [{"replay_id": secret("receipt"), "letter": self.letter}]})
            }
            "/api/v1/consumers" => {
                json!({"source": "orders", "consumer": secret("consumer"), "state": "running"})
            }
            "/api/v1/groups/change" => json!({"ids": [self.group], "do": "acknowledge", "reason": reason}),
            "/api/v1/groups/{id}/fix" => json!({"reason": reason}),
            "/api/v1/groups/{id}/resolve" => json!({"version": secret("resolved_in"), "reason": reason}),
            "/api/v1/groups/{id}/snooze" => json!({"letters": 5, "reason": reason}),
            "/api/v1/groups/{id}/assign" => json!({"to": "jane", "reason": reason}),
            "/api/v1/groups/{id}/own" => json!({"team": "payments", "reason": reason}),
            "/api/v1/groups/{id}/note" => json!({"text": secret("group_note")}),
            "/api/v1/groups/{id}/link" => {
                json!({"title": secret("link_title"), "url": format!("https://example.com/{MARK}url")})
            }
            "/api/v1/groups/{id}/unlink" => json!({"number": 99}),
            "/api/v1/groups/{id}/runbook" => json!({"text": secret("runbook"), "version": 0}),
            "/api/v1/groups/{id}/merge" => json!({"groups": [self.group], "reason": reason}),
            "/api/v1/groups/{id}/split" => {
                json!({"where": "payload.n:1", "title": secret("title"), "reason": reason})
            }
            "/api/v1/deploys" => json!({
                "version": secret("deploy_version"), "consumer": secret("consumer"),
                "url": format!("https://example.com/{MARK}deploy_url"), "reason": reason,
            }),
            "/api/v1/views" => {
                json!({"name": secret("view"), "of": "letters", "query": secret("query"), "shared": true})
            }
            "/api/v1/views/remove" => json!({"name": "nothing", "of": "letters"}),
            "/api/v1/rules/test" => json!({"owners": [{"when": {"queue": "orders"}, "owner": "crm"}]}),
            "/api/v1/rules/test-automation" => {
                json!({"automation": [{"name": "mine", "query": "source:orders", "action": "discard"}]})
            }
            "/api/v1/audit/verify"
            | "/api/v1/groups/{id}/acknowledge"
            | "/api/v1/groups/{id}/ignore"
            | "/api/v1/groups/{id}/reopen"
            | "/api/v1/groups/{id}/unsplit"
            | "/api/v1/replays/{id}/start"
            | "/api/v1/replays/{id}/pause"
            | "/api/v1/replays/{id}/resume"
            | "/api/v1/replays/{id}/cancel"
            | "/api/v1/replays/{id}/approve"
            | "/api/v1/restore" => Value::Null,
            _ => return None,
        })
    }

    /// Addresses to read; none: the route has no probe.
    fn reads(&self, path: &str) -> Vec<String> {
        let found: &[&str] = match path {
            "/api/v1/letters" => &["", "?q=status:open&limit=2", "?q=payload.card:1"],
            "/api/v1/letters/count" => &["", "?q=payload.n:1", "?q=payload.card:1"],
            "/api/v1/complete" => {
                &["?q=class:", "?q=type:", "?q=consumer:", "?q=SECRET", "?q=payload.card:x"]
            }
            "/api/v1/groups" => &["", "?text=orders", "?order=most_open", "?status=new,acknowledged"],
            "/api/v1/events" => &["?replay={replay}"],
            "/letters/{id}" => &["", "?payload=show", "?payload=show&view=raw", "?payload=show&view=hex"],
            "/groups/{id}" => &["", "?look=payloads"],
            "/letters" => &["", "?q=payload.n:1", "?q=payload.card:1"],
            "/replays/new" => &["?q=status:open", "?came_back_from={replay}", "?ids={id}"],
            "/audit" | "/api/v1/audit" => &["", "?what=discard", "?what=compensate"],
            "/api/v1/letters/export"
            | "/api/v1/letters/{id}"
            | "/api/v1/letters/{id}/payload"
            | "/api/v1/letters/{id}/timeline"
            | "/api/v1/letters/{id}/repairs"
            | "/api/v1/replays"
            | "/api/v1/replays/{id}"
            | "/api/v1/replays/{id}/items"
            | "/api/v1/replays/{id}/doubts"
            | "/api/v1/openapi.json"
            | "/healthz"
            | "/readyz"
            | "/metrics"
            | "/api/v1/groups/{id}"
            | "/api/v1/groups/{id}/trend"
            | "/api/v1/groups/{id}/sample"
            | "/api/v1/groups/{id}/runbook"
            | "/api/v1/owners"
            | "/api/v1/deploys"
            | "/api/v1/views"
            | "/api/v1/sources"
            | "/api/v1/status"
            | "/banner"
            | "/api/v1/stats"
            | "/api/v1/stats/causes"
            | "/api/v1/stats/trend"
            | "/api/v1/stats/ages"
            | "/api/v1/rules"
            | "/"
            | "/groups"
            | "/replays"
            | "/replays/{id}"
            | "/sources"
            | "/sources/{name}"
            | "/rules"
            | "/owners"
            | "/assets/{name}" => &[""],
            _ => &[],
        };
        found.iter().map(|query| self.address(path, &format!("{path}{query}"))).collect()
    }

    fn address(&self, path: &str, address: &str) -> String {
        let id = match path {
            path if path.contains("/replays/{id}") => &self.replay,
            path if path.contains("/groups/{id}") => &self.group,
            _ => &self.letter,
        };
        let name = if path.starts_with("/assets") { "dlo.css" } else { "orders" };
        address.replace("{replay}", &self.replay).replace("{id}", id).replace("{name}", name)
    }
}

/// What an export holds beside its text: payloads as base64.
fn opened(text: &str) -> String {
    let mut all = text.to_owned();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if let Some(payload) = line["payload_base64"].as_str() {
            all.push_str(&String::from_utf8_lossy(&STANDARD.decode(payload).unwrap()));
        }
    }
    all
}

/// The first events of a stream, for a moment.
fn events(office: &Office, path: &str) -> (u16, String) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_recv_body(Some(Duration::from_secs(3))).build().into();
    let mut answer = agent.get(format!("{}{path}", office.address)).call().unwrap();
    let mut text = Vec::new();
    let mut reader = answer.body_mut().as_reader();
    let begun = Instant::now();
    let mut piece = [0; 4096];
    while begun.elapsed() < Duration::from_secs(2) && text.is_empty() {
        match reader.read(&mut piece) {
            Ok(read) if read > 0 => text.extend_from_slice(&piece[..read]),
            _ => break,
        }
    }
    (answer.status().as_u16(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn no_route_shows_a_masked_value() {
    let planted = Planted::new();
    let routes = dlo_server::routes();
    let (mut asked, mut masked, mut missing) = (0, 0, Vec::new());
    let mut leaks = Vec::new();
    // What is written first is what the routes that read show afterwards.
    for (method, path) in routes.iter().filter(|(method, _)| *method == "POST") {
        if *path == WHOLE_COPY {
            continue;
        }
        let Some(body) = planted.body(path) else {
            missing.push(format!("{method} {path}"));
            continue;
        };
        let address = planted.address(path, path);
        let (status, text) =
            ask(&planted.office, method, &address, Some(&body).filter(|body| !body.is_null()));
        asked += 1;
        masked += usize::from(text.contains("***"));
        assert!(status < 500, "{method} {address}: {status} {text}");
        leaks.extend(leak(&text).map(|leak| format!("{method} {path}: {leak} in {status} {text}")));
    }
    for (method, path) in routes.iter().filter(|(method, _)| *method == "GET") {
        let addresses = planted.reads(path);
        if addresses.is_empty() {
            missing.push(format!("{method} {path}"));
        }
        for address in addresses {
            let (status, text) = match *path {
                "/api/v1/events" => events(&planted.office, &address),
                _ => ask(&planted.office, method, &address, None),
            };
            asked += 1;
            masked += usize::from(text.contains("***"));
            assert!(matches!(status, 200 | 404), "{method} {address}: {status} {text}");
            // The rules themselves are shown, the expression among them.
            let text = text.replace("SECRET-[0-9a-z_]+", "(the rule)");
            leaks.extend(leak(&opened(&text)).map(|leak| {
                let at = text.find(&leak).unwrap_or(0);
                let near: String = text[at.saturating_sub(120)..].chars().take(240).collect();
                format!("{method} {address}: {leak} near {near}")
            }));
        }
    }
    let log = planted.office.end();
    leaks.extend(leak(&log).map(|leak| format!("the log: {leak} in {log}")));
    assert_eq!(missing, Vec::<String>::new(), "routes without a probe");
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
    println!("{} routes, {asked} requests, {masked} answers with a mask, no masked value", routes.len());
    assert!(masked >= 30, "only {masked} answers had something to mask");
}

#[test]
fn no_command_shows_a_masked_value() {
    let planted = Planted::new();
    let (letter, group, replay) = (&planted.letter, &planted.group, &planted.replay);
    let applied = ["repair", "apply", letter, "--jq", ".leak = .card", "--reason", "move it", "--yes"];
    let commands: [&[&str]; 22] = [
        &applied,
        &["letters", "list"],
        &["letters", "list", "--json"],
        &["letters", "show", letter],
        &["letters", "show", letter, "--json"],
        &["letters", "payload", letter],
        &["letters", "export"],
        &["export", "prometheus-rules"],
        &["groups", "list"],
        &["groups", "list", "--json"],
        &["groups", "show", group],
        &["groups", "show", group, "--json"],
        &["repair", "preview", letter, "--jq", ".leak = .card"],
        &["repair", "list", letter],
        &["replay", "list"],
        &["replay", "show", replay],
        &["replay", "show", replay, "--json"],
        &["replay", "items", replay],
        &["owners", "list"],
        &["deploy", "list"],
        &["audit", "list"],
        &["audit", "list", "--json"],
    ];
    let mut masked = 0;
    for command in &commands {
        let said = planted.office.dlo(command);
        let text = format!("{}\n{}", opened(&said.out), said.err);
        assert_eq!(leak(&text), None, "dlo {}: {text}", command.join(" "));
        masked += usize::from(text.contains("***"));
    }
    println!("{} commands, {masked} with a mask, no masked value", commands.len());
    assert!(masked >= 12, "only {masked} commands had something to mask");
}
