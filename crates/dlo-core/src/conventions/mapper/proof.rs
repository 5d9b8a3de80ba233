//! Whether a JSON object is the envelope of a dead letter, or a business message that tells of an error.
//!
//! A business message may hold `data` and a whole error object. So an error is no proof: there must also be something
//! that only the writer of a dead letter adds, as where the message was, how often it failed, or when.

use super::super::view::View;
use super::fields::Field;
use super::nested::{IN_ERROR, IN_ORIGIN, Role, Scope, WORDS};

/// What the objects of one message tell.
#[derive(Debug, Default)]
struct Signs {
    /// An original queue: nobody else writes it.
    original: bool,
    error: bool,
    /// Where the message was, how often it failed, or when.
    dead: bool,
}

/// Whether these objects are the envelope of a dead letter.
pub(super) fn is_envelope(view: &View<'_>, scopes: &[Scope<'_>]) -> bool {
    let mut signs = Signs::default();
    for scope in scopes {
        signs.add(view, scope);
    }
    signs.original || (signs.error && signs.dead)
}

impl Signs {
    fn add(&mut self, view: &View<'_>, scope: &Scope<'_>) {
        let has = |word: &str| {
            scope
                .any(&[word])
                .is_some_and(|raw| !raw.get().starts_with(['{', '[']) && view.raw(Some(raw)).text().is_some())
        };
        for (word, field) in WORDS.iter().filter(|(word, _)| has(word)) {
            match field {
                Field::Queue if word.starts_with("original") => self.original = true,
                Field::Queue | Field::Partition | Field::MessageId => self.dead = true,
                Field::Attempts | Field::FailedAt | Field::FirstFailedAt => self.dead = true,
                // A page of results has an offset as well.
                Field::Offset => self.dead |= *word != "offset" || scope.role == Role::Origin,
                // A business has consumers.
                Field::Consumer => self.dead |= *word != "consumer",
                Field::ErrorClass | Field::ErrorMessage | Field::ErrorStack => self.error = true,
                _ => {}
            }
        }
        let is_error =
            |field: Field| matches!(field, Field::ErrorClass | Field::ErrorMessage | Field::ErrorStack);
        match scope.role {
            Role::Error => self.error |= IN_ERROR.iter().any(|(word, field)| is_error(*field) && has(word)),
            Role::Origin => {
                let mut places = IN_ORIGIN.iter().filter(|(_, field)| *field == Field::Queue);
                // A sale has a channel as well.
                self.dead |= places.any(|(word, _)| *word != "channel" && has(word));
            }
            Role::Top => self.dead |= has("topic") || has("queue"),
            Role::Story => {}
        }
        self.dead |= DEAD.iter().any(|word| scope.any(&[word]).is_some());
    }
}

/// Names that only the writer of a dead letter gives, to a text or to an object.
const DEAD: &[&str] = &[
    "deadletter",
    "deadletterinfo",
    "deadlettermetadata",
    "dlq",
    "dlqinfo",
    "dlqmetadata",
    "dlqreason",
    "dlt",
    "deadletterreason",
    "firstfailure",
    "lastfailure",
    "lastfailedat",
    "originalbody",
    "originalentry",
    "originalfields",
    "originalmessage",
    "originalmessagebase64",
    "originalpayload",
    "originalpayloadbase64",
    "originalvalue",
    "originalvaluebase64",
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::{Found, Mapper, Reading, read_with};
    use crate::message::{Message, Payload};
    use crate::origin::BrokerKind;

    fn reading(json: &Value, header: Option<(&str, &str)>) -> Reading {
        let mut message = Message { payload: Payload::from(json.to_string()), ..Message::default() };
        if let Some((name, value)) = header {
            message.headers.push_text(name, value);
        }
        let found = Found { broker: BrokerKind::Rabbitmq, queue: "orders.dlq" };
        read_with(&message, found, &Mapper::default())
    }

    #[test]
    fn a_business_message_that_tells_of_an_error_is_no_envelope() {
        let failure = json!({"type": "card_declined", "message": "no funds", "timestamp": 1_700_000_000});
        for json in [
            json!({"id": "e1", "data": {"amount": 1}, "failure": failure}),
            json!({"data": {"amount": 1}, "error": "no funds", "errorCode": "51"}),
            json!({"data": {"amount": 1}, "errors": [failure], "source": {"id": "web", "channel": "shop"}}),
            json!({"data": [1, 2], "offset": 40, "error": "none"}),
            json!({"payload": {"n": 1}, "exception": "NoFunds", "metadata": {"consumer": "c", "traceId": "t"}}),
        ] {
            assert_eq!(reading(&json, None), Reading::default(), "{json}");
        }
    }

    #[test]
    fn an_error_beside_a_place_or_a_count_is_an_envelope() {
        let error = json!({"type": "KeyError", "message": "no price"});
        for json in [
            json!({"data": {"n": 1}, "error": error, "attempts": 3}),
            json!({"data": {"n": 1}, "error": error, "metadata": {"failed_at": 1_700_000_000}}),
            json!({"data": {"n": 1}, "error": error, "source": {"topic": "orders"}}),
            json!({"data": {"n": 1}, "dlq": {"error": "no price"}}),
            json!({"original_message": {"n": 1}, "error": "no price"}),
            json!({"data": {"n": 1}, "originalQueue": "orders"}),
        ] {
            let unwrapped = reading(&json, None).unwrapped;
            assert_eq!(unwrapped.map(|inside| inside.payload), Some(Payload::from("{\"n\":1}")), "{json}");
        }
    }

    #[test]
    fn what_the_broker_moved_is_no_envelope_unless_a_client_wrote_on_it() {
        let json = json!({"data": {"n": 1}, "error": "no price", "attempts": 3});
        let unwrapped = |header| reading(&json, Some(header)).unwrapped.is_some();
        assert!(!unwrapped(("x-first-death-queue", "orders")));
        assert!(unwrapped(("x-error-message", "no price")));
        let mut both = Message { payload: Payload::from(json.to_string()), ..Message::default() };
        both.headers.push_text("x-first-death-queue", "orders.retry");
        both.headers.push_text("x-error-message", "no price");
        let found = Found { broker: BrokerKind::Rabbitmq, queue: "orders.dlq" };
        assert!(read_with(&both, found, &Mapper::default()).unwrapped.is_some());
    }
}
