//! Random stories of replays: whatever happens in whatever order, letters, items and counts agree, and no letter is on its
//! way twice.

use std::collections::BTreeMap;

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Step;
use dlo_core::replay::ReplayState;
use dlo_core::time::Timestamp;
use dlo_store::replays::{Conclusion, Run, SendEnd, Settling, ToSend, Turn};
use dlo_store::{DynStore, Lease};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

use crate::conformance::Home;
use crate::letters::{at, batch, deed, insert, letter};
use crate::replaying::{back, conserved, lease, new_replay, of_query, ordered, orders, policy};

/// What happens to a replay, which is chosen by chance.
#[derive(Debug, Clone)]
enum Act {
    Insert(u8),
    Plan {
        ordered: bool,
    },
    Turn(Index, ReplayState),
    Claim(Index, usize),
    Intend(Index, usize),
    IntendAgain(Index, Vec<u64>),
    Record(Index, Vec<(u64, SendEnd)>),
    Doubt(Index),
    Settle(Index, Vec<u64>, Settling),
    Conclude(Index, Vec<u64>, Conclusion),
    GiveBack(Index, usize),
    Receipt(Index, Vec<u64>),
    /// One that was published dies.
    Die(Index),
    Discard(Index),
}

fn acts() -> impl Strategy<Value = Act> {
    let index = any::<Index>;
    let numbers = || proptest::collection::vec(0..8_u64, 1..5);
    let end = prop_oneof![
        4 => Just(SendEnd::Sent { partition: None, offset: Some(3) }),
        1 => Just(SendEnd::Unsent),
        1 => Just(SendEnd::Refused("no".into())),
        1 => Just(SendEnd::Doubtful),
    ];
    let ends = proptest::collection::vec((0..8_u64, end), 1..6);
    let states = [ReplayState::Running, ReplayState::Canary, ReplayState::Paused, ReplayState::Cancelled];
    let settlings = [Settling::FoundSent, Settling::FoundUnsent, Settling::Recovered, Settling::Open];
    let conclusions = [Conclusion::Passed, Conclusion::Presumed, Conclusion::Routed, Conclusion::Unknown];
    prop_oneof![
        2 => (1..5_u8).prop_map(Act::Insert),
        2 => any::<bool>().prop_map(|ordered| Act::Plan { ordered }),
        3 => (index(), select(states.to_vec())).prop_map(|(at, to)| Act::Turn(at, to)),
        3 => (index(), 1..6_usize).prop_map(|(at, most)| Act::Claim(at, most)),
        5 => (index(), 1..6_usize).prop_map(|(at, most)| Act::Intend(at, most)),
        1 => (index(), numbers()).prop_map(|(at, numbers)| Act::IntendAgain(at, numbers)),
        5 => (index(), ends).prop_map(|(at, ends)| Act::Record(at, ends)),
        1 => index().prop_map(Act::Doubt),
        2 => (index(), numbers(), select(settlings.to_vec())).prop_map(|(at, n, how)| Act::Settle(at, n, how)),
        2 => (index(), numbers(), select(conclusions.to_vec())).prop_map(|(at, n, how)| Act::Conclude(at, n, how)),
        1 => (index(), 1..4_usize).prop_map(|(at, most)| Act::GiveBack(at, most)),
        1 => (index(), numbers()).prop_map(|(at, numbers)| Act::Receipt(at, numbers)),
        3 => index().prop_map(Act::Die),
        1 => index().prop_map(Act::Discard),
    ]
}

/// What the test knows of the office.
struct Story {
    store: DynStore,
    letters: Vec<LetterId>,
    replays: Vec<(ReplayId, Lease)>,
    /// Every send that may be out there.
    published: Vec<(ReplayId, u64, LetterId)>,
    clock: i64,
}

impl Story {
    fn now(&self) -> Timestamp {
        at(100_000 + self.clock)
    }

    fn pick(&self, index: &Index) -> Option<(ReplayId, &Lease)> {
        (!self.replays.is_empty()).then(|| index.get(&self.replays)).map(|(id, lease)| (*id, lease))
    }

