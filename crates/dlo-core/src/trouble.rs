//! Troubles: what does not work at this moment, since when, why, and what to do about it.
//!
//! The list of kinds is closed, so that pages, commands and alerts can rely on it: a condition that an operator must see
//! is a [`TroubleKind`]. Who notices it is elsewhere; here are its words. A trouble ends with its cause, nobody closes it.

use serde::Serialize;

use crate::codes::coded;
use crate::time::Timestamp;

coded! {
    /// What does not work.
    pub enum TroubleKind as "trouble" {
        /// The broker of a source does not answer.
        SourceUnreachable = 1 => "source_unreachable",
        /// The broker answers, and refuses: password, rights, settings.
        SourceRefused = 2 => "source_refused",
        /// The broker has no such dead-letter queue.
        SourceQueueMissing = 3 => "source_queue_missing",
        /// Dead letters are read, and the store does not take them: they stay at the broker.
        SourceNotStored = 4 => "source_not_stored",
        /// Capture has ended and does not begin again by itself.
        SourceEnded = 5 => "source_ended",
        /// Most messages fail for one cause, so the consumer holds all of them back.
        ConsumerBraked = 6 => "consumer_braked",
        /// A service that the consumer needs is down.
        ConsumerBreakerOpen = 7 => "consumer_breaker_open",
        /// The handler does not take messages.
        ConsumerHandlerAway = 8 => "consumer_handler_away",
        /// The dead-letter queue cannot be written: letters wait on the disk of the consumer.
        ConsumerSpooling = 9 => "consumer_spooling",
        /// It holds messages back and does not name the cause: an older runtime.
        ConsumerPaused = 10 => "consumer_paused",
        /// A replay sends nothing until something else works again.
        ReplayWaiting = 11 => "replay_waiting",
        /// The store does not answer.
        StoreUnavailable = 12 => "store_unavailable",
        /// A file system of the office is full.
        DiskFull = 13 => "disk_full",
    }
}

coded! {
    /// What a trouble is about.
    pub enum TroubleScope as "scope of a trouble" {
        Source = 1 => "source",
        Consumer = 2 => "consumer",
        Replay = 3 => "replay",
        Store = 4 => "store",
        Disk = 5 => "disk",
    }
}

impl TroubleKind {
    pub const fn scope(self) -> TroubleScope {
        match self {
            Self::SourceUnreachable
            | Self::SourceRefused
            | Self::SourceQueueMissing
            | Self::SourceNotStored
            | Self::SourceEnded => TroubleScope::Source,
            Self::ConsumerBraked
            | Self::ConsumerBreakerOpen
            | Self::ConsumerHandlerAway
            | Self::ConsumerSpooling
            | Self::ConsumerPaused => TroubleScope::Consumer,
            Self::ReplayWaiting => TroubleScope::Replay,
            Self::StoreUnavailable => TroubleScope::Store,
            Self::DiskFull => TroubleScope::Disk,
        }
    }

    /// What to do about it. Commands and settings are between backticks; `name` is the name of the trouble.
    fn action(self, name: &str) -> String {
        match self {
            Self::SourceUnreachable => {
                "Start the broker, or correct its address under `[brokers]` in `dlo.toml` and restart `dlo serve`. \
                 `dlo check` tests the connection."
                    .to_owned()
            }
            Self::SourceRefused => {
                "Correct user, password or rights at the broker, or the settings under `[brokers]` in `dlo.toml` and \
                 restart `dlo serve`. `dlo check` tests the connection."
                    .to_owned()
            }
            Self::SourceQueueMissing => {
                format!("Create the queue: `dlo topology apply {} --yes`.", quoted(name))
            }
            Self::SourceNotStored => {
                "The letters stay at the broker. Repair the store; see `dlo check` and the log of `dlo serve`."
                    .to_owned()
            }
            Self::SourceEnded => {
                "Correct what the reason names in `dlo.toml`, then restart `dlo serve`.".to_owned()
            }
            Self::ConsumerBraked => "Repair what fails: the messages wait and are tried again. To park them \
                 instead, set `brake = \"warn\"` for the consumer and reload `dlo consume` with SIGHUP."
                .to_owned(),
            Self::ConsumerBreakerOpen => {
                "Repair the service that the reason names: the messages wait and are tried again.".to_owned()
            }
            Self::ConsumerHandlerAway => {
                "Start the handler: the messages wait for it. `dlo check` asks whether it is there.".to_owned()
            }
            Self::ConsumerSpooling => {
                "Make the dead-letter queue writable: `dlo topology plan` says what it lacks.".to_owned()
            }
            Self::ConsumerPaused => {
                "Read `/status` of the consumer: `curl http://127.0.0.1:8405/status`.".to_owned()
            }
            Self::ReplayWaiting => {
                format!("Repair what it waits for: it goes on by itself. Or end it: `dlo replay cancel {name} --yes`.")
            }
            Self::StoreUnavailable => {
                "Start the database of `server.database`, or repair the disk of `server.data`; `dlo check` tests \
                 the store."
                    .to_owned()
            }
            Self::DiskFull => {
                "Make room on the file system, or move `server.data`; the office goes on by itself.".to_owned()
            }
        }
    }
}

