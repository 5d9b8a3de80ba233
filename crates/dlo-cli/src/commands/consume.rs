//! `dlo consume`: the sidecar. Reads the queues of the config and pushes each message to its handler over HTTP.
//!
//! Each consumer is a worker of its own (`worker.rs`); who runs and who must begin anew after the config has changed is
//! decided in `crew.rs`; `port.rs` answers health, status and metrics.

mod crew;
mod port;
mod standing;
mod worker;

use std::path::Path;

use dlo_runtime::Metrics;
use dlo_runtime::push::OfficeReceipts;
use dlo_server::Token;
use tokio::net::TcpListener;
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use super::serve::{cannot_listen, demand_token, either, listen_for};
use crate::args::ConsumeArgs;
use crate::block_on::block_on;
use crate::config::{self, Config, Consumer};
use crate::exit::{Exit, Failure, Outcome};
use crate::logs;
use crate::output::{Out, Tone, say};
use crew::Crew;

pub(super) fn run(args: ConsumeArgs, config: Option<&Path>) -> Outcome {
    let mut config = Config::load(config)?;
    if let Some(text) = &args.listen {
        config.consume.listen = config::address(text).ok_or_else(|| {
            Failure::usage(format!("--listen expected an address such as 127.0.0.1:8405, found `{text}`"))
        })?;
    }
    logs::lay_over(&mut config.log, args.log)?;
    chosen(&config, &args.sources)?;
    // Status and metrics name queues, hosts and errors.
    demand_token(config.consume.listen, config.consume.token.is_some(), "by `token_file` under [consume]")?;
    logs::init(&config.log)?;
    let outcome = block_on(consume(config, &args.sources));
    logs::finish();
    outcome
}

/// The consumers of the named sources, or all. None is a mistake worth telling.
fn chosen(config: &Config, names: &[String]) -> Outcome<Vec<Consumer>> {
    let known: Vec<&str> = config.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
    if known.is_empty() {
        let file =
            config.file.as_ref().map_or_else(|| "dlo.toml".to_owned(), |file| file.display().to_string());
        return Err(Failure::usage(format!(
            "{file} has no [[consumers]]: there is nothing to run; see docs/reference/consume.md"
        )));
    }
    if let Some(stranger) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let what = format!("`{stranger}` is no consumer's source; known: {}", known.join(", "));
        return Err(Failure::new(Exit::NotFound, what));
    }
    let wanted = |consumer: &&Consumer| names.is_empty() || names.contains(&consumer.name);
    Ok(config.consumers.iter().filter(wanted).cloned().collect())
}

async fn consume(config: Config, names: &[String]) -> Outcome {
    let listen = config.consume.listen;
    let listener = TcpListener::bind(listen).await.map_err(|cause| cannot_listen(listen, &cause))?;
    let (mut terminate, mut interrupt) =
        (listen_for(SignalKind::terminate())?, listen_for(SignalKind::interrupt())?);
    let mut hangup = listen_for(SignalKind::hangup())?;
    let mut crew = Crew::new(Metrics::new(), receipts(&config)?);
    crew.take_up(&config, chosen(&config, names)?).await?;
    welcome(&config, &listener, crew.len())?;
    let closed = CancellationToken::new();
    let token = port_token(&config)?;
    let port = tokio::spawn(port::serve(listener, crew.board(), token, closed.clone()));
    let ended = loop {
        tokio::select! {
            () = either(&mut terminate, &mut interrupt) => break Ok(()),
            failure = crew.failed() => break Err(failure),
            _ = hangup.recv() => reload(&mut crew, config.file.as_deref(), names).await,
        }
    };
    say("stopping: handlers finish what they have; a second signal stops at once");
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        // Nothing is lost by this: what is not settled is delivered again.
        std::process::exit(Exit::Failed as i32);
    });
    crew.dismiss().await;
    closed.cancel();
    // The port has no state: how its last connection ended is nobody's concern.
    let _ = port.await;
    ended
}

fn port_token(config: &Config) -> Outcome<Option<Token>> {
    let token = config.consume.token.as_ref().map(|token| Token::new(token.reveal()));
    token.transpose().map_err(|weak| Failure::usage(format!("`consume.token`: {weak}")))
}

/// The way to the office, where there is one.
fn receipts(config: &Config) -> Outcome<Option<OfficeReceipts>> {
    let Some(office) = &config.consume.office else { return Ok(None) };
    let made = OfficeReceipts::new(&office.address, office.token.as_ref().map(|token| token.reveal()));
    made.map(Some).map_err(|bad| Failure::usage(bad.to_string()))
}

/// On SIGHUP: reads the file anew. One that is wrong changes nothing.
async fn reload(crew: &mut Crew, file: Option<&Path>, names: &[String]) {
    let changed = match Config::load(file) {
        Ok(config) => match chosen(&config, names) {
            Ok(consumers) => crew.take_up(&config, consumers).await.map_err(|failure| failure.words),
            Err(failure) => Err(failure.words),
        },
        Err(problems) => Err(problems.to_string()),
    };
    match changed {
        Ok(()) => tracing::info!(consumers = crew.len(), "the config was read anew"),
        Err(words) => {
            for line in words.lines() {
                tracing::error!("the config was not read anew: {line}");
            }
        }
    }
}

fn welcome(config: &Config, listener: &TcpListener, consumers: usize) -> Outcome {
    let out = Out::new(false);
    let address = format!("http://{}", listener.local_addr()?);
    out.line(
        out.paint(concat!("Dead Letter Office ", env!("CARGO_PKG_VERSION"), ", sidecar"), Tone::Strong),
    )?;
    let file = config.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
    for (name, value) in [
        ("listening", address.clone()),
        ("data", config.consume.data.display().to_string()),
        ("config", file),
        ("consumers", consumers.to_string()),
    ] {
        out.line(format!("  {name:<10} {value}"))?;
    }
    out.line("")?;
    out.line(format!("  curl {address}/status"))
}
