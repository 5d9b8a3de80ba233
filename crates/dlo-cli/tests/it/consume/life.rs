//! How the sidecar lives: it waits for its handler, survives its end, says how it stands, takes up changes, stops.

use std::process::Command;
use std::time::Duration;

use super::{Handler, House, handled, status, until};
use crate::office::{Said, dlo};

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_starts_later_is_waited_for_and_nothing_is_charged() {
    let house = House::new("late").await;
    house.send(&[r#"{"answers":[204]}"#]).await;
    let sidecar = house.consume("");
    let waiting = until(&sidecar, "it waits", |now| {
        now["state"] == "waiting_for_handler"
            && now["problem"].as_str().is_some_and(|why| why.contains("refused"))
    })
    .await;
    assert_eq!((&waiting["attempts"], &waiting["in_flight"]), (&0.into(), &0.into()), "{waiting:#}");
    let ready = ureq::get(format!("{}/readyz", sidecar.address))
        .config()
        .http_status_as_error(false)
        .build()
        .call()
        .unwrap();
    assert_eq!(ready.status(), 503);
    let _handler = Handler::scripted(house.port);
    let now = handled(&sidecar, 1).await;
    assert_eq!(now["state"], "running");
    assert_eq!(ureq::get(format!("{}/readyz", sidecar.address)).call().unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_over_https_is_spoken_to_only_if_its_authority_is_trusted() {
    let mut house = House::new("secure").await;
    house.scheme = "https";
    let certificate = house.dir.path().join("handler.pem");
    let file = certificate.display().to_string();
    let asked = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=handler -addext subjectAltName=IP:127.0.0.1 \
                 -addext basicConstraints=critical,CA:FALSE";
    let made =
        Command::new("openssl").args(asked.split(' ')).args(["-keyout", &file, "-out", &file]).output();
    let made = made.expect("running openssl (Debian: apt-get install openssl)");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let _handler = Handler::secure(house.port, &certificate);
    house.send(&[r#"{"answers":[204]}"#]).await;
    let stranger = house.consume("");
    let waiting = until(&stranger, "it does not trust it", |now| {
        now["problem"].as_str().is_some_and(|why| why.contains("certificate"))
    })
    .await;
    assert_eq!((&waiting["handled"], &waiting["parked"]), (&0.into(), &0.into()), "{waiting:#}");
    drop(stranger);
    let friend = house.consume_with("", &[("SSL_CERT_FILE", &certificate)]);
    let now = handled(&friend, 1).await;
    assert_eq!((&now["parked"], &now["retried"]), (&0.into(), &0.into()), "{now:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_ends_is_waited_for_and_what_it_missed_is_not_charged() {
    let house = House::new("gone").await;
    let handler = Handler::scripted(house.port);
    let sidecar = house.consume("");
    house.send(&[r#"{"answers":[204]}"#]).await;
    handled(&sidecar, 1).await;
    handler.kill();
    house.send(&[r#"{"id":"a","answers":[204]}"#, r#"{"id":"b","answers":[204]}"#]).await;
    until(&sidecar, "it waits", |now| now["state"] == "waiting_for_handler").await;
    let _handler = Handler::scripted(house.port);
    let now = handled(&sidecar, 3).await;
    assert_eq!((&now["parked"], &now["retried"]), (&0.into(), &0.into()), "{now:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_its_handler_does_not_survive_is_parked_and_its_neighbours_are_not() {
    let house = House::new("poison").await;
    house
        .send(&[
            r#"{"id":"a","answers":[204]}"#,
            r#"{"id":"pill","answers":["crash"]}"#,
            r#"{"id":"b","answers":[204]}"#,
            r#"{"id":"c","answers":[204]}"#,
        ])
        .await;
    let _handler = Handler::supervised(house.port);
    let sidecar = house.consume("");
    let letters = house.dead(1).await;
    assert!(letters[0].payload.0.windows(4).any(|four| four == b"pill"));
    assert_eq!(letters[0].headers.text("dlo-reason"), Some("poison"));
    let now = handled(&sidecar, 3).await;
    assert_eq!((&now["parked"], &now["retried"]), (&1.into(), &0.into()), "{now:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_check_is_asked_before_the_first_message() {
    let house = House::new("health").await;
    house.send(&[r#"{"answers":[204]}"#]).await;
    let _handler = Handler::scripted(house.port);
    // POST is all that the path of the handler knows; its own GET answers 200.
    let sidecar = house.consume(&format!("health = \"http://127.0.0.1:{}/seen\"", house.port));
    handled(&sidecar, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_says_how_it_stands_in_words_that_prometheus_reads() {
    let house = House::new("metrics").await;
    let _handler = Handler::scripted(house.port);
    let sidecar = house.consume("");
    house.send(&[r#"{"answers":[204]}"#, r#"{"answers":[503,204]}"#, r#"{"answers":[422]}"#]).await;
    handled(&sidecar, 2).await;
    until(&sidecar, "one parked", |now| now["parked"] == 1).await;
    let page = ureq::get(format!("{}/metrics", sidecar.address))
        .call()
        .unwrap()
        .body_mut()
        .read_to_string()
        .unwrap();
    let labels = format!("queue=\"{}\",group=\"pricing\"", house.queue);
    for line in [
        format!("dlo_consumer_handled_total{{{labels}}} 2"),
        format!("dlo_consumer_attempts_total{{{labels}}} 4"),
        format!(
            "dlo_consumer_verdicts_total{{{labels},verdict=\"dead_letter\",rule=\"builtin:http_invalid\",class=\"HTTP 422\"}} 1"
        ),
        format!("dlo_consumer_parked_total{{{labels},reason=\"validation_error\"}} 1"),
        format!("dlo_consumer_handler_seconds_count{{{labels}}} 4"),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
    let file = house.dir.path().join("metrics.txt");
    std::fs::write(&file, &page).unwrap();
    crate::prometheus::promtool_reads(&file);
    let health = ureq::get(format!("{}/healthz", sidecar.address)).call().unwrap();
    assert_eq!(health.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_lets_the_handler_finish_and_the_message_is_not_delivered_again() {
    let house = House::new("drained").await;
    let _handler = Handler::scripted(house.port);
    let sidecar = house.consume("");
    house.send(&[r#"{"answers":[204]}"#]).await;
    handled(&sidecar, 1).await;
    sidecar.signal("-TERM");
    let (ended, log) = sidecar.ended();
    assert!(ended.success(), "{ended}: {log}");
    let again = house.consume("");
    house.send(&[r#"{"answers":[204]}"#]).await;
    let now = handled(&again, 1).await;
    assert_eq!(now["attempts"], 1, "{now:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_config_is_taken_up_and_a_wrong_one_is_not() {
    let house = House::new("reload").await;
    let _handler = Handler::scripted(house.port);
    let sidecar = house.consume("");
    until(&sidecar, "it runs", |now| now["state"] == "running").await;
    std::fs::write(house.file(), "[[consumers]]\nhandler = 7\n").unwrap();
    sidecar.signal("-HUP");
    house.send(&[r#"{"id":"a","answers":[500]}"#]).await;
    assert_eq!(house.dead(1).await[0].headers.text("dlo-attempts"), Some("1"), "the old settings still hold");
    house.write("unknown = { verdict = \"retry\", attempts = 2 }");
    sidecar.signal("-HUP");
    // The change is taken up when the consumer has drained: what comes before is decided as before.
    for n in 0.. {
        house.send(&[&format!(r#"{{"id":"{n}","answers":[500]}}"#)]).await;
        if house.dead(1).await[0].headers.text("dlo-attempts") == Some("2") {
            break;
        }
        assert!(n < 100, "the change was not taken up: {:#}", status(&sidecar));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sidecar.signal("-TERM");
    let (_, log) = sidecar.ended();
    assert!(log.contains("the config was not read anew"), "{log}");
}

#[test]
fn what_cannot_work_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let consume = |config: &str, args: &[&str]| {
        std::fs::write(dir.path().join("dlo.toml"), config).unwrap();
        let mut command: Command = dlo();
        Said::new(&command.arg("consume").args(args).current_dir(dir.path()).output().unwrap())
    };
    let none = consume("", &[]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("has no [[consumers]]"), "{none:?}");
    let house = "[brokers.shop]\nkind = \"memory\"\n[[consumers]]\nbroker = \"shop\"\nqueue = \"orders\"\ngroup = \"pricing\"\n";
    let wrong = consume(&format!("{house}handler = \"127.0.0.1:9000\"\n"), &[]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("line 7: `consumers[1].handler` expected an address such as http://"),
        "{wrong:?}"
    );
    let stranger = consume(&format!("{house}handler = \"http://127.0.0.1:9000\"\n"), &["--source", "ordres"]);
    assert_eq!(stranger.code, 3, "{stranger:?}");
    assert!(stranger.err.contains("known: orders"), "{stranger:?}");
}
