//! What the HTTP side allows at most: requests to the same handler over as many kept connections, with no broker that
//! messages come from and nobody who acknowledges them. By wrk, and by a loop with the client of the bare sidecar.

use std::process::Command;

use bytes::Bytes;
use tokio::signal::unix::{SignalKind, signal};

use super::handler::{Handler, Manner};
use super::{CONNECTIONS, push};
use crate::child::{Done, ROLE};
use crate::interpreter::root;
use crate::order;
use crate::peer::Worker;
use crate::runner::{self, Runner};

/// Longer than any round: it is stopped when the handler has what it was told.
const LONG: &str = "300s";

pub(super) struct Limits {
    wrk: Option<Runner>,
    posts: Runner,
}

impl Limits {
    pub(super) fn new() -> Self {
        let there = Command::new("wrk").arg("--version").output().is_ok();
        if !there {
            println!("  SKIPPED: wrk was not found in PATH (Debian: apt-get install wrk)");
        }
        let wrk = there.then(|| Runner::new("wrk, no broker"));
        Self { wrk, posts: Runner::new("bare loop, no broker") }
    }

    /// Each makes so many requests.
    pub(super) fn round(&mut self, messages: u64, counts: bool) {
        let posted = one(posts, messages);
        if counts {
            self.posts.did(&posted);
        }
        if let Some(runner) = &mut self.wrk {
            let sent = one(wrk, messages);
            if counts {
                runner.did(&sent);
            }
        }
    }

    pub(super) fn show(&self, ours: &Runner) {
        runner::show("W8", "RabbitMQ to HTTP", &[&self.posts]);
        ours.against(&self.posts, "sidecar.posts");
        if let Some(wrk) = &self.wrk {
            runner::show("W8", "RabbitMQ to HTTP", &[wrk]);
            ours.against(wrk, "sidecar.wrk");
        }
    }
}

/// The clock is the handler's, as it is for everybody.
fn one(client: impl FnOnce(u16) -> Command, messages: u64) -> Done {
    tokio::task::block_in_place(|| {
        let mut handler = Handler::start(messages, Manner::Single);
        let worker = Worker::start(&mut client(handler.port));
        let before = worker.servers();
        let spent = handler.wait();
        let server = worker.servers().saturating_sub(before);
        Done { handled: messages, parked: 0, spent, usage: worker.usage(), server }
    })
}

fn wrk(port: u16) -> Command {
    let mut command = Command::new("wrk");
    command.args(["--threads", "2", "--duration", LONG, "--connections", &CONNECTIONS.to_string()]);
    command.arg("--script").arg(root().join("bench/peers/wrk.lua"));
    command.arg(format!("http://127.0.0.1:{port}/"));
    command
}

fn posts(port: u16) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([ROLE, "posts", &port.to_string(), &CONNECTIONS.to_string()]);
    command
}

/// The life of the loop's process.
pub(crate) async fn run(port: u16, connections: u16) {
    let mut stop = signal(SignalKind::terminate()).expect("hear of the end");
    let body = Bytes::from(order::body(0, false));
    for _ in 0..connections {
        let (mut to, host, body) = (push::connect(port).await, format!("127.0.0.1:{port}"), body.clone());
        tokio::spawn(async move {
            loop {
                push::post(&mut to, &host, body.clone()).await;
            }
        });
    }
    stop.recv().await;
}
