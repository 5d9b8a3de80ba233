//! Splitting by a condition: what is here is moved, what comes is sorted, nothing is lost on the way, and it can be taken back.

use dlo_core::group::{Change, Condition, GroupDeed, GroupStatus};
use dlo_core::id::GroupId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::limits;
use dlo_core::message::Payload;
use dlo_core::query::{Matcher, Query};
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};
use dlo_store::triage::NewSplit;
use dlo_store::{DynStore, Event, StoreError, StoreLimits};

use super::Home;
use super::triage::{id_of, of_class};
use crate::letters::{NOW, at, batch, deed, find_all, insert, letter, problems, query};

fn of_country(n: i64, country: &str) -> NewLetter {
    letter(n, |l| {
        l.message.payload = Payload::from(format!(r#"{{"to":{{"country":"{country}"}}}}"#).into_bytes());
    })
}

fn base() -> GroupId {
    id_of(&of_country(1, "CH"))
}

fn by(condition: &str) -> NewSplit {
    NewSplit { condition: Condition::parse(condition).unwrap(), title: None }
}

async fn split(store: &DynStore, condition: &str) -> GroupId {
    store.split_by(base(), &by(condition), &deed("ann"), at(5_000)).await.unwrap().id
}

async fn moved(store: &DynStore) {
    while store.move_split_letters(at(6_000)).await.unwrap() {}
}

async fn total(store: &DynStore, id: GroupId) -> u64 {
    let group = store.group(id).await.unwrap();
    let found = find_all(store, &query([Matcher::Group(id)]), 100).await;
    assert_eq!(found.len() as u64, group.counts.total());
    assert!(found.iter().all(|letter| letter.group_id == group.id));
    group.counts.total()
}

async fn seen(store: &DynStore, id: GroupId) -> (Timestamp, Timestamp) {
    let group = store.group(id).await.unwrap();
    (group.first_seen, group.last_seen)
}

async fn trend(store: &DynStore, id: GroupId) -> u64 {
    let window = Window::until(at(10_000), Resolution::Hour, 24);
    store.trends(&[id], window).await.unwrap()[0].iter().sum()
}

pub(crate) async fn letters_that_match_become_a_group_of_their_own_and_those_that_come_later_too(
    home: &dyn Home,
) {
    let swiss = {
        let store = home.open().await;
        let countries = ["DE", "CH", "CH", "DE", "CH"];
        insert(&store, (1..).zip(countries).map(|(n, country)| of_country(n * 10, country)).collect()).await;
        let swiss = split(&store, "payload.to.country:CH").await;
        assert_eq!((total(&store, base()).await, total(&store, swiss).await), (5, 0));
        moved(&store).await;
        assert_eq!((total(&store, base()).await, total(&store, swiss).await), (2, 3));
        assert_eq!(
            (seen(&store, base()).await, seen(&store, swiss).await),
            ((at(10), at(40)), (at(20), at(50)))
        );
        assert_eq!((trend(&store, base()).await, trend(&store, swiss).await), (2, 3));
        assert_eq!(store.oldest_open(&[swiss, base()]).await.unwrap(), [Some(at(20)), Some(at(10))]);
        store.close().await.unwrap();
        swiss
    };
    let store = home.open().await;
    store.insert(batch(vec![of_country(60, "CH"), of_country(70, "FR")]), at(200)).await.unwrap();
    assert_eq!((total(&store, base()).await, total(&store, swiss).await), (3, 4));
    assert_eq!((seen(&store, base()).await.1, seen(&store, swiss).await.1), (at(70), at(60)));
    assert_eq!((trend(&store, base()).await, trend(&store, swiss).await), (3, 4));
    let found =
        find_all(&store, &query([Matcher::Group(swiss), Matcher::Class("TaxRuleMissing".into())]), 3).await;
    assert_eq!(found.len(), 4, "a letter keeps its words");
    assert_eq!(store.sample(swiss, 10).await.unwrap().len(), 4);
    assert_eq!((store.stats().await.unwrap().groups, problems(&store).await), (2, vec![]));
}

pub(crate) async fn every_kind_of_condition_sorts_what_is_here_as_it_sorts_what_comes(home: &dyn Home) {
    let store = home.open().await;
    let marked = |n: i64| {
        letter(n, |l| {
            l.message.headers.push_text("X-Tenant", "acme");
            l.message.key = Some(Payload::from("C-7"));
            l.message.payload = Payload::from(r#"{"note":"wholesale customer"}"#);
            l.error_code = Some("E7".into());
            l.attempts = 9;
        })
    };
    let plain = |n: i64| letter(n, |l| l.message.payload = Payload::from(r#"{"note":"private"}"#));
    insert(&store, vec![marked(1), plain(2)]).await;
    for (turn, condition) in (1_i64..).zip([
        "header.x-tenant:acme",
        "key:C-7",
        "\"wholesale cust\"",
        "payload.note:\"wholesale customer\" code:E7",
        "attempts:>8 -private",
        "-payload.note:private",
        "source:orders queue:orders class:TaxRuleMissing -key:C-441 captured:<2030-01-01",
    ]) {
        let made = split(&store, condition).await;
        moved(&store).await;
        insert(&store, vec![marked(turn * 100), plain(turn * 100 + 1)]).await;
        // The one that was moved or brought back, and the one that came.
        assert_eq!(total(&store, made).await, turn as u64 + 1, "{condition}");
        assert_eq!(find_all(&store, &query([Matcher::Key("C-7".into())]), 50).await.len() as i64, turn + 1);
        store.unsplit(made, &deed("ann"), at(7_000)).await.unwrap();
    }
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn the_condition_that_was_made_first_decides(home: &dyn Home) {
    let store = home.open().await;
    let both = |n: i64| letter(n, |l| (l.error_code, l.attempts) = (Some("E7".into()), 9));
    let second_only = |n: i64| letter(n, |l| l.attempts = 9);
    insert(&store, vec![both(1), second_only(2), letter(3, |_| {})]).await;
    let first = split(&store, "code:E7").await;
    let second = split(&store, "attempts:>8").await;
    moved(&store).await;
    assert_eq!(
        (total(&store, base()).await, total(&store, first).await, total(&store, second).await),
        (1, 1, 1)
    );
    insert(&store, vec![both(11), second_only(12)]).await;
    assert_eq!((total(&store, first).await, total(&store, second).await), (2, 2));
    let listed = store.splits(base()).await.unwrap();
    assert_eq!(listed.iter().map(|split| split.group.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(listed.iter().map(|split| split.group.counts.total()).collect::<Vec<_>>(), [2, 2]);
    assert!(listed.iter().all(|split| !split.moving && split.author == "ann" && split.at == at(5_000)));
    // When the first is forgotten, what it would have had goes to the second.
    store.unsplit(first, &deed("ann"), at(7_000)).await.unwrap();
    insert(&store, vec![both(21)]).await;
    assert_eq!((total(&store, first).await, total(&store, second).await), (3, 3));
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn a_split_that_is_taken_back_is_forgotten_and_can_be_made_anew(home: &dyn Home) {
    let swiss = {
        let store = home.open().await;
        insert(&store, vec![of_country(1, "CH"), of_country(2, "DE")]).await;
        let swiss = split(&store, "payload.to.country:CH").await;
        moved(&store).await;
        store.add_note(swiss, "customs", &deed("ann"), at(5_500)).await.unwrap();
        let whole = store.unsplit(swiss, &deed("bob"), at(6_000)).await.unwrap();
        assert_eq!((whole.id, whole.counts.total(), whole.members), (base(), 2, 1));
        store.close().await.unwrap();
        swiss
    };
    let store = home.open().await;
    insert(&store, vec![of_country(3, "CH")]).await;
    // Whoever has the id of the split finds the whole; notes come along.
    assert_eq!((total(&store, base()).await, total(&store, swiss).await), (3, 3));
    assert_eq!(store.notes(base()).await.unwrap().len(), 1);
    assert_eq!((store.splits(base()).await.unwrap(), trend(&store, base()).await), (vec![], 3));
    for id in [swiss, base()] {
        let refused = store.unsplit(id, &deed("ann"), at(6_001)).await;
        assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{refused:?}");
    }
    let anew = split(&store, "payload.to.country:CH").await;
    moved(&store).await;
    assert_eq!((total(&store, base()).await, total(&store, anew).await), (1, 2));
    assert_eq!((trend(&store, base()).await, trend(&store, anew).await), (1, 2));
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn a_split_group_that_was_merged_elsewhere_stays_there(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![of_country(1, "CH"), of_country(2, "DE"), of_class(3, "Other")]).await;
    let other = id_of(&of_class(3, "Other"));
    let swiss = split(&store, "payload.to.country:CH").await;
    moved(&store).await;
    store.merge_groups(other, &[swiss], &deed("ann"), at(5_500)).await.unwrap();
    insert(&store, vec![of_country(4, "CH")]).await;
    assert_eq!((total(&store, base()).await, total(&store, other).await), (1, 3));
    let speaks = store.unsplit(swiss, &deed("ann"), at(6_000)).await.unwrap();
    assert_eq!(speaks.id, other);
    insert(&store, vec![of_country(5, "CH")]).await;
    assert_eq!((total(&store, base()).await, total(&store, other).await), (2, 3));
    // A group from which some were split off is merged as any other.
    let again = split(&store, "payload.to.country:FR").await;
    store.merge_groups(other, &[base()], &deed("ann"), at(6_500)).await.unwrap();
    insert(&store, vec![of_country(6, "FR")]).await;
    assert_eq!((total(&store, again).await, total(&store, other).await), (1, 5));
    assert_eq!(store.splits(other).await.unwrap().len(), 1);
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn a_move_goes_on_after_a_restart_while_letters_come_and_take_steps(home: &dyn Home) {
    let country = |n: i64| if n % 3 == 0 { "CH" } else { "DE" };
    let (swiss, ids) = {
        let store = home.open().await;
        let ids = insert(&store, (1..=1_200).map(|n| of_country(n, country(n))).collect()).await;
        let swiss = split(&store, "payload.to.country:CH").await;
        // A batch is smaller than the group: after it, some are moved and the rest is where it was.
        assert!(store.move_split_letters(at(6_000)).await.unwrap());
        let (here, there) = (total(&store, base()).await, total(&store, swiss).await);
        assert!(here > 800 && there > 0 && here + there == 1_200, "{here} {there}");
        assert!(store.splits(base()).await.unwrap()[0].moving);
        assert_eq!(problems(&store).await, Vec::<String>::new());
        store.close().await.unwrap();
        (swiss, ids)
    };
    let store = home.open().await;
    // Some come, among them old ones where the move has not been yet; some take a step.
    let late = (1..=60).map(|n| {
        letter(2_000 + n, |l| {
            *l = of_country(2_000 + n, country(n));
            l.failed_at = at(n * 10);
        })
    });
    insert(&store, late.collect()).await;
    store.step(&ids[..30], Step::Discard, &deed("ann"), at(6_001)).await.unwrap();
    moved(&store).await;
    assert_eq!((total(&store, base()).await, total(&store, swiss).await), (840, 420));
    assert_eq!(store.group(swiss).await.unwrap().counts.get(Status::Discarded), 10);
    assert_eq!((trend(&store, base()).await, trend(&store, swiss).await), (840, 420));
    assert!(!store.splits(base()).await.unwrap()[0].moving);
    assert_eq!(store.count(&Query::default(), 9_999).await.unwrap(), 1_260);
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn a_letter_that_dies_again_is_sorted_by_what_it_keeps(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![of_country(1, "CH"), of_class(2, "Other"), of_country(3, "DE")]).await;
    let swiss = split(&store, "payload.to.country:CH").await;
    let patient = split(&store, "attempts:>8").await;
    moved(&store).await;
    // Its payload is that of the first time, whatever comes back; its attempts are those of this time.
    let back = |n: i64, of: usize, country: &str| {
        let mut letter = letter(n, |l| {
            *l = of_country(n, country);
            l.replay_of = Some(ids[of]);
        });
        letter.attempts = if n == 13 { 9 } else { 1 };
        letter
    };
    insert(&store, vec![back(11, 0, "DE"), back(12, 1, "CH"), back(13, 2, "CH")]).await;
    assert_eq!(
        (total(&store, base()).await, total(&store, swiss).await, total(&store, patient).await),
        (1, 1, 1)
    );
    assert_eq!(store.letter(ids[0]).await.unwrap().letter.group_id, swiss);
    assert_eq!(store.letter(ids[1]).await.unwrap().letter.group_id, base());
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn a_split_group_stands_where_it_came_from_and_both_tell_of_it(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![of_country(1, "CH"), of_country(2, "DE")]).await;
    let own = Change::Own { team: Some("tax".into()) };
    for change in [own, Change::Fix] {
        store.change_groups(&[base()], &change, &deed("ann"), at(100)).await.unwrap();
    }
    let titled = NewSplit { title: Some(" Swiss ".into()), ..by("payload.to.country:CH") };
    let made = store.split_by(base(), &titled, &deed("ann"), at(200)).await.unwrap();
    assert_eq!(
        (made.life.status, made.owner.as_deref(), made.owner_by_hand),
        (GroupStatus::Fixing, Some("tax"), true)
    );
    assert_eq!((made.title().as_str(), made.split.as_ref().unwrap().from), ("Swiss", base()));
    assert_eq!(made.split.as_ref().unwrap().condition, "payload.to.country:CH");
    moved(&store).await;
    assert_eq!(find_all(&store, &query([Matcher::Owner(Some("tax".into()))]), 10).await.len(), 2);
    // A letter that is moved brings nobody back; one that comes does.
    store
        .change_groups(&[made.id], &Change::Resolve { in_version: None }, &deed("ann"), at(300))
        .await
        .unwrap();
    insert(&store, vec![of_country(400, "CH")]).await;
    assert_eq!(store.group(made.id).await.unwrap().life.status, GroupStatus::Regressed);
    assert_eq!(store.group(base()).await.unwrap().life.status, GroupStatus::Fixing);
    store.unsplit(made.id, &deed("bob"), at(500)).await.unwrap();
    let history = store.group_history(base(), 20).await.unwrap();
    let told = |what| history.iter().filter(|entry| entry.what == Event::Group(what)).count();
    assert_eq!((told(GroupDeed::SplitBy), told(GroupDeed::Unsplit), told(GroupDeed::Merged)), (2, 1, 1));
    assert!(history.iter().any(|entry| entry.author == "bob" && entry.reason.as_deref() == Some("because")));
}

pub(crate) async fn splits_are_bounded_and_refused_where_they_make_no_sense(home: &dyn Home) {
    let limits = StoreLimits { groups_per_source: 20, ..StoreLimits::default() };
    let store = home.open_with(limits).await.unwrap();
    insert(&store, vec![of_country(1, "CH"), of_class(2, "B")]).await;
    let b = id_of(&of_class(2, "B"));
    let refused = |id: GroupId, why: &'static str| {
        let store = store.clone();
        async move {
            match store.split_by(id, &by("code:E7"), &deed("ann"), NOW).await {
                Err(StoreError::Unsupported(said)) => assert!(said.contains(why), "{said}"),
                other => panic!("{why}: {other:?}"),
            }
        }
    };
    let made = split(&store, "key:C-1").await;
    refused(made, "split off itself").await;
    let long = NewSplit { title: Some("x".repeat(limits::NAME + 1)), ..by("key:C-2") };
    let too_long = store.split_by(base(), &long, &deed("ann"), NOW).await;
    assert!(matches!(too_long, Err(StoreError::Unsupported(_))), "{too_long:?}");
    for n in 1..limits::SPLITS {
        split(&store, &format!("key:D-{n}")).await;
    }
    refused(base(), "at most 16 conditions").await;
    // Eighteen groups are here; what was refused is none of them.
    insert(&store, vec![of_class(3, "C"), of_class(4, "D")]).await;
    refused(b, "20 groups").await;
    let past = insert(&store, vec![of_class(5, "E")]).await;
    refused(store.letter(past[0]).await.unwrap().letter.group_id, "many causes").await;
    store.merge_groups(id_of(&of_class(3, "C")), &[b], &deed("ann"), NOW).await.unwrap();
    refused(b, "were merged into this one").await;
    let nowhere = store.split_by(id_of(&of_class(9, "Z")), &by("key:x"), &deed("ann"), NOW).await;
    assert!(matches!(nowhere, Err(StoreError::NoGroup(_))), "{nowhere:?}");
    assert_eq!(problems(&store).await, Vec::<String>::new());
}
