//! What people write beside groups, deployments, saved views, trends, ages and samples.

use std::time::Duration;

use dlo_core::deploy::NewDeploy;
use dlo_core::limits;
use dlo_core::trend::{Resolution, Window};
use dlo_core::view::ViewOf;
use dlo_store::StoreError;
use dlo_store::triage::{NewLink, NewView};

use super::Home;
use super::triage::{id_of, of_class};
use crate::letters::{NOW, at, batch, deed, insert, letter, problems};

pub(crate) async fn notes_and_links_are_kept_and_bounded(home: &dyn Home) {
    let id = id_of(&letter(1, |_| {}));
    {
        let store = home.open().await;
        insert(&store, vec![letter(1, |_| {})]).await;
        store.add_note(id, " first ", &deed("ann"), at(1)).await.unwrap();
        store.add_note(id, "second \u{0} note", &deed("bob"), at(2)).await.unwrap();
        let link = NewLink { title: "Ticket".into(), url: "https://tickets.example/7".into() };
        store.add_link(id, &link, &deed("ann"), at(3)).await.unwrap();
        for url in ["javascript:alert(1)", "ftp://x"] {
            let link = NewLink { title: "x".into(), url: url.into() };
            let refused = store.add_link(id, &link, &deed("ann"), at(3)).await;
            assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{url}");
        }
        assert!(store.add_note(id, " ", &deed("ann"), at(4)).await.is_err());
        store.close().await.unwrap();
    }
    let store = home.open().await;
    let notes = store.notes(id).await.unwrap();
    let told: Vec<_> = notes.iter().map(|note| (note.author.as_str(), note.text.as_str(), note.at)).collect();
    assert_eq!(told, [("ann", "first", at(1)), ("bob", "second \u{0} note", at(2))]);
    let links = store.links(id).await.unwrap();
    assert_eq!((links.len(), links[0].link.title.as_str()), (1, "Ticket"));
    for n in 1..limits::LINKS {
        let link = NewLink { title: n.to_string(), url: "http://x/".into() };
        store.add_link(id, &link, &deed("ann"), at(5)).await.unwrap();
    }
    let one_more = NewLink { title: "y".into(), url: "http://x/".into() };
    assert!(store.add_link(id, &one_more, &deed("ann"), at(6)).await.is_err());
    assert!(store.remove_link(id, links[0].number, &deed("ann"), at(7)).await.unwrap());
    assert!(!store.remove_link(id, links[0].number, &deed("ann"), at(7)).await.unwrap());
    assert_eq!(store.links(id).await.unwrap().len(), limits::LINKS - 1);
    let nowhere = id_of(&of_class(1, "Nowhere"));
    assert!(matches!(store.notes(nowhere).await, Err(StoreError::NoGroup(_))));
    assert!(matches!(store.add_note(nowhere, "x", &deed("ann"), at(1)).await, Err(StoreError::NoGroup(_))));
}

pub(crate) async fn a_runbook_is_replaced_by_whoever_read_the_latest(home: &dyn Home) {
    let store = home.open().await;
    let id = id_of(&letter(1, |_| {}));
    insert(&store, vec![letter(1, |_| {})]).await;
    assert_eq!(store.runbook(id).await.unwrap(), None);
    let first = store.write_runbook(id, "# Call tax", 0, &deed("ann"), at(1)).await.unwrap();
    assert_eq!(store.runbook(id).await.unwrap(), Some(first.clone()));
    let stale = store.write_runbook(id, "mine", 0, &deed("bob"), at(2)).await;
    assert!(
        matches!(stale, Err(StoreError::Stale { found, known: 0 }) if found == first.version),
        "{stale:?}"
    );
    let second = store.write_runbook(id, "better", first.version, &deed("bob"), at(3)).await.unwrap();
    assert!(second.version > first.version);
    store.write_runbook(id, "", second.version, &deed("bob"), at(4)).await.unwrap();
    assert_eq!(store.runbook(id).await.unwrap(), None);
    let third = store.write_runbook(id, "anew", 0, &deed("bob"), at(5)).await.unwrap();
    assert!(third.version > second.version);
    let long = "x".repeat(limits::RUNBOOK + 1);
    assert!(store.write_runbook(id, &long, third.version, &deed("bob"), at(6)).await.is_err());
}

