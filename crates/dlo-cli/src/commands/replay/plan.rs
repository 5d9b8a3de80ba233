//! `dlo replay plan`: what would be sent, what is left out and why.

use dlo_core::id::LetterId;
use serde_json::{Map, Value, json};

use super::super::query_text;
use super::{number, pace_of, show};
use crate::args::{Doubts, PlanArgs};
use crate::client::{Client, text_of};
use crate::exit::{Failure, Outcome};
use crate::output::Out;

pub(super) fn run(client: &Client, out: Out, args: &PlanArgs) -> Outcome {
    let plan = client.post("/api/v1/replays", &body(args)?)?;
    if out.json {
        return out.value(&plan);
    }
    show::plan(out, &plan)?;
    let id = text_of(&plan, "id");
    if number(&plan, "total") == 0 {
        return out.line("there is nothing to send");
    }
    let needed = number(&plan, "approvals_needed");
    if needed > 0 {
        out.line(format!("somebody else must approve it first ({needed} needed): dlo replay approve {id}"))?;
    }
    out.line(format!("nothing was sent; start it by: dlo replay start {id} --yes"))
}

fn body(args: &PlanArgs) -> Outcome<Value> {
    let mut body = Map::new();
    let ids: Result<Vec<LetterId>, _> = args.what.iter().map(|word| word.parse()).collect();
    match (args.came_back_from, ids) {
        (Some(replay), _) => body.insert("came_back_from".into(), json!(replay)),
        (None, Ok(ids)) => body.insert("ids".into(), json!(ids)),
        (None, Err(_)) => {
            let query = query_text(&args.what)?;
            if query.trim().is_empty() {
                return Err(Failure::usage("an empty query means every letter; say which ones"));
            }
            body.insert("query".into(), json!(query))
        }
    };
    pace_of(args.pace, &mut body);
    let target = match (&args.to, args.failed_group) {
        (Some(queue), _) => Some(json!({ "queue": queue })),
        (None, true) => Some(json!("failed_group")),
        (None, false) => None,
    };
    let doubts = args.doubts.map(|doubts| match doubts {
        Doubts::Hold => json!("hold"),
        Doubts::SendAgain => json!("send_again"),
    });
    let given = [
        ("reason", args.reason.as_ref().map(|reason| json!(reason))),
        ("cause", args.cause.map(|cause| json!(cause))),
        ("canary", args.canary.map(|canary| json!(canary))),
        ("ramp", args.ramp.map(|ramp| json!(ramp))),
        ("window", args.window.map(|window| json!(window))),
        ("target", target),
        ("doubts", doubts),
        ("order", args.order.then_some(json!(true))),
        ("repair", args.jq.as_ref().map(|jq| json!(jq))),
        ("limit", args.limit.map(|limit| json!(limit))),
        ("include_suspected", args.include_suspected.then_some(json!(true))),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            body.insert(key.into(), value);
        }
    }
    Ok(Value::Object(body))
}
