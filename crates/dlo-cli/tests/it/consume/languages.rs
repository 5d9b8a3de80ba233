//! The handlers of `examples/`, each in its language, with the config that stands beside them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Handler, House, handled};
use crate::office::{Office, dlo};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

/// An order with a price is handled, one without is parked.
async fn prices(program: &str, args: &[&str], queue: &str) {
    if Command::new(program).arg("--help").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "{program} is not installed; `./test` says what to install"
        );
        eprintln!("SKIPPED: {program} is not installed");
        return;
    }
    let house = House::new(queue).await;
    // The example's own config, on this test's queue and ports.
    let text = std::fs::read_to_string(examples().join("dlo.toml")).unwrap();
    let text = text.replace("queue = \"orders\"", &format!("queue = \"{}\"", house.queue));
    std::fs::write(house.file(), format!("{text}\n[consume]\nlisten = \"127.0.0.1:0\"\n")).unwrap();
    let args: Vec<PathBuf> = args
        .iter()
        .map(|arg| if arg.contains('/') { examples().join(arg) } else { PathBuf::from(arg) })
        .collect();
    let _handler = Handler::run(program, &args.iter().map(PathBuf::as_path).collect::<Vec<_>>(), house.port);
    let mut command = dlo();
    command.arg("consume").current_dir(house.dir.path());
    command.env("REDIS_URL", &house.url).env("HANDLER_URL", format!("http://127.0.0.1:{}/", house.port));
    let sidecar = Office::spawn(command, house.dir.path());
    house.send(&[r#"{"order":1,"price":9.5}"#, r#"{"order":2}"#, r#"{"order":3,"price":1}"#]).await;
    let letters = house.dead(1).await;
    assert_eq!(letters[0].payload.0, r#"{"order":2}"#);
    assert_eq!(letters[0].headers.text("dlo-reason"), Some("validation_error"));
    handled(&sidecar, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_python_prices_orders() {
    prices("python3", &["python/handler.py"], "python").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_node_prices_orders() {
    prices("node", &["node/handler.js"], "node").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_go_prices_orders() {
    prices("go", &["run", "go/handler.go"], "go").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_java_prices_orders() {
    prices("java", &["java/Handler.java"], "java").await;
}
