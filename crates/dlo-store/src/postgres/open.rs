//! Reaching the database: the URL, TLS, the pool, migrations forward.
//!
//! Certificates are always verified when TLS is used. Migrations run under an advisory lock, so that several processes
//! may start at once; a database written by a newer version is refused before anything is changed.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::dial::Dial;
use super::{Pool, read_error};
use crate::StoreError;

/// Every migration, in order. Added to, never edited: the number of a migration is its place plus one.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_letters.sql"),
    include_str!("../../migrations/postgres/0002_marks.sql"),
    include_str!("../../migrations/postgres/0003_replays.sql"),
    include_str!("../../migrations/postgres/0004_triage.sql"),
    include_str!("../../migrations/postgres/0005_grams.sql"),
    include_str!("../../migrations/postgres/0006_splits.sql"),
    include_str!("../../migrations/postgres/0007_suspects.sql"),
];

/// The oldest version whose dialect is used here.
const OLDEST: i32 = 150_000;
/// Names the advisory lock under which migrations run: `dlo` in ASCII.
const MIGRATING: i64 = 0x64_6c6f;

/// The pool for a `postgres://` URL. Connects to nothing yet.
pub(super) fn pool(url: &str, deadline: Duration) -> Result<Pool, StoreError> {
    let mut config: Config = url.parse().map_err(|e: tokio_postgres::Error| {
        let cause = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
        StoreError::Unsupported(format!(
            "`server.database` is no PostgreSQL URL ({e} {cause}); expected postgres://user:password@host:5432/name, \
             with ?sslmode=disable, prefer or require (certificates are verified whenever TLS is used)"
        ))
    })?;
    if config.get_application_name().is_none() {
        config.application_name("dlo");
    }
    if config.get_connect_timeout().is_none() {
        // Less than a connection may take, so that another host of the URL is tried as well.
        config.connect_timeout(deadline * 3 / 10);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(deadline);
    }
    if !url.contains("keepalives") {
        config.keepalives_idle(deadline).keepalives_interval(deadline / 2).keepalives_retries(3);
    }
    if config.get_ssl_mode() == SslMode::Prefer && is_local(&config) {
        // What never leaves the machine needs no certificate, and those that servers make for themselves have none to verify.
        config.ssl_mode(SslMode::Disable);
    }
    let tls = if config.get_ssl_mode() == SslMode::Disable { None } else { Some(tls()?) };
    Pool::new(Dial { config, tls, deadline })
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        Host::Unix(_) => true,
    })
}

fn tls() -> Result<MakeRustlsConnect, StoreError> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(StoreError::Unsupported(
            "no certificate authority was found on this machine, so TLS cannot be verified; install ca-certificates, \
             or use ?sslmode=disable on a network that you trust"
                .into(),
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| StoreError::Refused(format!("TLS: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Brings an empty or older database up to this version, all of it or nothing.
pub(super) async fn migrate(pool: &Pool) -> Result<(), StoreError> {
    let mut client = pool.long_client().await?;
    let transaction = client.transaction().await.map_err(read_error)?;
    let row = transaction
        .query_one(
            "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
                    pg_advisory_xact_lock($1)::text",
            &[&MIGRATING],
        )
        .await
        .map_err(read_error)?;
    refuse_unfit(row.get(0), row.get(1))?;
    let known = MIGRATIONS.len() as i64;
    transaction
        .batch_execute("CREATE TABLE IF NOT EXISTS meta (schema_version bigint NOT NULL)")
        .await
        .map_err(read_error)?;
    let row = transaction.query_opt("SELECT schema_version FROM meta", &[]).await.map_err(read_error)?;
    let found: i64 = row.map_or(0, |row| row.get(0));
    if found > known {
        // The transaction ends here without a commit.
        return Err(StoreError::Newer { found, known });
    }
    if found == known {
        return transaction.commit().await.map_err(read_error);
    }
    for sql in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.batch_execute(sql).await.map_err(read_error)?;
    }
    transaction.execute("DELETE FROM meta", &[]).await.map_err(read_error)?;
    transaction.execute("INSERT INTO meta VALUES ($1)", &[&known]).await.map_err(read_error)?;
    transaction.commit().await.map_err(read_error)
}

fn refuse_unfit(version: i32, encoding: &str) -> Result<(), StoreError> {
    if version < OLDEST {
        let (found, oldest) = (version / 10_000, OLDEST / 10_000);
        return Err(StoreError::Unsupported(format!(
            "PostgreSQL {found} is too old: {oldest} or later is needed"
        )));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Unsupported(format!(
            "the database is encoded in {encoding}; create one by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_none_is_refused_with_directions_and_without_its_password() {
        for url in
            ["postgres://me:s3cret@host/office?sslmode=verify-full", "postgres://me:s3cret@host:port/x"]
        {
            let refusal = pool(url, Duration::from_secs(10)).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(refusal.contains("expected postgres://"), "{refusal}");
            assert!(!refusal.contains("s3cret"), "{refusal}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_process_that_stands_still_in_a_transaction_keeps_its_locks_for_a_moment_only() {
        let database = dlo_testkit::harness::postgres::Postgres::shared().await.database().await;
        let client = pool(&database.url, Duration::from_secs(10)).unwrap().client().await.unwrap();
        let limit = client.query_one("SHOW idle_in_transaction_session_timeout", &[]).await.unwrap();
        assert_eq!(limit.get::<_, String>(0), "5s");
    }

    #[test]
    fn an_old_server_and_a_foreign_encoding_are_refused() {
        assert!(refuse_unfit(140_009, "UTF8").unwrap_err().to_string().contains("PostgreSQL 14 is too old"));
        assert!(refuse_unfit(150_000, "LATIN1").unwrap_err().to_string().contains("LATIN1"));
        assert!(refuse_unfit(170_002, "UTF8").is_ok());
    }

    #[test]
    fn only_what_stays_on_the_machine_goes_without_tls_by_default() {
        let local = |url: &str| is_local(&url.parse().unwrap());
        assert!(local("postgres://localhost/x") && local("postgres://127.0.0.1,[::1]/x"));
        assert!(!local("postgres://db.example/x") && !local("postgres://localhost,db.example/x"));
    }
}
