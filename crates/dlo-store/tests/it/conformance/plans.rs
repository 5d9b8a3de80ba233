//! Plans: which letters become members, what is said of the others, and where a replay may go.

use dlo_core::id::ReplayId;
use dlo_core::letter::{Status, Step};
use dlo_core::query::{Matcher, Query};
use dlo_core::replay::{Exclusion, ItemState, Pace, Replay, ReplayCause, ReplayState, Settings};
use dlo_store::replays::{Members, NewReplay, PlanPolicy, Run, Turn};
use dlo_store::{DynStore, Event, Page, StoreError};

use super::Home;
use crate::letters::{NOW, at, batch, deed, insert, letter, query};
use crate::replaying::{
    back, conserved, intend, lease, new_replay, of_query, ordered, orders, plan_orders, policy, record_sent,
    running, started, states, turn,
};

fn excluded(replay: &Replay) -> Vec<(Exclusion, u64)> {
    replay.excluded.iter().map(|left| (left.why, left.count)).collect()
}

async fn letters_of(store: &DynStore, id: ReplayId) -> Vec<dlo_core::id::LetterId> {
    let page = store.items(id, None, &Page::first(500)).await.unwrap();
    page.items.iter().map(|item| item.letter).collect()
}

pub(crate) async fn a_plan_is_frozen_oldest_failure_first(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(3, |_| {}), letter(1, |_| {}), letter(2, |_| {})]).await;
    let replay = plan_orders(&store, policy(&["orders"])).await;
    insert(&store, vec![letter(0, |_| {})]).await;
    assert_eq!(letters_of(&store, replay.id).await, [ids[1], ids[2], ids[0]]);
    assert_eq!(replay.counts.get(ItemState::Frozen), 3);
    assert_eq!(store.replay(replay.id).await.unwrap(), replay);
    assert_eq!((replay.source.as_deref(), replay.state), (Some("orders"), ReplayState::Planned));
    assert_eq!(replay.error_class.as_deref(), Some("TaxRuleMissing"));
    assert_eq!(replay.event_type.as_deref(), Some("OrderPlaced"));
    assert_eq!((replay.by_class[0].count, replay.by_class[0].oldest), (3, at(1)));
    assert_eq!(store.stats().await.unwrap().letters.get(Status::Open), 4);
    conserved(&store).await;
}

pub(crate) async fn a_plan_says_what_it_was_told(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    let settings = Settings { pace: Pace::Share(0.25), canary: 7, ..Settings::default() };
    let new = NewReplay {
        settings: settings.clone(),
        cause: Some(ReplayCause::Dependency),
        ..new_replay(of_query(orders()), policy(&["orders"]))
    };
    let id = new.id;
    store.plan(new, at(5)).await.unwrap();
    let found = store.replay(id).await.unwrap();
    assert_eq!((found.settings, found.cause), (settings, Some(ReplayCause::Dependency)));
    assert_eq!((found.author.as_str(), found.reason.as_str()), ("ann", "the table was restored"));
    assert_eq!((found.created_at, found.expires_at), (at(5), at(3_600_000)));
    assert_eq!((found.query.as_deref(), found.parent, found.ordinal), (Some("source:orders"), None, 1));
    assert_eq!((found.started_at, found.ended_at, found.stop_reason), (None, None, None));
    let missing = ReplayId::new(NOW, [1; 10]);
    assert!(matches!(store.replay(missing).await, Err(StoreError::NoReplay(id)) if id == missing));
    let entry = &store.audit(&Page::first(1)).await.unwrap().entries[0];
    assert_eq!((entry.what, entry.count), (Event::Replay(ReplayState::Planned), 1));
    assert_eq!((entry.author.as_str(), entry.reference.clone()), ("ann", Some(id.to_string())));
}

pub(crate) async fn of_a_plan_without_members_nothing_is_written_if_so_asked(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    let policy = PlanPolicy { unless_empty: true, ..policy(&["mail"]) };
    let void = store.plan(new_replay(of_query(orders()), policy.clone()), NOW).await.unwrap();
    assert_eq!((void.counts.total(), excluded(&void)), (0, vec![(Exclusion::NoTarget, 1)]));
    assert!(matches!(store.replay(void.id).await, Err(StoreError::NoReplay(_))));
    let policy = PlanPolicy { unless_empty: true, ..crate::replaying::policy(&["orders"]) };
    let whole = store.plan(new_replay(of_query(orders()), policy), NOW).await.unwrap();
    assert_eq!(store.replay(whole.id).await.unwrap(), whole);
}

