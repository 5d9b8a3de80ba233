//! `dlo deploy`: marks of deployments, for the end of a pipeline.

use serde_json::{Value, json};

use super::now;
use crate::args::{DeployArgs, DeployCommand, MarkArgs};
use crate::client::{Client, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Align, Out, Table, clean, cut, say};

pub(super) fn run(args: DeployArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    match args.command {
        DeployCommand::Mark(args) => mark(&client, out, &args),
        DeployCommand::List { limit } => list(&client, out, limit),
    }
}

fn mark(client: &Client, out: Out, args: &MarkArgs) -> Outcome {
    let body = json!({
        "version": args.what, "consumer": args.consumer, "source": args.source, "url": args.url, "at": args.at,
    });
    if !args.yes {
        if out.json {
            return out.value(&json!({ "dry_run": true, "deploy": body }));
        }
        out.line(format!("would mark deployment {}", clean(&args.what)))?;
        say("nothing was marked; do it with --yes");
        return Ok(());
    }
    let deploy = client.post("/api/v1/deploys", &body)?;
    if out.json {
        return out.value(&deploy);
    }
    out.line(format!("marked deployment {} at {}", clean(&args.what), text_of(&deploy, "at")))
}

fn list(client: &Client, out: Out, limit: u64) -> Outcome {
    let answer = client.get("/api/v1/deploys", &[("limit", &limit.to_string())])?;
    if out.json {
        return out.value(&answer);
    }
    let deploys = answer.get("deploys").and_then(Value::as_array).cloned().unwrap_or_default();
    if deploys.is_empty() {
        say("no deployment was marked; a pipeline does it by: dlo deploy mark VERSION --yes");
        return Ok(());
    }
    let mut table = Table::new(&[
        ("AT", Align::Left),
        ("", Align::Right),
        ("VERSION", Align::Left),
        ("CONSUMER", Align::Left),
        ("SOURCE", Align::Left),
        ("BY", Align::Left),
    ]);
    let now = now();
    for deploy in &deploys {
        let text = |key| cut(&text_of(deploy, key), 40);
        let age = age_of(deploy, "at", now);
        table.row([text("at"), age, text("version"), text("consumer"), text("source"), text("author")]);
    }
    out.table(&table)
}