/// One thing that does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    pub kind: TroubleKind,
    pub scope: TroubleScope,
    /// The source, the consumer group or the replay; `store` or `disk`.
    pub name: String,
    /// The queue of a consumer.
    pub queue: Option<String>,
    /// In one sentence, what does not work.
    pub title: String,
    /// Since when this office knows of it.
    pub since: Timestamp,
    /// The reason, as the one who refused or failed gave it.
    pub why: String,
    /// What to do; commands and settings are between backticks.
    pub action: String,
}

impl Trouble {
    fn new(kind: TroubleKind, name: &str, title: String, since: Timestamp, why: &str) -> Self {
        Self {
            kind,
            scope: kind.scope(),
            name: name.to_owned(),
            queue: None,
            title,
            since,
            why: why.to_owned(),
            action: kind.action(name),
        }
    }

    /// A source whose dead-letter queue is not captured.
    pub fn source(kind: TroubleKind, source: &str, since: Timestamp, why: &str) -> Self {
        Self::new(kind, source, format!("Source {source} is not captured"), since, why)
    }

    /// A consumer that holds messages back; `held`: how many it has received and not settled.
    pub fn consumer(
        kind: TroubleKind,
        (group, queue): (&str, &str),
        held: u64,
        since: Timestamp,
        why: &str,
    ) -> Self {
        let does = match held {
            0 => "is paused".to_owned(),
            1 => "holds back 1 message".to_owned(),
            many => format!("holds back {many} messages"),
        };
        let title = format!("Consumer {group} of {queue} {does}");
        Self { queue: Some(queue.to_owned()), ..Self::new(kind, group, title, since, why) }
    }

    /// A replay that sends nothing. `source`: set if all its letters come from one.
    pub fn replay(id: &str, source: Option<&str>, since: Timestamp, why: &str) -> Self {
        let title = format!("A replay of {} waits", source.unwrap_or("several sources"));
        Self::new(TroubleKind::ReplayWaiting, id, title, since, why)
    }

    /// The office cannot do its work.
    pub fn office(kind: TroubleKind, since: Timestamp, why: &str) -> Self {
        let title = match kind.scope() {
            TroubleScope::Disk => "The disk is full",
            TroubleScope::Source | TroubleScope::Consumer | TroubleScope::Replay | TroubleScope::Store => {
                "The store does not answer"
            }
        };
        Self::new(kind, kind.scope().as_str(), title.to_owned(), since, why)
    }
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    match !name.is_empty() && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Timestamp = Timestamp::from_millis(1_793_534_400_000);

    #[test]
    fn each_kind_says_what_to_do_with_a_command_or_a_setting() {
        for kind in TroubleKind::ALL {
            let action = kind.action("orders");
            assert!(kind.as_str().starts_with(kind.scope().as_str()), "{kind}");
            let marks = action.matches('`').count();
            assert!(marks.is_multiple_of(2), "{kind}: {action}");
            assert!(marks > 0 || *kind == TroubleKind::ConsumerBreakerOpen, "{kind}: {action}");
        }
    }

    #[test]
    fn a_name_in_a_command_can_be_pasted_into_a_shell() {
        let action = |name| TroubleKind::SourceQueueMissing.action(name);
        assert_eq!(action("orders"), "Create the queue: `dlo topology apply orders --yes`.");
        assert_eq!(action("it's $HOME"), r"Create the queue: `dlo topology apply 'it'\''s $HOME' --yes`.");
    }

    #[test]
    fn a_consumer_says_how_many_messages_it_holds_back() {
        let title = |held| {
            Trouble::consumer(TroubleKind::ConsumerBraked, ("pricing", "orders"), held, SINCE, "404").title
        };
        assert_eq!(title(0), "Consumer pricing of orders is paused");
        assert_eq!(title(1), "Consumer pricing of orders holds back 1 message");
        assert_eq!(title(60), "Consumer pricing of orders holds back 60 messages");
    }

    #[test]
    fn a_trouble_is_json_with_its_scope() {
        let trouble = Trouble::source(TroubleKind::SourceRefused, "orders", SINCE, "ACCESS_REFUSED");
        let json = serde_json::to_value(&trouble).unwrap();
        assert_eq!((&json["kind"], &json["scope"]), (&"source_refused".into(), &"source".into()));
        assert_eq!(json["since"], "2026-11-01T12:00:00Z");
    }
}
