//! A run: instances that come, crash, are replaced and come again, until the plan's trouble is over and all is at rest.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use dlo_core::classify::Ruleset;
use dlo_core::message::{Message, Payload};
use dlo_core::units::HumanDuration;
use dlo_runtime::{Consumer, ConsumerConfig, Policy};
use dlo_testkit::clock::TokioClock;
use dlo_testkit::sim::{Fact, Life, Log, Noted, SimBroker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::handler::{Hand, Stage};
use super::model::Fault;
use super::plan::Plan;

/// When the trouble is over, everything is at rest within this time.
const REST: Duration = Duration::from_secs(3_600);
/// How often somebody looks whether a brake is on.
const LOOKED_AFTER: Duration = Duration::from_secs(1_000);
/// An instance that is told to stop has stopped by then.
const STOP: Duration = Duration::from_secs(120);

/// What a run leaves behind.
pub(super) struct Facts {
    pub(super) log: Vec<Noted>,
    /// Whether it came to rest and stopped.
    pub(super) ended: Result<(), Fault>,
}

pub(super) fn run(plan: &Plan) -> Facts {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let log = Arc::new(Log::default());
        let ended = Arc::new(Town::new(plan, Arc::clone(&log))).run(plan).await;
        Facts { log: log.take(), ended }
    })
}

/// Everything that the instances of a run share.
struct Town {
    broker: SimBroker,
    stage: Arc<Stage>,
    clock: Arc<TokioClock>,
    lives: AtomicU32,
    calm: Instant,
    over: CancellationToken,
    /// Where instances keep journal and spool, if they do.
    home: Option<TempDir>,
}

impl Town {
    fn new(plan: &Plan, log: Arc<Log>) -> Self {
        let (shape, trouble) = (plan.shape, plan.trouble.clone());
        Self {
            broker: SimBroker::new(shape, plan.partitions, trouble, plan.seed, Arc::clone(&log)),
            stage: Arc::new(Stage::new(plan, log)),
            clock: Arc::new(TokioClock::new()),
            lives: AtomicU32::new(0),
            calm: Instant::now() + plan.trouble.until,
            over: CancellationToken::new(),
            home: plan.keeps_state.then(|| tempfile::tempdir_in(fastest()).unwrap()),
        }
    }

    async fn run(self: Arc<Self>, plan: &Plan) -> Result<(), Fault> {
        let mut instances = JoinSet::new();
        for place in 0..plan.places {
            let random = StdRng::seed_from_u64(plan.seed ^ ((place as u64 + 1) << 32));
            instances.spawn(Instance::new(plan, place, random).run(Arc::clone(&self)));
        }
        self.send(plan).await;
        sleep_until(self.calm).await;
        if timeout(REST, self.broker.at_rest()).await.is_err() {
            let open = self.broker.open();
            let what = format!("not at rest {REST:?} after the last trouble; still there: {open:?}");
            return Err(Fault { message: open.first().copied(), what });
        }
        self.over.cancel();
        let stopped = async {
            while let Some(ended) = instances.join_next().await {
                ended.map_err(|defect| Fault::of_run(format!("an instance panicked: {defect}")))??;
            }
            Ok::<(), Fault>(())
        };
        timeout(STOP, stopped).await.map_err(|_| Fault::of_run("an instance does not stop"))??;
        // Tasks that were aborted are gone when the scheduler has met them once more.
        sleep(Duration::from_millis(1)).await;
        match Handle::current().metrics().num_alive_tasks() {
            0 => Ok(()),
            // A consumer whose future is dropped may leave workers behind; the narrow runs look at good ends only.
            _ if plan.crashes_within.is_some() && !plan.wide => Ok(()),
            left => Err(Fault::of_run(format!("{left} tasks run on after every consumer has ended"))),
        }
    }

    /// Waits for that long, or for the end of the run.
    async fn wait(&self, time: Option<Duration>) {
        let Some(time) = time else { return self.over.cancelled().await };
        drop(timeout(time, self.over.cancelled()).await);
    }

    async fn send(&self, plan: &Plan) {
        let began = Instant::now();
        let mut numbers: Vec<usize> = (0..plan.messages.len()).collect();
        numbers.sort_by_key(|number| plan.messages[*number].sent);
        for number in numbers {
            let script = &plan.messages[number];
            sleep_until(began + script.sent).await;
            let key = script.key.clone().map(Payload::from);
            let payload = Payload::from(number.to_string());
            self.broker.send(Message { key, payload, ..Message::default() });
        }
    }
}

/// One place where a process runs, and another after it.
struct Instance {
    place: usize,
    config: ConsumerConfig,
    policy: Policy,
    /// The directory of the state, which is another one after each crash.
    state: Option<PathBuf>,
    crashes_within: Option<u64>,
    deployed_within: Option<Duration>,
    random: StdRng,
}

