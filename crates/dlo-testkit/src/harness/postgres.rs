//! A real PostgreSQL: one server for all tests of a process, a fresh database for each test.
//!
//! `DLO_TEST_POSTGRES` names a running server (the URL of a superuser); without it the binaries of the newest installed
//! version are used. PostgreSQL refuses to run as root, so root becomes `postgres` or `nobody` first.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};

use super::{Supervised, free_port, is_root, scratch, until_ready};

const VARIABLE: &str = "DLO_TEST_POSTGRES";
const MISSING: &str = "PostgreSQL was not found in PATH nor in /usr/lib/postgresql: install it (Debian: apt-get \
    install postgresql), or set DLO_TEST_POSTGRES to the URL of a superuser on a running server";
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on which tests make databases.
#[derive(Debug)]
pub struct Postgres {
    /// Everything of a URL before the name of the database, and what follows it.
    url: (String, String),
    _server: Option<Supervised>,
}

static SHARED: OnceCell<Postgres> = OnceCell::const_new();

impl Postgres {
    /// The server of this process, started when first asked for.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        match std::env::var(VARIABLE) {
            Ok(url) => Self { url: around_database(&url), _server: None },
            Err(_) => Self::start_own().await,
        }
    }

    async fn start_own() -> Self {
        let directory = scratch("postgres");
        // What is tested here is what a commit means to others, not what a power cut does to a disk.
        let (command, port) = prepared(directory.path(), &["fsync=off", "max_connections=300"]);
        let log = directory.path().join("log");
        let server = Supervised::start(&command, "QUIT", directory, log.clone());
        let url = (format!("postgres://postgres@127.0.0.1:{port}/"), String::new());
        let postgres = Self { url, _server: Some(server) };
        answers(&postgres.url_of("postgres"), &log).await;
        postgres
    }

    /// The URL by which a superuser makes databases.
    pub fn admin_url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("{}{database}{}", self.url.0, self.url.1)
    }

    /// A fresh database, dropped with the value.
    pub async fn database(&self) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dlo_test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = self.url_of("postgres");
        let client = connect(&admin).await;
        client
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))
            .await
            .expect("a fresh database");
        Database { url: self.url_of(&name), admin, name }
    }
}

/// A server that one test has to itself, and may stop and start. It writes to the disk as in earnest.
#[derive(Debug)]
pub struct OwnPostgres {
    pub url: String,
    directory: TempDir,
    command: Vec<String>,
    server: Mutex<Option<Supervised>>,
}

impl OwnPostgres {
    pub async fn start_new() -> Self {
        let directory = scratch("postgres");
        let (command, port) = prepared(directory.path(), &["max_connections=100"]);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let own = Self { url, directory, command, server: Mutex::new(None) };
        own.start().await;
        own
    }

    /// Ends it at once, as a crash would: nothing is written out first, and the next start recovers.
    pub fn stop(&self) {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            server.end("QUIT");
        }
    }

    /// Starts it, and returns when it answers.
    pub async fn start(&self) {
        self.begin();
        answers(&self.url, &self.log()).await;
    }

    /// Starts it, for whoever asks it himself until it answers.
    pub fn begin(&self) {
        let server = Supervised::keeping(&self.command, "QUIT", self.log());
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

/// A new cluster in `directory`; the command that serves it, and its port.
fn prepared(directory: &Path, settings: &[&str]) -> (Vec<String>, u16) {
    let bin = binaries().unwrap_or_else(|| panic!("{MISSING}"));
    let data = directory.join("data").display().to_string();
    let initdb = bin.join("initdb").display().to_string();
    let options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
    let made = as_other_user(&[&[initdb.as_str(), "-D", &data][..], &options].concat());
    let output = Command::new(&made[0]).args(&made[1..]).current_dir("/").output().expect("running initdb");
    assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
    let (port, socket) = (free_port(), directory.display().to_string());
    let server = bin.join("postgres").display().to_string();
    let number = port.to_string();
    let mut command = vec![&*server, "-D", &data, "-p", &number, "-k", &socket];
    command.extend(["-c", "listen_addresses=127.0.0.1"]);
    command.extend(settings.iter().flat_map(|setting| ["-c", *setting]));
    (as_other_user(&command), port)
}

/// Waits for a real round trip.
async fn answers(url: &str, log: &Path) {
    let ready = async || match tokio_postgres::connect(url, NoTls).await {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("{why}; its log: {}", std::fs::read_to_string(log).unwrap_or_default())),
    };
    until_ready("PostgreSQL", PATIENCE, ready).await;
}

/// A database that one test has to itself.
#[derive(Debug)]
pub struct Database {
    pub url: String,
    admin: String,
    name: String,
}

impl Database {
    /// A connection past the store: to look, and to tamper.
    pub async fn raw(&self) -> Client {
        connect(&self.url).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A thread of its own: whoever drops it may be inside a runtime, or in the middle of a panic.
        let (admin, name) = (self.admin.clone(), self.name.clone());
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&admin, NoTls).await.ok()?;
                tokio::spawn(connection);
                client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.ok()
            })
        });
        let _ = dropped.join();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connecting to PostgreSQL");
    tokio::spawn(connection);
    client
}

/// The directory of the newest installed version.
fn binaries() -> Option<PathBuf> {
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut installed: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    installed.sort_by_key(|path| version(path));
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = installed.into_iter().rev().map(|path| path.join("bin")).collect();
    places.extend(std::env::split_paths(&in_path));
    places.into_iter().find(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
}

/// The command as somebody who is not root.
fn as_other_user(command: &[&str]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    if is_root() {
        let known = Command::new("id").args(["-u", "postgres"]).output().is_ok_and(|id| id.status.success());
        let user = if known { "postgres" } else { "nobody" };
        whole.extend(["setpriv".into(), format!("--reuid={user}"), "--clear-groups".into(), "--".into()]);
    }
    whole.extend(command.iter().map(ToString::to_string));
    whole
}

/// A URL cut around the name of its database.
fn around_database(url: &str) -> (String, String) {
    let (base, options) = url.split_at(url.find('?').unwrap_or(url.len()));
    let host = base.find("://").map_or(0, |at| at + 3);
    let end = base[host..].find('/').map_or(base.len(), |at| host + at);
    (format!("{}/", &base[..end]), options.to_string())
}

#[cfg(test)]
mod tests {
    use super::around_database;

    #[test]
    fn a_url_is_cut_around_its_database() {
        let cut = |url: &str| {
            let (before, after) = around_database(url);
            format!("{before}NAME{after}")
        };
        assert_eq!(
            cut("postgres://me:pw@host:5433/office?sslmode=disable"),
            "postgres://me:pw@host:5433/NAME?sslmode=disable"
        );
        assert_eq!(cut("postgres://host"), "postgres://host/NAME");
    }
}