pub(crate) async fn trends_count_what_arrived_at_each_resolution(home: &dyn Home) {
    let store = home.open().await;
    let minute = 60_000;
    let times = [0, 1, -minute, -61 * minute, -60 * 25 * minute, -60 * 24 * 40 * minute];
    let letters = times.map(|at| of_class(at, "A"));
    let a = id_of(&letters[0]);
    insert(&store, letters.to_vec()).await;
    insert(&store, vec![of_class(7, "B"), letters[0].clone()]).await;
    let b = id_of(&of_class(7, "B"));
    let sum = |resolution, buckets| {
        let (store, window) =
            (store.clone(), Window::until(NOW.plus(Duration::from_secs(1)), resolution, buckets));
        async move {
            let counts = store.trends(&[a, b, id_of(&of_class(1, "none"))], window).await.unwrap();
            counts.iter().map(|counts| counts.iter().sum()).collect::<Vec<u64>>()
        }
    };
    assert_eq!(sum(Resolution::Minute, 1440).await, [4, 1, 0]);
    assert_eq!(sum(Resolution::Hour, 720).await, [5, 1, 0]);
    assert_eq!(sum(Resolution::Day, 400).await, [6, 1, 0]);
    let window = Window::until(NOW, Resolution::Minute, 2);
    assert_eq!(store.trends(&[a], window).await.unwrap()[0].iter().sum::<u64>(), 3);
    let stack = store.trend_by_class(Some("orders"), Window::until(NOW, Resolution::Hour, 48)).await.unwrap();
    let told: Vec<_> = stack.iter().map(|class| (class.error_class.as_deref(), class.total)).collect();
    assert_eq!(told, [(Some("A"), 5), (Some("B"), 1)]);
    assert_eq!(store.trend_by_class(Some("mail"), window).await.unwrap(), []);
    // Two days later the minutes are forgotten, and the days are not.
    let later = NOW.plus(Duration::from_secs(2 * 24 * 60 * 60));
    store.forget_trends(later).await.unwrap();
    assert_eq!(sum(Resolution::Minute, 1440).await, [0, 0, 0]);
    assert_eq!(sum(Resolution::Day, 400).await, [6, 1, 0]);
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn open_letters_are_counted_by_their_age(home: &dyn Home) {
    let store = home.open().await;
    let hour = 60 * 60 * 1000;
    let times = [0, -2 * hour, -2 * hour + 1, -30 * hour, -24 * 60 * hour];
    let ids = insert(&store, times.map(|at| letter(at, |_| {})).to_vec()).await;
    store.step(&ids[1..2], dlo_core::letter::Step::Discard, &deed("ann"), NOW).await.unwrap();
    let ages = store.open_ages(at(1)).await.unwrap();
    let counts: Vec<u64> = ages.iter().map(|age| age.count).collect();
    assert_eq!(counts, [1, 1, 0, 1, 0, 0, 0, 1]);
    assert_eq!(ages[0].younger_than, Some(Duration::from_secs(3600)));
    assert_eq!(ages[7].younger_than, None);
}

pub(crate) async fn deployments_are_listed_newest_first(home: &dyn Home) {
    let store = home.open().await;
    let mark = |version: &str, consumer: Option<&str>| NewDeploy {
        version: version.into(),
        consumer: consumer.map(String::from),
        ..NewDeploy::default()
    };
    store.mark_deploy(&mark("1", Some("pricing")), at(10), &deed("ci"), at(11)).await.unwrap();
    store.mark_deploy(&mark("2", None), at(30), &deed("ci"), at(31)).await.unwrap();
    store.mark_deploy(&mark("late", None), at(20), &deed("ci"), at(32)).await.unwrap();
    let versions = |deploys: Vec<dlo_core::deploy::Deploy>| {
        deploys.into_iter().map(|deploy| deploy.what.version).collect::<Vec<_>>()
    };
    assert_eq!(versions(store.deploys(None, None, 10).await.unwrap()), ["2", "late", "1"]);
    assert_eq!(versions(store.deploys(Some(at(11)), Some(at(29)), 10).await.unwrap()), ["late"]);
    let newest = store.deploys(None, None, 1).await.unwrap();
    assert_eq!((newest[0].author.as_str(), newest[0].at), ("ci", at(30)));
    let audited = store.audit(&dlo_store::Page::first(1)).await.unwrap().entries;
    assert_eq!(
        (audited[0].what, audited[0].reference.as_deref()),
        (dlo_store::Event::DeployMarked, Some("late"))
    );
}

pub(crate) async fn views_are_ones_own_or_everybodys(home: &dyn Home) {
    let store = home.open().await;
    let view = |name: &str, owner: Option<&str>, query: &str| NewView {
        name: name.into(),
        of: ViewOf::Letters,
        query: query.into(),
        owner: owner.map(String::from),
    };
    for new in [view("b", Some("ann"), "status:open"), view("a", None, "x"), view("c", Some("bob"), "y")] {
        store.save_view(&new, &deed("ann"), at(1)).await.unwrap();
    }
    store.save_view(&view("b", Some("ann"), "status:sent"), &deed("ann"), at(2)).await.unwrap();
    let seen = store.views(Some("ann")).await.unwrap();
    let told: Vec<_> = seen.iter().map(|view| (view.name.as_str(), view.query.as_str())).collect();
    assert_eq!(told, [("a", "x"), ("b", "status:sent")]);
    assert_eq!((seen[0].owner.as_deref(), seen[1].owner.as_deref()), (None, Some("ann")));
    assert_eq!(store.views(None).await.unwrap().len(), 1);
    assert!(!store.remove_view("b", ViewOf::Groups, Some("ann"), &deed("ann"), at(3)).await.unwrap());
    assert!(store.remove_view("b", ViewOf::Letters, Some("ann"), &deed("ann"), at(3)).await.unwrap());
    assert_eq!(store.views(Some("ann")).await.unwrap().len(), 1);
    for n in 1..limits::VIEWS {
        store.save_view(&view(&n.to_string(), Some("bob"), "z"), &deed("bob"), at(4)).await.unwrap();
    }
    assert!(store.save_view(&view("more", Some("bob"), "z"), &deed("bob"), at(5)).await.is_err());
    assert_eq!(store.views(Some("bob")).await.unwrap().len(), limits::VIEWS + 1);
}

pub(crate) async fn a_sample_holds_the_newest_letters_with_key_and_payload(home: &dyn Home) {
    let store = home.open().await;
    let letters: Vec<_> = (1..=5)
        .map(|n| letter(n, |l| l.message.payload = format!("{{\"n\":{n}}}").into_bytes().into()))
        .collect();
    let id = id_of(&letters[0]);
    store.insert(batch(letters), NOW).await.unwrap();
    insert(&store, vec![of_class(9, "Other")]).await;
    let sample = store.sample(id, 3).await.unwrap();
    let payloads: Vec<&[u8]> = sample.iter().map(|one| &one.payload[..]).collect();
    assert_eq!(payloads, [br#"{"n":5}"#, br#"{"n":4}"#, br#"{"n":3}"#]);
    assert_eq!(sample[0].key.as_deref(), Some(&b"C-441"[..]));
    assert!(matches!(store.sample(id_of(&of_class(1, "Nowhere")), 3).await, Err(StoreError::NoGroup(_))));
}
