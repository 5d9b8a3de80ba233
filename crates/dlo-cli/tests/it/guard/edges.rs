//! Small openings: a second `Origin`, the content type of a download, a path that is no text, the sidecar's port.

use serde_json::json;

use crate::office::{Office, Said, dlo};

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

#[test]
fn a_download_has_none_of_the_content_types_that_a_browser_runs() {
    let office = Office::start();
    let script = "<script>alert(1)</script>";
    for (offset, kind) in ["text/html", "image/svg+xml", "application/xhtml+xml"].into_iter().enumerate() {
        let answer = office.post(&json!({
            "source": "orders", "offset": offset, "partition": 0, "queue": "orders", "payload": script, "content_type": kind,
            "error_class": "KeyError",
        }));
        let id = answer["results"][0]["id"].as_str().or(answer["id"].as_str()).unwrap().to_owned();
        let reply = agent().get(format!("{}/api/v1/letters/{id}/payload", office.address)).call().unwrap();
        assert_eq!(reply.headers()["content-type"], "text/plain; charset=utf-8", "{kind}");
        assert!(reply.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"));
    }
}

#[test]
fn a_second_origin_is_refused() {
    let office = Office::start();
    let own = &office.address;
    for origins in [[own.as_str(), "https://evil.example"], ["https://evil.example", own.as_str()]] {
        let mut request = agent().get(format!("{own}/api/v1/stats"));
        for origin in origins {
            request = request.header("origin", origin);
        }
        let mut reply = request.call().unwrap();
        assert_eq!(reply.status(), 403, "{origins:?}");
        let problem: serde_json::Value = reply.body_mut().read_json().unwrap();
        assert_eq!(problem["code"], "foreign_origin", "{problem}");
    }
}

#[test]
fn a_path_that_is_no_text_is_answered_by_a_problem_as_every_error() {
    let office = Office::start();
    for path in ["/sources/%FF", "/assets/%FF", "/api/v1/letters/%FF", "/letters/%FF", "/%FF"] {
        let reply = agent()
            .get(format!("{}{path}", office.address))
            .header("accept", "application/json")
            .call()
            .unwrap();
        assert!(matches!(reply.status().as_u16(), 400 | 404), "{path}: {}", reply.status());
        let kind = reply.headers()["content-type"].to_str().unwrap().to_owned();
        // Pages are answered by a page.
        assert!(
            kind == "application/problem+json"
                || path.starts_with("/letters") && kind.starts_with("text/html"),
            "{path}: {kind}"
        );
    }
}

const CONSUMER: &str = "[brokers.shop]\nkind = \"memory\"\n[[consumers]]\nbroker = \"shop\"\nqueue = \"orders\"\n\
                        group = \"pricing\"\nhandler = \"http://127.0.0.1:9/\"\n[consume]\nlisten = \"0.0.0.0:0\"\n";

#[test]
fn the_sidecar_answers_other_machines_only_with_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, CONSUMER).unwrap();
    let refused = Said::new(&dlo().arg("consume").current_dir(dir.path()).output().unwrap());
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("`token_file` under [consume]"), "{refused:?}");

    std::fs::write(&file, format!("{CONSUMER}token = \"0123456789abcdef\"\n")).unwrap();
    let mut command = dlo();
    command.arg("consume").current_dir(dir.path());
    let sidecar = Office::spawn(command, dir.path());
    let address = sidecar.address.replace("0.0.0.0", "127.0.0.1");
    let ask = |path: &str, token: Option<&str>| {
        let mut request = agent().get(format!("{address}{path}"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().unwrap().status().as_u16()
    };
    assert_eq!((ask("/healthz", None), ask("/readyz", None)), (200, 503));
    for path in ["/status", "/metrics"] {
        assert_eq!((ask(path, None), ask(path, Some("0123456789abcdeX"))), (401, 401), "{path}");
        assert_eq!(ask(path, Some("0123456789abcdef")), 200, "{path}");
    }
}