impl Instance {
    fn new(plan: &Plan, place: usize, random: StdRng) -> Self {
        Self {
            place,
            config: ConsumerConfig {
                group: "pricing".to_owned(),
                concurrency: plan.concurrency,
                prefetch: Some(plan.prefetch),
                order: plan.order,
                behind: plan.behind,
                alone: plan.places == 1,
                drain: HumanDuration(plan.drain),
                ..ConsumerConfig::default()
            },
            policy: plan.policy.clone(),
            state: None,
            crashes_within: plan.crashes_within,
            deployed_within: plan.deployed_within,
            random,
        }
    }

    async fn run(mut self, town: Arc<Town>) -> Result<(), Fault> {
        self.state = town.home.as_ref().map(|home| home.path().join(format!("place-{}", self.place)));
        while !town.over.is_cancelled() {
            self.live(&town).await?;
            town.wait(Some(Duration::from_millis(self.random.random_range(0..2_000)))).await;
        }
        Ok(())
    }

    /// One process, from its start to its end.
    async fn live(&mut self, town: &Town) -> Result<(), Fault> {
        let (life, log) = (self.be_born(town), &town.stage.log);
        log.note(Fact::Started { life: life.id, place: self.place });
        let (source, publisher) = town.broker.connect(&life);
        let stop = CancellationToken::new();
        let consumer = Consumer::builder(source, publisher)
            .config(ConsumerConfig { state: self.state.clone(), ..self.config.clone() })
            .policy(self.policy.clone())
            .rules(rules())
            .handler(Hand { stage: Arc::clone(&town.stage), life: Arc::clone(&life), stop: stop.clone() })
            .clock(town.clock.clone())
            .seed(self.random.random());
        let consumer = if self.state.is_none() { consumer.stateless() } else { consumer };
        let consumer = consumer.build().map_err(|error| Fault::of_run(error.to_string()))?;
        let controls = consumer.controls();
        let running = Mortal { life: &life, of: Box::pin(consumer.run(stop.clone().cancelled_owned())) };
        let deployed = self.deployed_after(town);
        let stopping = async {
            town.wait(deployed).await;
            log.note(Fact::Stopping(life.id));
            stop.cancel();
            std::future::pending::<()>().await;
        };
        // Where all that is left fails alike the brake stays on until somebody says that it is to be parked.
        let person = async {
            loop {
                sleep(LOOKED_AFTER).await;
                if controls.release_brake().is_some() {
                    log.note(Fact::Note(format!("p{} is released by a person", life.id)));
                }
            }
        };
        tokio::select! {
            biased;
            () = life.over() => {
                town.broker.lost(&life);
                self.state = self.state_after_crash(life.id);
            }
            ended = running => {
                ended.map_err(|error| Fault::of_run(format!("the consumer gave up: {error}")))?;
                log.note(Fact::Stopped(life.id));
            }
            () = stopping => {}
            () = person => {}
        }
        Ok(())
    }

    fn be_born(&mut self, town: &Town) -> Arc<Life> {
        let id = town.lives.fetch_add(1, Ordering::Relaxed);
        let within = self.crashes_within.filter(|_| Instant::now() < town.calm);
        let steps = within.map(|within| self.random.random_range(0..within));
        let log = Arc::clone(&town.stage.log);
        let copied = self.state.clone().zip(self.state_after_crash(id));
        Arc::new(Life::new(id, steps, move || {
            log.note(Fact::Crashed(id));
            if let Some((from, to)) = &copied {
                copy(from, to);
            }
        }))
    }

    /// What is dropped after a crash may still tidy up on disk, and a process that died does not. So the next life gets
    /// a copy of the state as it was in the moment of death.
    fn state_after_crash(&self, life: u32) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.with_file_name(format!("after-{life}")))
    }

    /// After which time it is replaced by another; `None`: at the end of the run.
    fn deployed_after(&mut self, town: &Town) -> Option<Duration> {
        let within = self.deployed_within.filter(|_| Instant::now() < town.calm)?;
        Some(within.mul_f64(self.random.random_range(0.0..1.0)))
    }
}

/// The built-in rules, compiled once: that takes longer than most runs.
fn rules() -> Ruleset {
    static RULES: OnceLock<Ruleset> = OnceLock::new();
    RULES.get_or_init(|| Ruleset::compile(Vec::new()).unwrap()).clone()
}

/// Memory, where there is a file system for it: a run writes much and keeps nothing.
fn fastest() -> PathBuf {
    Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir)
}

fn copy(from: &Path, to: &Path) {
    let Ok(entries) = std::fs::read_dir(from) else { return };
    std::fs::create_dir_all(to).unwrap();
    for entry in entries.map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The main future of a process: each poll is a step of its life.
struct Mortal<'a, F> {
    life: &'a Life,
    of: Pin<Box<F>>,
}

impl<F: Future> Future for Mortal<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.life.live_on() { self.of.as_mut().poll(context) } else { Poll::Pending }
    }
}
