//! Why a message was parked (A5). Stored, searched, alerted on: an enum, never a sentence.

use crate::codes::coded;

coded! {
    /// The one reason a letter carries. "Could not parse" and "could not process" are never mixed up.
    pub enum Reason as "reason" {
        MaxRetriesExceeded = 1 => "max_retries_exceeded",
        DeserializationError = 2 => "deserialization_error",
        ValidationError = 3 => "validation_error",
        /// The default when nothing more precise is known: the handler failed.
        ProcessingError = 4 => "processing_error",
        Timeout = 5 => "timeout",
        CircuitOpen = 6 => "circuit_open",
        /// The consumer did not survive the message.
        Poison = 7 => "poison",
        Rejected = 8 => "rejected",
        Expired = 9 => "expired",
        QueueOverflow = 10 => "queue_overflow",
        DeliveryLimit = 11 => "delivery_limit",
        UnknownVersion = 12 => "unknown_version",
    }
}
