//! `dlo status`: what does not work in a running office, since when, why, and what to do about it.
//!
//! The exit code is for scripts: 0 if nothing is wrong, 7 if something is, 5 if the office does not answer.

use std::path::Path;

use serde_json::Value;

use super::now;
use crate::args::StatusArgs;
use crate::client::{Client, SOON, age_of, text_of};
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Tone, clean};

pub(super) fn run(args: &StatusArgs, config: Option<&Path>) -> Outcome {
    // A config that is wrong on this machine says nothing about an office that was named.
    let client = match args.client.is_named {
        true => Client::within(&args.client, SOON)?,
        false => Client::of(&args.client, &Config::load(config)?)?,
    };
    let out = Out::new(args.client.json);
    let status = client.get("/api/v1/status", &[])?;
    let Some(troubles) = status["troubles"].as_array() else {
        return Err(Failure::failed(format!("{} lists no troubles; is it an office?", client.address())));
    };
    match out.json {
        true => out.value(&status)?,
        false => print(out, &client, &status, troubles)?,
    }
    match troubles.len() {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Trouble, "one thing does not work")),
        many => Err(Failure::new(Exit::Trouble, format!("{many} things do not work"))),
    }
}

fn print(out: Out, client: &Client, status: &Value, troubles: &[Value]) -> Outcome {
    let office = format!("{}, dlo {}", client.address(), clean(&text_of(status, "version")));
    if troubles.is_empty() {
        return out.line(format!("{} nothing is wrong: {office}", out.paint("✓", Tone::Good)));
    }
    out.line(out.paint(&office, Tone::Quiet))?;
    let now = now();
    for trouble in troubles {
        let text = |field| clean(&text_of(trouble, field));
        out.line(format!(
            "{} {:<9} {}, since {} ({})",
            out.paint("✗", Tone::Bad),
            text("scope"),
            out.paint(&text("title"), Tone::Strong),
            age_of(trouble, "since", now),
            text("since"),
        ))?;
        // A replay is named by its id only.
        if text("scope") == "replay" {
            out.line(format!("            {}", text("name")))?;
        }
        out.line(format!("            {}", text("why")))?;
        out.line(format!("            → {}", text("action")))?;
    }
    Ok(())
}