pub(crate) async fn what_is_left_out_of_a_plan_is_counted(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(
        &store,
        vec![
            letter(1, |_| {}),
            letter(2, |l| l.message.payload = vec![b'x'; 2_000].into()),
            letter(3, |l| l.message.headers.push_text("dlo-record", "gone")),
            letter(4, |l| l.message.headers.push_text("dlo-record", "fetched")),
            letter(5, |_| {}),
            letter(6, |l| l.source = "mail".into()),
            letter(7, |_| {}),
        ],
    )
    .await;
    store.step(&ids[4..5], Step::Discard, &deed("ann"), NOW).await.unwrap();
    for step in [Step::Claim, Step::Send, Step::SettleOpen].repeat(3) {
        store.step(&ids[6..], step, &deed("ann"), NOW).await.unwrap();
    }
    let policy = PlanPolicy { max_payload: Some(1_000), ..policy(&["orders"]) };
    let everything = query([Matcher::Type("OrderPlaced".into())]);
    let replay = store.plan(new_replay(of_query(everything), policy), NOW).await.unwrap();
    assert_eq!(letters_of(&store, replay.id).await, [ids[0], ids[3]]);
    assert_eq!(
        excluded(&replay),
        [
            (Exclusion::NotOpen, 1),
            (Exclusion::Exhausted, 1),
            (Exclusion::PointerOnly, 1),
            (Exclusion::TooLarge, 1),
            (Exclusion::NoTarget, 1)
        ]
    );
    assert_eq!(store.replay(replay.id).await.unwrap().excluded, replay.excluded);
}

pub(crate) async fn only_open_letters_are_members_whatever_the_query_says(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, (0..4).map(|n| letter(n, |_| {})).collect()).await;
    store.step(&ids[..3], Step::Discard, &deed("ann"), NOW).await.unwrap();
    let found = async |query: Query| {
        let new = new_replay(of_query(query), policy(&["orders"]));
        let replay = store.plan(new, NOW).await.unwrap();
        (replay.counts.total(), excluded(&replay))
    };
    let discarded = query([Matcher::Status(Status::Discarded)]);
    assert_eq!(found(discarded).await, (0, vec![(Exclusion::NotOpen, 3)]));
    assert_eq!(found(query([Matcher::Status(Status::Open)])).await, (1, vec![]));
    // By what only rows and words know, too.
    let words = query([Matcher::Text("tax table".into())]);
    assert_eq!(found(words).await, (1, vec![(Exclusion::NotOpen, 3)]));
}

pub(crate) async fn what_another_replay_has_in_hand_is_left_out_by_its_name(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, (0..4).map(|n| letter(n, |_| {})).collect()).await;
    let first = Members::Ids(ids[..2].to_vec());
    let holder = store.plan(new_replay(first, policy(&["orders"])), NOW).await.unwrap();
    let (holder, lease) = started(&store, holder).await;
    store.claim(&Run { id: holder.id, lease: &lease }, 1_000, NOW).await.unwrap();
    let named = |replay: &Replay| {
        replay.excluded.iter().map(|one| (one.why, one.count, one.held_by)).collect::<Vec<_>>()
    };
    let whole = query([Matcher::Type("OrderPlaced".into())]);
    for members in [of_query(whole), Members::Ids(ids.clone())] {
        let replay = store.plan(new_replay(members, policy(&["orders"])), NOW).await.unwrap();
        assert_eq!(letters_of(&store, replay.id).await, ids[2..]);
        assert_eq!(named(&replay), [(Exclusion::Held, 2, Some(holder.id))]);
        assert_eq!(store.replay(replay.id).await.unwrap().excluded, replay.excluded);
    }
}