    async fn play(&mut self, act: Act) {
        self.clock += 1;
        let now = self.now();
        match act {
            Act::Insert(count) => {
                let first = self.letters.len() as i64;
                let keyed = |n: i64| letter(n, |l| l.message.key = Some(vec![b'a' + (n % 3) as u8].into()));
                let new = (first..first + i64::from(count)).map(keyed).collect();
                self.letters.extend(insert(&self.store, new).await);
            }
            Act::Plan { ordered: keep } => {
                let policy = if keep { ordered() } else { policy(&["orders"]) };
                let plan = self.store.plan(new_replay(of_query(orders()), policy), now).await.unwrap();
                for part in self.store.children(plan.id).await.unwrap().into_iter().chain([plan]) {
                    self.replays.push((part.id, lease(&self.store, part.id, "one").await));
                }
            }
            Act::Die(index) => {
                let Some((replay, number, id)) =
                    (!self.published.is_empty()).then(|| *index.get(&self.published))
                else {
                    return;
                };
                let death = back(50_000 + self.clock, id, replay, number, "TaxRuleMissing");
                self.store.insert(batch(vec![death]), now).await.unwrap();
            }
            Act::Discard(index) => {
                if !self.letters.is_empty() {
                    let id = *index.get(&self.letters);
                    self.store.step(&[id], Step::Discard, &deed("eve"), now).await.unwrap();
                }
            }
            act => self.run(act, now).await,
        }
    }

    /// What concerns one replay.
    async fn run(&mut self, act: Act, now: Timestamp) {
        let (Act::Turn(index, _)
        | Act::Claim(index, _)
        | Act::Intend(index, _)
        | Act::IntendAgain(index, _)
        | Act::Record(index, _)
        | Act::Doubt(index)
        | Act::Settle(index, ..)
        | Act::Conclude(index, ..)
        | Act::GiveBack(index, _)
        | Act::Receipt(index, _)) = &act
        else {
            return;
        };
        let Some((id, lease)) = self.pick(index) else { return };
        let (run, store, eve) = (Run { id, lease }, &self.store, deed("eve"));
        let mut sent: Vec<ToSend> = Vec::new();
        match act {
            Act::Turn(_, to) => {
                let from = store.replay(id).await.unwrap().state;
                let turn = Turn { from, to, stop_reason: None, stop_letters: Vec::new() };
                // Illegal ones are refused, and that is their test elsewhere.
                let _ = store.turn(id, turn, &eve, now).await;
            }
            Act::Claim(_, most) => drop(store.claim(&run, most, now).await.unwrap()),
            Act::Intend(_, most) => sent = store.intend(&run, most, now).await.unwrap(),
            Act::IntendAgain(_, numbers) => sent = store.intend_again(&run, &numbers, now).await.unwrap(),
            Act::Record(_, ends) => store.record(&run, ends, now).await.unwrap(),
            Act::Doubt(_) => drop(store.doubt(&run, now).await.unwrap()),
            Act::Settle(_, numbers, how) => drop(store.settle(id, &numbers, how, &eve, now).await.unwrap()),
            Act::Conclude(_, numbers, how) => drop(store.conclude(&run, &numbers, how, now).await.unwrap()),
            Act::GiveBack(_, most) => drop(store.give_back(&run, most, now).await.unwrap()),
            Act::Receipt(_, numbers) => {
                let told: Vec<_> = numbers.into_iter().map(|number| (id, number)).collect();
                store.receipts(&told, &eve, now).await.unwrap();
            }
            Act::Insert(_) | Act::Plan { .. } | Act::Die(_) | Act::Discard(_) => {}
        }
        self.published.extend(sent.iter().map(|item| (id, item.number, item.letter)));
        self.no_letter_is_on_its_way_twice().await;
    }

    async fn no_letter_is_on_its_way_twice(&self) {
        let mut hands: BTreeMap<LetterId, ReplayId> = BTreeMap::new();
        for (id, _) in &self.replays {
            let page = dlo_store::Page::first(500);
            for item in self.store.items(*id, None, &page).await.unwrap().items {
                use dlo_core::replay::ItemState::{Claimed, InDoubt, Intended, Sent};
                if matches!(item.state, Claimed | Intended | Sent | InDoubt) {
                    let other = hands.insert(item.letter, *id);
                    assert_eq!(other, None, "{} is in two hands", item.letter);
                }
            }
        }
    }
}

/// Runs `cases` random stories, each on a fresh home.
pub(crate) fn random_replays_keep_everything_consistent<H: Home>(cases: u32, fresh: impl AsyncFn() -> H) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { cases, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    let story = proptest::collection::vec(acts(), 5..60);
    let outcome = TestRunner::new(config).run(&story, |acts| {
        runtime.block_on(async {
            let home = fresh().await;
            let store = home.open().await;
            let (letters, replays, published) = (Vec::new(), Vec::new(), Vec::new());
            let mut story = Story { store: store.clone(), letters, replays, published, clock: 0 };
            story.play(Act::Insert(4)).await;
            story.play(Act::Plan { ordered: acts.len() % 2 == 0 }).await;
            for act in acts {
                story.play(act).await;
                conserved(&store).await;
            }
            store.close().await.unwrap();
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
