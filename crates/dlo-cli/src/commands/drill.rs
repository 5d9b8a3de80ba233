//! `dlo drill` (J1), for capture: marked poison in, letter out, with its whole story; then it cleans up.
//!
//! The poison is a real message on the real road. Whatever happens in between, the drill ends: with the letter
//! checked and discarded, or with the step that failed and what to look at. What it cannot take back, a copy that
//! stays in a log or a mirrored queue, it names.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, Destination, Outgoing};
use dlo_core::envelope::{self, Envelope, OriginHeaders};
use dlo_core::id::DeathId;
use dlo_core::message::{Message, Payload};
use dlo_core::origin::Origin;
use dlo_core::reason::Reason;
use serde_json::{Value, json};

use super::brokers::{Placed, placed};
use super::now;
use crate::args::{DrillArgs, Via};
use crate::block_on::block_on;
use crate::client::{Client, text_of};
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Tone, clean, say};

/// The header that marks a drill, and that finds its letter.
const MARK: &str = "dlo-drill";
const CLASS: &str = "DrillError";
/// Between two looks at the office.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn run(args: &DrillArgs, config: Option<&Path>) -> Outcome {
    let config = Config::load(config)?;
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    // Without an office nobody would take the poison out again.
    client.get("/api/v1/stats", &[])?;
    block_on(async {
        let all = placed(&config, std::slice::from_ref(&args.source)).await?;
        let Some(one) = all.first() else { return Err(Failure::usage("no such source")) };
        let drill = Drill { id: new_id(), via: args.via, one };
        if !args.yes {
            say("a dry run; add --yes to do it");
            return out.line(format!(
                "would send marked poison into `{}`, wait up to {}s for its letter at {}, check it and discard it",
                drill.queue(),
                args.wait.as_secs(),
                client.address()
            ));
        }
        drill.go(&client, out, args.wait).await
    })
}

fn new_id() -> String {
    let seed = format!("{}/{}", now().as_micros(), std::process::id());
    DeathId::from_name(seed.as_bytes()).to_string()
}

struct Drill<'a> {
    id: String,
    via: Via,
    one: &'a Placed<'a>,
}