pub(crate) async fn a_letter_knows_the_replay_that_has_it_in_hand(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 2).await;
    assert_eq!(store.holder(ids[0]).await.unwrap(), None, "it is frozen, and still anybody's");
    let run = Run { id: replay.id, lease: &lease };
    store.claim(&run, 1_000, NOW).await.unwrap();
    plan_orders(&store, policy(&["orders"])).await;
    assert_eq!(store.holder(ids[0]).await.unwrap(), Some(replay.id));
    turn(&store, replay.id, ReplayState::Cancelled).await;
    store.give_back(&run, 1_000, NOW).await.unwrap();
    assert_eq!(store.holder(ids[0]).await.unwrap(), None);
    let missing = dlo_core::id::LetterId::new(NOW, [7; 10]);
    assert_eq!(store.holder(missing).await.unwrap(), None);
}

pub(crate) async fn a_plan_of_ids_has_these_and_no_others(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, (0..4).map(|n| letter(n, |_| {})).collect()).await;
    store.step(&ids[1..2], Step::Discard, &deed("ann"), NOW).await.unwrap();
    let named = vec![ids[2], ids[0], ids[1], ids[2]];
    let new = new_replay(Members::Ids(named), policy(&["orders"]));
    let replay = store.plan(new, NOW).await.unwrap();
    assert_eq!(letters_of(&store, replay.id).await, [ids[0], ids[2]]);
    assert_eq!((excluded(&replay), &replay.query), (vec![(Exclusion::NotOpen, 1)], &None));
    let missing = dlo_core::id::LetterId::new(NOW, [7; 10]);
    let refused = store.plan(new_replay(Members::Ids(vec![missing]), policy(&["orders"])), NOW).await;
    assert!(matches!(refused, Err(StoreError::NoLetter(id)) if id == missing), "{refused:?}");
}

pub(crate) async fn several_causes_become_children_by_their_oldest_letter(home: &dyn Home) {
    let store = home.open().await;
    let class = |n: i64, class: &'static str| letter(n, |l| l.error_class = Some(class.into()));
    let ids = insert(&store, vec![class(1, "B"), class(2, "A"), class(3, "B")]).await;
    let parent = plan_orders(&store, policy(&["orders"])).await;
    let children = store.children(parent.id).await.unwrap();
    let told: Vec<_> = children
        .iter()
        .map(|child| (child.ordinal, child.error_class.as_deref(), child.parent, child.counts.total()))
        .collect();
    assert_eq!(told, [(1, Some("B"), Some(parent.id), 2), (2, Some("A"), Some(parent.id), 1)]);
    assert_eq!((parent.counts.total(), parent.error_class.as_deref()), (3, None));
    assert_eq!((parent.source.as_deref(), parent.by_class.len()), (Some("orders"), 2));
    assert_eq!(store.replay(parent.id).await.unwrap(), parent);
    assert_eq!(letters_of(&store, parent.id).await, []);
    assert_eq!(letters_of(&store, children[0].id).await, [ids[0], ids[2]]);
    assert_eq!(store.children(children[0].id).await.unwrap(), []);
    let listed = store.replays(None, &Page::first(10)).await.unwrap();
    assert_eq!(listed.replays.iter().map(|replay| replay.id).collect::<Vec<_>>(), [parent.id]);
    conserved(&store).await;
}

pub(crate) async fn order_holds_back_superseded_letters_and_keys_that_span_classes(home: &dyn Home) {
    let store = home.open().await;
    let keyed = |n: i64, key: &'static str, class: &'static str| {
        letter(n, |l| {
            l.message.key = Some(key.into());
            l.error_class = Some(class.into());
        })
    };
    let ids = insert(
        &store,
        vec![
            keyed(1, "overtaken", "A"),
            keyed(2, "overtaken", "A"),
            keyed(3, "spans", "A"),
            keyed(4, "spans", "B"),
            keyed(5, "free", "A"),
        ],
    )
    .await;
    for step in [Step::Claim, Step::Send, Step::Confirm] {
        store.step(&ids[1..2], step, &deed("ann"), NOW).await.unwrap();
    }
    let replay = plan_orders(&store, ordered()).await;
    assert_eq!(letters_of(&store, replay.id).await, [ids[4]]);
    assert_eq!(
        excluded(&replay),
        [(Exclusion::NotOpen, 1), (Exclusion::Superseded, 1), (Exclusion::KeySpansClasses, 2)]
    );
    assert!(replay.settings.order);
}

