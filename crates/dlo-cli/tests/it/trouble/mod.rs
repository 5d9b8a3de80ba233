//! What does not work is seen: on top of every page, in `dlo status`, in the API and in a metric, and no longer than it lasts.
//!
//! Real brokers and databases break in these tests, and are repaired. From the repair on everything must be quiet within
//! [`BAR`].

mod check;
mod rabbitmq;
mod store;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::office::{Office, dlo};

/// From a recovery until nobody reports the trouble any more.
pub(crate) const BAR: Duration = Duration::from_secs(5);
/// A busy machine may take so long to notice that something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages of every kind, one that does not exist among them.
const PAGES: [&str; 11] = [
    "/",
    "/groups",
    "/letters",
    "/letters/0197f3b0-0000-7000-8000-000000000001",
    "/replays",
    "/replays/new",
    "/sources",
    "/sources/orders",
    "/rules",
    "/owners",
    "/audit",
];

/// An office with this config, whose file and data are in `dir`.
pub(crate) fn serve(dir: &Path, config: &str) -> Office {
    let file = dir.join("dlo.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = dlo();
    command.arg("--config").arg(&file).args(["serve", "--listen", "127.0.0.1:0"]).current_dir(dir);
    Office::spawn(command, dir)
}

/// What is answered there, whatever the status is.
pub(crate) fn body(office: &Office, path: &str) -> String {
    let request = ureq::get(format!("{}{path}", office.address)).config().http_status_as_error(false).build();
    request.call().unwrap().body_mut().read_to_string().unwrap()
}

/// The banner of a page; `None` if the page shows none.
pub(crate) fn banner(office: &Office, path: &str) -> Option<String> {
    let page = body(office, path);
    let (_, rest) = page.split_once("<section id=\"troubles\"")?;
    let (attributes, rest) = rest.split_once('>')?;
    let (inside, _) = rest.split_once("</section>")?;
    (!attributes.contains("hidden")).then(|| inside.to_owned())
}

/// The troubles of a kind, as `dlo status --json` lists them.
pub(crate) fn listed(office: &Office, kind: &str) -> Vec<Value> {
    let said = office.dlo(&["status", "--json"]);
    let status: Value = serde_json::from_str(&said.out).unwrap_or_default();
    let troubles = status["troubles"].as_array().cloned().unwrap_or_default();
    troubles.into_iter().filter(|trouble| trouble["kind"] == kind).collect()
}

/// The gauge of this kind.
pub(crate) fn gauge(office: &Office, kind: &str) -> Option<String> {
    let name = format!("dlo_troubles{{kind=\"{kind}\"}} ");
    body(office, "/metrics").lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned))
}

/// Waits for a fact, and says how long that took.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> (T, Duration) {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return (seen, began.elapsed());
        }
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the overview reports this, then looks whether every page, the command, the API and the metric say the same.
/// Returns the trouble as the API gives it.
pub(crate) async fn reported(office: &Office, kind: &str, words: &[&str]) -> Value {
    let fits = |banner: &str| words.iter().all(|word| banner.contains(word));
    let told = || banner(office, "/").filter(|banner| fits(banner));
    let seen = until(&format!("a banner with {words:?}"), PATIENCE, told).await.0;
    assert!(seen.contains("<time") && seen.contains("<code>"), "since when, and what to do: {seen}");
    for path in PAGES {
        let banner = banner(office, path).unwrap_or_else(|| panic!("no banner on {path}"));
        assert!(fits(&banner), "{path}: {banner}");
    }
    let said = office.dlo(&["status"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(words.iter().all(|word| said.out.contains(word)), "{words:?} in {said:?}");
    let listed = listed(office, kind);
    let [trouble] = &listed[..] else { panic!("one trouble {kind}, found {listed:?}") };
    for field in ["scope", "name", "title", "since", "why", "action"] {
        assert!(trouble[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {trouble:#}");
    }
    assert_eq!(gauge(office, kind).as_deref(), Some("1"), "{}", body(office, "/metrics"));
    trouble.clone()
}

/// Waits until nobody reports anything any more, which must be within the bar.
pub(crate) async fn quiet(office: &Office, what: &str) {
    let (_, took) = until(&format!("quiet after {what}"), BAR, || {
        let banner = banner(office, "/");
        banner.is_none().then_some(())
    })
    .await;
    let said = office.dlo(&["status"]);
    assert_eq!(said.code, 0, "{said:?}");
    eprintln!("{what}: the banner was gone after {:.1} s", took.as_secs_f64());
}
