//! A store that does not answer: the pages fail, and say why on top.

use dlo_testkit::harness::postgres::OwnPostgres;

use super::{body, listed, quiet, serve, until};
use crate::trouble::{PATIENCE, banner, gauge};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_down_is_reported_on_the_page_that_fails_for_it() {
    let database = OwnPostgres::start_new().await;
    let dir = tempfile::tempdir().unwrap();
    let office = serve(dir.path(), &format!("[server]\ndatabase = \"{}\"\n", database.url));
    quiet(&office, "the start").await;
    database.stop();
    let told = || banner(&office, "/").filter(|banner| banner.contains("store"));
    let (banner, took) = until("a banner", PATIENCE, told).await;
    eprintln!("the banner was there after {:.1} s", took.as_secs_f64());
    assert!(banner.contains("<time") && banner.contains("<code>server.database</code>"), "{banner}");
    assert!(body(&office, "/readyz").contains("not_ready"));
    let said = office.dlo(&["status"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert_eq!(listed(&office, "store_unavailable").len(), 1, "{said:?}");
    assert_eq!(gauge(&office, "store_unavailable").as_deref(), Some("1"));
    database.start().await;
    quiet(&office, "the database").await;
}