pub(crate) async fn replays_are_listed_newest_first_page_by_page(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    let mut planned = Vec::new();
    for _ in 0..5 {
        planned.push(plan_orders(&store, policy(&["orders"])).await.id);
    }
    turn(&store, planned[1], ReplayState::Cancelled).await;
    let first = store.replays(None, &Page::first(3)).await.unwrap();
    let second = store.replays(None, &Page { limit: 3, cursor: first.next.clone() }).await.unwrap();
    let seen: Vec<_> = first.replays.iter().chain(&second.replays).map(|replay| replay.id).collect();
    planned.reverse();
    assert_eq!((seen, second.next), (planned.clone(), None));
    let cancelled = store.replays(Some(ReplayState::Cancelled), &Page::first(3)).await.unwrap();
    assert_eq!(cancelled.replays.iter().map(|replay| replay.id).collect::<Vec<_>>(), [planned[3]]);
    let foreign = Page { limit: 3, cursor: Some(dlo_store::Cursor("x".into())) };
    assert!(matches!(store.replays(None, &foreign).await, Err(StoreError::BadCursor)));
}

pub(crate) async fn items_are_paged_in_order_and_by_state(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, _) = running(&store, 5).await;
    let run = Run { id: replay.id, lease: &lease };
    store.claim(&run, 2, NOW).await.unwrap();
    let first = store.items(replay.id, None, &Page::first(3)).await.unwrap();
    let second = store.items(replay.id, None, &Page { limit: 3, cursor: first.next.clone() }).await.unwrap();
    let numbers: Vec<_> = first.items.iter().chain(&second.items).map(|item| item.number).collect();
    assert_eq!((numbers, second.next), (vec![0, 1, 2, 3, 4], None));
    let frozen = store.items(replay.id, Some(ItemState::Frozen), &Page::first(9)).await.unwrap();
    assert_eq!(frozen.items.iter().map(|item| item.number).collect::<Vec<_>>(), [2, 3, 4]);
}

pub(crate) async fn a_replay_goes_where_it_may_and_says_so(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {})]).await;
    let id = plan_orders(&store, policy(&["orders"])).await.id;
    let moved = |from: ReplayState, to: ReplayState| Turn {
        from,
        to,
        stop_reason: Some("3 came back".into()),
        stop_letters: ids.clone(),
    };
    let started = moved(ReplayState::Planned, ReplayState::Canary);
    let replay = store.turn(id, started.clone(), &deed("ben"), at(1)).await.unwrap();
    assert_eq!(
        (replay.state, replay.started_at, replay.stop_reason),
        (ReplayState::Canary, Some(at(1)), None)
    );
    let again = store.turn(id, started, &deed("ben"), at(2)).await;
    assert!(matches!(again, Err(StoreError::Conflict { found: ReplayState::Canary, .. })), "{again:?}");
    let back = store.turn(id, moved(ReplayState::Canary, ReplayState::Planned), &deed("ben"), at(2)).await;
    assert!(matches!(back, Err(StoreError::Conflict { found: ReplayState::Canary, .. })), "{back:?}");
    let stopped = moved(ReplayState::Canary, ReplayState::Stopped);
    store.turn(id, stopped, &deed("office"), at(3)).await.unwrap();
    let found = store.replay(id).await.unwrap();
    assert_eq!((found.stop_reason.as_deref(), &found.stop_letters), (Some("3 came back"), &ids));
    let entry = &store.audit(&Page::first(1)).await.unwrap().entries[0];
    assert_eq!((entry.what, entry.author.as_str()), (Event::Replay(ReplayState::Stopped), "office"));
    let resumed = moved(ReplayState::Stopped, ReplayState::Running);
    let found = store.turn(id, resumed, &deed("ben"), at(4)).await.unwrap();
    assert_eq!((found.stop_reason, found.stop_letters, found.started_at), (None, vec![], Some(at(1))));
    let over = store.turn(id, moved(ReplayState::Running, ReplayState::Cancelled), &deed("ben"), at(5)).await;
    assert_eq!(over.unwrap().ended_at, Some(at(5)));
}

