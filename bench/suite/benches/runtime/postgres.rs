//! W6 on PostgreSQL: River alone, the queue that people pick who have no broker. Our runtime needs one, so there is nothing
//! to divide by: its rates stand beside ours on RabbitMQ and Redis, without a bar.

use std::process::Command;

use dlo_testkit::harness::postgres::OwnPostgres;

use crate::child::{self, Done};
use crate::runner::{self, Runner};
use crate::{Asked, go, order};

pub(crate) async fn run(asked: &Asked<'_>) {
    println!("W6 consuming from PostgreSQL, {} messages, {} rounds", asked.messages, asked.rounds);
    let Some(program) = go::program("river") else { return };
    // On disk at every commit, as PostgreSQL is by default.
    let server = OwnPostgres::start_new().await;
    for &percent in &asked.poison {
        let mut river = Runner::new("River");
        for round in 0..=asked.rounds {
            let mut worker = Command::new(&program);
            let every = order::every(percent).unwrap_or(0);
            worker.args([&server.url, &asked.messages.to_string(), &every.to_string()]);
            let done: Done = tokio::task::block_in_place(|| child::read(&mut worker));
            done.check("River", asked.messages, order::poisoned(asked.messages, percent));
            // The first round warms everything up and does not count.
            if round > 0 {
                river.did(&done);
            }
        }
        runner::show("W6", &format!("PostgreSQL, {percent} % poison"), &[&river]);
    }
}
