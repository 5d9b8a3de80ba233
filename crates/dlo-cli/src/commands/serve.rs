//! `dlo serve`: the office, from its config to its last request.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::ServeArgs;
use crate::block_on::block_on;
use crate::config::{self, Config, Secret, Storage, without_password};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Tone, say};
use crate::{features, logs, wire};

pub(super) fn run(args: ServeArgs, config: Option<&Path>) -> Outcome {
    let config = overlaid(Config::load(config)?, args)?;
    refuse_open_door(&config)?;
    logs::init(&config.log)?;
    let outcome = block_on(serve(&config));
    logs::finish();
    outcome
}

/// The file with the flags laid over it.
fn overlaid(mut config: Config, args: ServeArgs) -> Outcome<Config> {
    if let Some(text) = args.listen {
        config.server.listen = config::address(&text).ok_or_else(|| {
            Failure::usage(format!("--listen expected an address such as 127.0.0.1:8404, found `{text}`"))
        })?;
    }
    if let Some(data) = args.data {
        config.server.storage = Storage::Embedded(data);
    } else if let Some(url) = args.database {
        if !config::is_postgres(&url) {
            return Err(Failure::usage(
                "--database expected an address such as postgres://user:password@host/name",
            ));
        }
        if let Some(lacking) = features::lacking(features::POSTGRES) {
            return Err(Failure::usage(format!("--database is a PostgreSQL address: {lacking}")));
        }
        config.server.storage = Storage::Postgres(Secret::new(url));
    }
    if let Some(token) = args.token.filter(|token| !token.is_empty()) {
        dlo_server::Token::new(token.as_str()).map_err(|weak| Failure::usage(format!("--token: {weak}")))?;
        config.server.token = Some(Secret::new(token));
    }
    logs::lay_over(&mut config.log, args.log)?;
    Ok(config)
}

fn has_token(config: &Config) -> bool {
    config.server.token.is_some() || !config.server.tokens.is_empty()
}

/// Beyond this machine everybody could read and discard letters, so a token is demanded first.
pub(super) fn refuse_open_door(config: &Config) -> Outcome {
    let how = "by DLO_TOKEN=\"$(openssl rand -hex 32)\", or by `token_file` under [server]";
    demand_token(config.server.listen, has_token(config), how)
}

/// Refuses an address that other machines reach, unless a token is set. `how` says where to set one.
pub(super) fn demand_token(listen: SocketAddr, has_token: bool, how: &str) -> Outcome {
    if listen.ip().is_loopback() || has_token {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Refused,
        format!(
            "{listen} is reachable from other machines, and no token is set\n  set one {how},\n  or listen on this machine only: --listen 127.0.0.1:{}",
            listen.port()
        ),
    ))
}

async fn serve(config: &Config) -> Outcome {
    let listen = config.server.listen;
    let listener = TcpListener::bind(listen).await.map_err(|cause| cannot_listen(listen, &cause))?;
    let store = wire::store(&config.server.storage, &config.server.limits).await?;
    wire::set_clock(&store).await?;
    let (changes, changed) = mpsc::channel(1);
    let server =
        wire::server(config, store).await?.admission_log(Box::new(std::io::stderr())).changes(changed);
    tokio::spawn(reload(config.file.clone(), listen_for(SignalKind::hangup())?, changes));
    welcome(config, &listener)?;
    let (mut terminate, mut interrupt) =
        (listen_for(SignalKind::terminate())?, listen_for(SignalKind::interrupt())?);
    let stopping = async {
        either(&mut terminate, &mut interrupt).await;
        say("stopping: finishing what is in flight; a second signal stops at once");
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            // Nothing that was answered is lost by this: it was durable before it was answered.
            std::process::exit(Exit::Failed as i32);
        });
    };
    server.run(listener, stopping).await.map_err(|cause| Failure::failed(cause.to_string()))
}

/// On SIGHUP: reads the file anew and hands over the rules. A file that is wrong changes nothing.
async fn reload(file: Option<PathBuf>, mut hangup: Signal, changes: mpsc::Sender<dlo_server::Rules>) {
    while hangup.recv().await.is_some() {
        match Config::load(file.as_deref()) {
            Ok(config) => {
                if changes.send(wire::rules(&config)).await.is_err() {
                    return;
                }
            }
            Err(problems) => {
                for line in problems.to_string().lines() {
                    tracing::error!("the config was not read anew: {line}");
                }
            }
        }
    }
}

pub(super) fn cannot_listen(listen: SocketAddr, cause: &std::io::Error) -> Failure {
    match cause.kind() {
        std::io::ErrorKind::AddrInUse => Failure::failed(format!(
            "{listen} is in use by another process; stop it, or listen elsewhere: --listen 127.0.0.1:{}",
            listen.port().wrapping_add(1).max(1024)
        )),
        _ => Failure::failed(format!("cannot listen on {listen}: {cause}")),
    }
}

pub(super) fn listen_for(kind: SignalKind) -> Outcome<Signal> {
    signal(kind).map_err(|cause| Failure::failed(format!("signals cannot be received: {cause}")))
}

pub(super) async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Where it listens, where it keeps letters, and what to do next.
fn welcome(config: &Config, listener: &TcpListener) -> Outcome {
    let out = Out::new(false);
    let address = format!("http://{}", listener.local_addr()?);
    let data = match &config.server.storage {
        Storage::Embedded(directory) => format!("{} (embedded)", directory.display()),
        Storage::Postgres(url) => without_password(url.reveal()),
    };
    let file =
        config.file.as_ref().map_or("none, everything is default".into(), |file| file.display().to_string());
    let token = if has_token(config) { "demanded" } else { "none, this machine only" };
    out.line(out.paint(concat!("Dead Letter Office ", env!("CARGO_PKG_VERSION")), Tone::Strong))?;
    for (name, value) in
        [("listening", &address), ("data", &data), ("config", &file), ("token", &token.to_string())]
    {
        out.line(format!("  {name:<10} {value}"))?;
    }
    let header = if has_token(config) { " -H \"authorization: Bearer $DLO_TOKEN\"" } else { "" };
    out.line("")?;
    out.line("A first letter, and where to see it:")?;
    out.line(format!(
        "  curl{header} {address}/api/v1/letters --json '{{\"source\":\"orders\",\"payload\":{{\"order\":1}},\"error_class\":\"KeyError\"}}'"
    ))?;
    let server =
        if address == "http://127.0.0.1:8404" { String::new() } else { format!(" --server {address}") };
    out.line(format!("  dlo letters list{server}"))
}