impl Drill<'_> {
    fn queue(&self) -> &str {
        match self.via {
            Via::Dlq => self.one.dlq,
            Via::Queue => &self.one.source.queue,
        }
    }

    async fn go(&self, client: &Client, out: Out, wait: Duration) -> Outcome {
        let broker = &self.one.broker;
        self.send(&**broker).await?;
        let sent = Instant::now();
        step(out, &format!("sent to `{}` and confirmed", self.queue()))?;
        let letter = self.find(client, wait).await?;
        let took = sent.elapsed();
        step(
            out,
            &format!("captured as letter {} after {:.1}s", text_of(&letter, "id"), took.as_secs_f64()),
        )?;
        let lacks = self.lacks(&letter);
        if lacks.is_empty() {
            step(out, &self.story(&letter))?;
        }
        self.clean_up(client, out, &letter)?;
        if out.json {
            let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let report = json!({
                "ok": lacks.is_empty(), "drill": self.id, "letter": letter, "millis": millis, "lacks": lacks,
            });
            out.value(&report)?;
        }
        match lacks.is_empty() {
            true => Ok(()),
            false => Err(Failure::failed(format!("the letter came without its {}", lacks.join(", ")))),
        }
    }

    async fn send(&self, broker: &dyn Broker) -> Outcome {
        let outgoing =
            Outgoing { to: Destination::queue(self.queue()), message: self.poison(broker)?, delay: None };
        match broker.publisher().publish(vec![outgoing]).await.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            Some(Err(cause)) => Err(Failure::failed(format!(
                "`{}` did not take the poison: {cause}\n  see `dlo check` and `dlo topology plan {}`",
                self.queue(),
                self.one.source.name
            ))),
            None => Err(Failure::failed("the broker gave no answer")),
        }
    }

    /// A message that says what it is. Into the dead-letter queue it goes as a consumer would park it.
    fn poison(&self, broker: &dyn Broker) -> Outcome<Message> {
        let body = json!({ "drill": self.id, "note": "sent by `dlo drill`; nothing is wrong" }).to_string();
        // No JSON, so that a consumer that parses must fail on it.
        let body = if self.via == Via::Queue { format!("poison: {body}") } else { body };
        let mut message = Message {
            key: Some(Payload::from(self.id.clone())),
            payload: Payload::from(body),
            ..Message::default()
        };
        message.headers.push_text(MARK, &self.id);
        if self.via == Via::Queue {
            return Ok(message);
        }
        let capabilities = broker.capabilities();
        let origin = Origin::message(capabilities.kind, &self.one.source.queue, &self.id);
        let at = now();
        let story = Envelope {
            death_id: Some(origin.death_id(Some(MARK), 0)),
            reason: Some(Reason::ProcessingError),
            rule: Some("drill".to_owned()),
            error_class: Some(CLASS.to_owned()),
            error_message: Some("a drill: nothing is wrong".to_owned()),
            attempts: Some(1),
            first_failed_at: Some(at),
            last_failed_at: Some(at),
            dead_at: Some(at),
            origin: OriginHeaders::new(&origin, Some(at)),
            consumer_group: Some(MARK.to_owned()),
            ..Envelope::default()
        };
        envelope::encode(&message, &story, capabilities.max_message)
            .map_err(|large| Failure::failed(large.to_string()))
    }

    async fn find(&self, client: &Client, wait: Duration) -> Outcome<Value> {
        let query = format!("source:{:?} header.{MARK}:{}", self.one.source.name, self.id);
        let deadline = Instant::now() + wait;
        loop {
            let page = client.get("/api/v1/letters", &[("q", &query), ("limit", "1")])?;
            if let Some(letter) = page["letters"].as_array().and_then(|letters| letters.first()) {
                return Ok(letter.clone());
            }
            if Instant::now() >= deadline {
                return Err(self.lost(client));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Why the letter did not come, as far as the office knows.
    fn lost(&self, client: &Client) -> Failure {
        let sources = client.get("/api/v1/sources", &[]).unwrap_or_default();
        let about = sources["sources"].as_array().into_iter().flatten();
        let said = about.into_iter().find(|one| text_of(one, "name") == self.one.source.name);
        let state = said.map(|one| format!("\n  the office says of it: {}", clean(&one.to_string())));
        Failure::new(
            Exit::Failed,
            format!(
                "no letter came from `{}`; the poison {} may still be there{}\n  is the source in the office's own config, and does its consumer park what it cannot handle?",
                self.queue(),
                self.id,
                state.unwrap_or_default()
            ),
        )
    }

    /// What a letter of this drill should say and does not.
    fn lacks(&self, letter: &Value) -> Vec<&'static str> {
        let mut lacks = Vec::new();
        let mut demand = |what, holds: bool| {
            if !holds {
                lacks.push(what);
            }
        };
        demand("group", !text_of(letter, "group_id").is_empty());
        demand("time of failure", !text_of(letter, "failed_at").is_empty());
        demand("reason", !text_of(letter, "reason").is_empty());
        if self.via == Via::Dlq {
            demand("error class", text_of(letter, "error_class") == CLASS);
            demand("origin", text_of(letter, "queue") == self.one.source.queue);
            demand("attempts", letter["attempts"] == 1);
            demand("consumer", text_of(letter, "consumer") == MARK);
        }
        lacks
    }

    fn story(&self, letter: &Value) -> String {
        let owner = Some(text_of(letter, "owner")).filter(|owner| !owner.is_empty());
        format!(
            "it tells its story: {} by {}, group {}, {}",
            text_of(letter, "reason"),
            Some(text_of(letter, "error_class"))
                .filter(|class| !class.is_empty())
                .unwrap_or("no class".into()),
            text_of(letter, "group_id"),
            owner.map_or("owned by nobody".to_owned(), |owner| format!("owned by {owner}")),
        )
    }

    fn clean_up(&self, client: &Client, out: Out, letter: &Value) -> Outcome {
        let id = text_of(letter, "id");
        let reason = format!("drill {}", self.id);
        let body = json!({ "ids": [id], "reason": reason, "dry_run": false });
        client.post("/api/v1/letters/discard", &body)?;
        step(out, "the letter is discarded, with the drill as its reason")?;
        if !self.one.broker.capabilities().drain_removes {
            say("its record stays in the broker's log until the log's retention removes it");
        }
        Ok(())
    }
}

fn step(out: Out, words: &str) -> Outcome {
    if out.json {
        return Ok(());
    }
    out.line(format!("{} {}", out.paint("✓", Tone::Good), clean(words)))
}
