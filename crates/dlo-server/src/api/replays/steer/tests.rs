//! What a person asks of a plan with parts, while the desk moves it on.

use super::*;
use crate::admit::tests::admitted;
use crate::replay::testing::{plan, turn as turns};

/// A plan of two parts.
async fn family(office: &Office) -> (ReplayId, Vec<ReplayId>) {
    let letter = |class| admitted(&format!(r#"{{"source":"orders","payload":1,"error_class":"{class}"}}"#));
    let id = plan(office, vec![letter("A"), letter("B")]).await;
    let children = office.shown().children(id).await.unwrap().iter().map(|child| child.id).collect();
    (id, children)
}

#[tokio::test]
async fn a_pause_reaches_the_part_that_began_meanwhile() {
    use ReplayState::{Completed, Paused, Running};
    let directory = tempfile::tempdir().unwrap();
    let office = Office::in_directory(directory.path());
    let (id, parts) = family(&office).await;
    // The first part ended and the second began just when the plan was paused.
    turns(&office, parts[0], &[Running, Completed]).await;
    turns(&office, parts[1], &[Running]).await;
    turns(&office, id, &[Running, Paused]).await;
    pause(State(office.clone()), Author("ada".to_string()), Id(id)).await.unwrap();
    assert_eq!(office.shown().replay(parts[1]).await.unwrap().state, Paused);
    assert_eq!(office.shown().replay(id).await.unwrap().state, Paused);
}

#[tokio::test]
async fn what_the_desk_moved_on_meanwhile_was_resumed_all_the_same() {
    use ReplayState::{Canary, Paused, Running};
    let directory = tempfile::tempdir().unwrap();
    let office = Office::in_directory(directory.path());
    let (id, _) = family(&office).await;
    turns(&office, id, &[Running, Paused]).await;
    let paused = office.shown().replay(id).await.unwrap();
    turns(&office, id, &[Running]).await;
    let deed = Deed { author: "ada".to_string(), reason: None, reference: None };
    turn(&office, &paused, Canary, &deed).await.unwrap();
    assert_eq!(office.shown().replay(id).await.unwrap().state, Running);
}
