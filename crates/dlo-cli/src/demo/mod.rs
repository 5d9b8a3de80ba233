//! The five-minute tour: embedded store, embedded broker, a small shop and the office, in one process.
//!
//! `shop.rs` makes the orders, `handler.rs` prices them, `story.rs` runs the day on the real loop, `show.rs` is what is
//! seen of it, `home.rs` is what stays in the data directory. A second start opens the office on what is there; if the
//! first was interrupted, the day is told again from its morning, and the office knows every letter that it has.

mod handler;
mod home;
mod shop;
mod show;
mod story;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::deploy::NewDeploy;
use dlo_core::owners::{OwnerRule, OwnerWhen, Owners};
use dlo_core::replay::Settings;
use dlo_core::teams::{Team, Teams};
use dlo_core::time::{Clock, Timestamp};
use dlo_core::units::HumanDuration;
use dlo_server::{ReplayRules, Schemas, Server, ServerConfig, SourceReplay, Switch, WrittenRules};
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Deed, DynStore, GroupFilter, Page, StoreLimits};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::block_on::block_on;
use crate::clock::OfficeClock;
use crate::commands::demo::DemoOptions;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{count, say};
use handler::Pricing;
use home::Home;
use shop::Shop;
use story::Staff;

pub(crate) fn run(options: DemoOptions) -> Outcome {
    block_on(tour(options))
}

/// What the newcomer presses when the cause is found.
fn fix(pricing: &Arc<Pricing>) -> Switch {
    let (presses, looks) = (Arc::clone(pricing), Arc::clone(pricing));
    Switch {
        path: "/demo/fix",
        label: "Fix the tax table",
        hint: "Demo only: it mends the cause in the shop beside this office. In your own house that is a deployment.",
        done: "the tax table knows the new districts now; what failed because of them can be sent on",
        press: Arc::new(move || presses.fix()),
        is_on: Arc::new(move || looks.is_fixed()),
    }
}

async fn tour(options: DemoOptions) -> Outcome {
    let listener = listen(options.listen).await?;
    let address = listener.local_addr()?;
    let home = Home::at(&options.data, options.fresh)?;
    let store = open(&home)?;
    home.begin_log()?;
    let clock: Arc<dyn Clock> = Arc::new(OfficeClock);
    let broker = story::broker(Arc::clone(&clock));
    let stop = CancellationToken::new();
    let staff = Staff::at_work(&broker, Arc::clone(&clock), address, &stop)?;
    let office = Server::new(config(&home)?, store.clone(), Arc::clone(&clock))
        .capture(story::dead_letters(&broker))
        .target(story::target(&broker))
        .hook(fix(&staff.pricing));
    let serving = tokio::spawn(office.run(listener, stop.clone().cancelled_owned()));
    let interrupted = tokio::spawn(interrupt(Signals::listen()?, stop.clone()));

    let shop = Shop { orders: options.orders };
    if home.is_told(shop) {
        say(format!(
            "The shop's day of {} orders is over; the office opens on what it left.",
            count(shop.orders)
        ));
    } else {
        welcome(shop);
        deployed(&store, clock.now()).await?;
        if let Some(told) = story::tell(&broker, shop, &staff, &stop).await? {
            show::happened(&told.board, told.revenue_cents, told.took)?;
            home.note_told(shop)?;
        }
    }
    if !stop.is_cancelled() {
        let page = store.groups(&GroupFilter::default(), &Page::first(20)).await;
        show::groups(&page.map_err(|error| Failure::failed(error.to_string()))?.groups)?;
        show::next(address, home.directory(), !options.exit)?;
    }
    if options.exit {
        stop.cancel();
    }
    let served = serving.await.map_err(|error| Failure::failed(format!("the office broke off: {error}")))?;
    interrupted.abort();
    staff.gone().await?;
    served.map_err(|error| Failure::failed(error.to_string()))
}

fn welcome(shop: Shop) {
    say(format!(
        "A shop takes {} orders. The tax table lacks a district, so {} of them cannot be priced (one in {});",
        count(shop.orders),
        count(shop.untaxed()),
        count(shop::ONE_IN)
    ));
    say(format!(
        "{} event is cut off in the middle; and the tax service will be away for a while.",
        shop.malformed()
    ));
    say("");
}

/// The pipeline of the shop marks its deployments, so the office can say what began after which.
async fn deployed(store: &DynStore, now: Timestamp) -> Outcome {
    let what = NewDeploy {
        version: story::VERSION.to_owned(),
        consumer: Some(story::GROUP.to_owned()),
        ..NewDeploy::default()
    };
    let deed = Deed { author: "shop-pipeline".to_owned(), reason: None, reference: None };
    store.mark_deploy(&what, now, &deed, now).await.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(())
}

async fn listen(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).await.map_err(|cause| match cause.kind() {
        std::io::ErrorKind::AddrInUse => Failure::failed(format!(
            "{address} is in use, perhaps by another demo or by `dlo serve`\n  stop it, or give the demo another port: dlo demo --listen 127.0.0.1:{}",
            address.port().wrapping_add(1).max(1_024)
        )),
        _ => Failure::failed(format!("cannot listen on {address}: {cause}")),
    })
}

fn open(home: &Home) -> Outcome<DynStore> {
    let opened = SqliteStore::open(home.directory(), StoreLimits::default());
    Ok(opened.map_err(|error| Failure::new(Exit::Refused, error.to_string()))?)
}

/// The office of the demo: everything by default, and one team that owns what the tax table does.
fn config(home: &Home) -> Outcome<ServerConfig> {
    let when = OwnerWhen { class: Some("KeyError".into()), ..OwnerWhen::default() };
    let written = vec![OwnerRule { when, owner: "tax-team".to_owned() }];
    let owners = Owners::compile(written.clone()).map_err(|error| Failure::failed(error.to_string()))?;
    // Each order is priced and told of within milliseconds; this is for a machine that is busy with other things.
    let settings =
        Settings { window: HumanDuration(Duration::from_secs(15)), ramp: 1, ..Settings::default() };
    let sources = [(story::QUEUE.to_owned(), SourceReplay { settings, ..SourceReplay::default() })].into();
    Ok(ServerConfig {
        owners,
        written: WrittenRules { owners: written, ..WrittenRules::default() },
        scratch: Some(home.directory().to_path_buf()),
        teams: Teams(
            [("tax-team".to_owned(), Team { contact: Some("#tax-on-call".to_owned()), ..Team::default() })]
                .into(),
        ),
        repair: crate::wire::repair(Schemas::default())?,
        replay: ReplayRules { sources, ..ReplayRules::default() },
        ..ServerConfig::default()
    })
}

/// A first signal closes everything in order, a second one at once.
async fn interrupt(mut signals: Signals, stop: CancellationToken) {
    signals.next().await;
    stop.cancel();
    say("closing the office; a second Ctrl-C stops at once");
    signals.next().await;
    // Nothing that the office has taken is lost by this: it was durable before the broker was told.
    std::process::exit(Exit::Failed as i32);
}

/// Ctrl-C, and what service managers send.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Outcome<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
