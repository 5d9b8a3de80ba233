//! The names of our headers, each once. They are a promise to whoever reads our dead letters: added to, never changed.

/// The version these names belong to.
pub const VERSION: u32 = 1;

/// What every name begins with that is ours alone.
pub(super) const PREFIX: &str = "dlo-";
pub(super) const DLO_VERSION: &str = "dlo-version";
pub(super) const DEATH_ID: &str = "dlo-death-id";
/// Only on a copy that a crash may have repeated.
pub(super) const REDELIVERED: &str = "dlo-redelivered";
pub(super) const REASON: &str = "dlo-reason";
pub(super) const VERDICT: &str = "dlo-verdict";
pub(super) const RULE: &str = "dlo-verdict-rule";
pub(super) const ERROR_CLASS: &str = "dlo-error-class";
pub(super) const ERROR_MESSAGE: &str = "dlo-error-message";
pub(super) const ERROR_STACK: &str = "dlo-error-stack";
pub(super) const ERROR_CODE: &str = "dlo-error-code";
pub(super) const TRUNCATED: &str = "dlo-truncated";
pub(super) const ATTEMPTS: &str = "dlo-attempts";
pub(super) const HISTORY: &str = "dlo-attempt-history";
pub(super) const FIRST_FAILED_AT: &str = "dlo-first-failed-at";
pub(super) const LAST_FAILED_AT: &str = "dlo-last-failed-at";
pub(super) const DEAD_AT: &str = "dlo-dead-at";
pub(super) const ORIGIN_BROKER: &str = "dlo-origin-broker";
pub(super) const ORIGIN_QUEUE: &str = "dlo-origin-queue";
pub(super) const ORIGIN_INCARNATION: &str = "dlo-origin-incarnation";
pub(super) const ORIGIN_PARTITION: &str = "dlo-origin-partition";
pub(super) const ORIGIN_OFFSET: &str = "dlo-origin-offset";
pub(super) const ORIGIN_MESSAGE_ID: &str = "dlo-origin-message-id";
pub(super) const ORIGIN_TIMESTAMP: &str = "dlo-origin-timestamp";
/// RabbitMQ: how the producer published it. The server keeps no such thing for a copy that is published by a client.
pub(super) const ORIGIN_EXCHANGE: &str = "dlo-origin-exchange";
pub(super) const ORIGIN_ROUTING_KEY: &str = "dlo-origin-routing-key";
pub(super) const ORIGIN_COPIES: &str = "dlo-origin-cc";
pub(super) const ORIGIN_EXPIRATION: &str = "dlo-origin-expiration";
/// `0` where the producer gave none.
pub(super) const ORIGIN_DELIVERY_MODE: &str = "dlo-origin-delivery-mode";
pub(super) const CONSUMER_GROUP: &str = "dlo-consumer-group";
pub(super) const CONSUMER_ID: &str = "dlo-consumer-id";
pub(super) const CONSUMER_VERSION: &str = "dlo-consumer-version";
/// Only on a retry hop.
pub(super) const ATTEMPT: &str = "dlo-attempt";
/// Only on a retry hop: not to be tried before, where the way there is shorter than its wait.
pub(super) const DUE: &str = "dlo-due";

/// On a letter that holds no body: whether that was fetched, or where it is.
pub(super) const RECORD: &str = "dlo-record";
/// Only on a letter whose body is in a file: its name, and the bytes of the body.
pub(super) const BODY_FILE: &str = "dlo-body-file";
pub(super) const BODY_BYTES: &str = "dlo-body-bytes";

pub(super) const OF_A_POINTER: &[&str] = &[RECORD, BODY_FILE, BODY_BYTES];

/// Everything that tells of a failure. A new death replaces these, and a replay takes them off.
pub(super) const OF_A_FAILURE: &[&str] = &[
    DLO_VERSION,
    DEATH_ID,
    REDELIVERED,
    REASON,
    VERDICT,
    RULE,
    ERROR_CLASS,
    ERROR_MESSAGE,
    ERROR_STACK,
    ERROR_CODE,
    TRUNCATED,
    ATTEMPTS,
    HISTORY,
    FIRST_FAILED_AT,
    LAST_FAILED_AT,
    DEAD_AT,
    ORIGIN_BROKER,
    ORIGIN_QUEUE,
    ORIGIN_INCARNATION,
    ORIGIN_PARTITION,
    ORIGIN_OFFSET,
    ORIGIN_MESSAGE_ID,
    ORIGIN_TIMESTAMP,
    ORIGIN_EXCHANGE,
    ORIGIN_ROUTING_KEY,
    ORIGIN_COPIES,
    ORIGIN_EXPIRATION,
    ORIGIN_DELIVERY_MODE,
    CONSUMER_GROUP,
    CONSUMER_ID,
    CONSUMER_VERSION,
    ATTEMPT,
    DUE,
];

pub(super) const REPLAYED_FROM: &str = "x-replayed-from-dlq";
pub(super) const REPLAY_ID: &str = "dlo-replay-id";
pub(super) const REPLAY_COUNT: &str = "dlo-replay-count";
pub(super) const TARGET_GROUP: &str = "dlo-target-group";

/// Only on replayed messages. They outlive a death, so that the office knows which letter died again.
pub(super) const OF_A_REPLAY: &[&str] = &[REPLAYED_FROM, REPLAY_ID, REPLAY_COUNT, TARGET_GROUP];

/// Whether `name` is one of `names`, without regard to ASCII case.
pub(super) fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}