pub(crate) async fn settings_are_adjusted_until_a_replay_is_over(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    let id = plan_orders(&store, policy(&["orders"])).await.id;
    let faster = Settings { pace: Pace::Max, ..Settings::default() };
    let replay = store.adjust(id, faster.clone(), &deed("ben"), NOW).await.unwrap();
    assert_eq!((replay.settings, store.replay(id).await.unwrap().settings), (faster.clone(), faster.clone()));
    assert_eq!(store.audit(&Page::first(1)).await.unwrap().entries[0].what, Event::Adjusted);
    let reordered = Settings { order: true, ..faster.clone() };
    let refused = store.adjust(id, reordered, &deed("ben"), NOW).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    turn(&store, id, ReplayState::Cancelled).await;
    let refused = store.adjust(id, faster, &deed("ben"), NOW).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict { found: ReplayState::Cancelled, .. })),
        "{refused:?}"
    );
}

pub(crate) async fn what_a_server_should_have_in_hand_is_listed(home: &dyn Home) {
    let store = home.open().await;
    let (one, lease_one, _) = running(&store, 2).await;
    let run = Run { id: one.id, lease: &lease_one };
    let active = async || {
        let active = store.active().await.unwrap();
        active.iter().map(|replay| replay.id).collect::<Vec<_>>()
    };
    let planned = plan_orders(&store, policy(&["orders"])).await;
    assert_eq!(active().await, [one.id]);
    intend(&store, &run, 1, NOW).await;
    record_sent(&store, &run, &[0], NOW).await;
    turn(&store, one.id, ReplayState::Paused).await;
    assert_eq!(active().await, []);
    turn(&store, one.id, ReplayState::Cancelled).await;
    assert_eq!(active().await, [one.id], "one letter is claimed, one is sent");
    assert_eq!(store.give_back(&run, 10, NOW).await.unwrap(), 1);
    assert_eq!(active().await, [one.id], "one is sent");
    store.conclude(&run, &[0], dlo_store::replays::Conclusion::Presumed, NOW).await.unwrap();
    assert_eq!(active().await, []);
    turn(&store, planned.id, ReplayState::Canary).await;
    assert_eq!(active().await, [planned.id]);
}

pub(crate) async fn the_usual_time_to_die_is_that_of_members_that_died_once(home: &dyn Home) {
    let store = home.open().await;
    let slow = |n: i64| letter(n, |l| l.first_failed_at = Some(at(n - 10 * (n + 1))));
    let mut letters: Vec<_> = (0..99).map(slow).collect();
    letters.push(letter(100_000, |l| l.first_failed_at = Some(at(0))));
    insert(&store, letters).await;
    let replay = plan_orders(&store, policy(&["orders"])).await;
    let usual = store.usual_death(replay.id).await.unwrap();
    assert_eq!(usual, Some(std::time::Duration::from_millis(990)));
    let (replay, lease) = started(&store, replay).await;
    let ids = letters_of(&store, replay.id).await;
    let run = Run { id: replay.id, lease: &lease };
    intend(&store, &run, 100, NOW).await;
    let all: Vec<u64> = (0..100).collect();
    record_sent(&store, &run, &all, NOW).await;
    let died = back(900_000, ids[98], replay.id, 98, "Other");
    store.insert(batch(vec![died]), at(900_000)).await.unwrap();
    let usual = store.usual_death(replay.id).await.unwrap();
    assert_eq!(usual, Some(std::time::Duration::from_millis(100_000)));
    assert_eq!(states(&store, replay.id).await[98], ItemState::Returned);
}

pub(crate) async fn a_plan_without_members_is_a_plan(home: &dyn Home) {
    let store = home.open().await;
    let replay = plan_orders(&store, policy(&["orders"])).await;
    assert_eq!((replay.counts.total(), replay.source.as_deref()), (0, None));
    assert_eq!(store.usual_death(replay.id).await.unwrap(), None);
    let lease = lease(&store, replay.id, "one").await;
    turn(&store, replay.id, ReplayState::Running).await;
    let run = Run { id: replay.id, lease: &lease };
    assert_eq!(intend(&store, &run, 10, NOW).await, []);
}
