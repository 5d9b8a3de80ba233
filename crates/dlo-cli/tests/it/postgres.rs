//! Offices on PostgreSQL: several share one database, and the commands do not see a difference.

use dlo_testkit::harness::postgres::Postgres;
use serde_json::json;

use crate::office::{Office, Said, dlo};

fn on(url: &str) -> Office {
    let mut command = dlo();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("DLO_DATABASE", url);
    Office::spawn(command, std::path::Path::new("none"))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_offices_share_one_database() {
    let database = Postgres::shared().await.database().await;
    let (first, second) = (on(&database.url), on(&database.url));
    let letter = json!({"source": "orders", "queue": "orders", "offset": 1, "payload": {"order": 1}});
    let id = first.letter(&letter);
    assert_eq!(second.post(&letter)["results"], json!([{"status": "duplicate", "id": id}]));
    assert_eq!(second.dlo(&["letters", "payload", &id]).ok(), "{\"order\":1}");
    second.dlo(&["letters", "discard", &id, "--reason", "test", "--yes"]).ok();
    assert_eq!(first.dlo(&["letters", "show", &id, "--json"]).json()["status"], "discarded");
    assert!(first.dlo(&["audit", "verify"]).ok().contains("conservation holds for 1 letter"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_tells_whether_the_database_answers_and_never_its_password() {
    let database = Postgres::shared().await.database().await;
    let dir = tempfile::tempdir().unwrap();
    let check = |url: &str| {
        let text = format!("[server]\nlisten = \"127.0.0.1:0\"\ndatabase = \"{url}\"\n");
        std::fs::write(dir.path().join("dlo.toml"), text).unwrap();
        let mut command = dlo();
        Said::new(
            &command
                .args(["check", "--server", "http://127.0.0.1:1"])
                .current_dir(dir.path())
                .output()
                .unwrap(),
        )
    };
    let fine = check(&database.url);
    assert!(fine.out.contains("✓ store") && fine.out.contains("answers and can write"), "{fine:?}");
    let gone = check("postgres://dlo:hunter2@127.0.0.1:1/office");
    assert_eq!(gone.code, 1, "{gone:?}");
    assert!(gone.out.contains("✗ store    postgres://dlo@127.0.0.1:1/office"), "{gone:?}");
    assert!(!gone.out.contains("hunter2") && !gone.err.contains("hunter2"), "{gone:?}");
}
