//! Many requests at once: all are sent, then all answers are awaited, over one inbox.
//!
//! This is the one round trip per batch under publishing, settling, reading and deleting. An answer that does not come
//! stays `None`: nothing is known of that request. A connection that goes ends the waiting at once.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, HeaderMap, Message, Subject};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

/// Requests that are under way at once.
pub(super) const ROUND: usize = 2_048;
/// How long the server may be silent.
const SILENCE: Duration = Duration::from_secs(5);
/// How often the connection is looked at while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Request {
    pub(super) to: Subject,
    pub(super) headers: Option<HeaderMap>,
    pub(super) body: Bytes,
}

/// Sends all in their order and returns the answer of each.
pub(super) async fn ask(client: &Client, requests: Vec<Request>) -> Vec<Option<Message>> {
    let mut answers = Vec::with_capacity(requests.len());
    let mut requests = requests.into_iter().peekable();
    while requests.peek().is_some() {
        let round: Vec<Request> = requests.by_ref().take(ROUND).collect();
        let asked = round.len();
        answers.extend(ask_round(client, round).await);
        // Behind a round without an answer the others would only wait as long, one after the other.
        if answers[answers.len() - asked..].iter().all(Option::is_none) {
            answers.extend(requests.by_ref().map(|_| None));
        }
    }
    answers
}

async fn ask_round(client: &Client, round: Vec<Request>) -> Vec<Option<Message>> {
    let mut answers: Vec<Option<Message>> = round.iter().map(|_| None).collect();
    let inbox = client.new_inbox();
    let Ok(mut replies) = client.subscribe(format!("{inbox}.*")).await else { return answers };
    let mut left = 0;
    for (number, request) in round.into_iter().enumerate() {
        let reply = format!("{inbox}.{number}");
        let sent = match request.headers {
            Some(headers) => {
                client.publish_with_reply_and_headers(request.to, reply, headers, request.body).boxed()
            }
            None => client.publish_with_reply(request.to, reply, request.body).boxed(),
        };
        match tokio::time::timeout(SILENCE, sent).await {
            Ok(Ok(())) => left += 1,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    let mut deadline = Instant::now() + SILENCE;
    while left > 0 && Instant::now() < deadline {
        let message = match tokio::time::timeout(LOOK, replies.next()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_) if client.connection_state() == State::Connected => continue,
            Err(_) => break,
        };
        deadline = Instant::now() + SILENCE;
        let number = message.subject.rsplit('.').next().and_then(|number| number.parse::<usize>().ok());
        if let Some(place) = number.and_then(|number| answers.get_mut(number)).filter(|place| place.is_none())
        {
            *place = Some(message);
            left -= 1;
        }
    }
    answers
}
