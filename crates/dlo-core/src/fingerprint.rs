//! What makes two failures the same: source × queue × consumer × event type × error class × message template.
//!
//! The template is made in `fingerprint/template.rs`, which knows what varies by the shapes in `fingerprint/shapes.rs`.
//! `tests/golden/templates.txt` holds what becomes of real messages; a change there is a change of [`VERSION`].

mod shapes;
mod template;

pub use template::template;

use uuid::Uuid;

use crate::id::GroupId;
use crate::origin::digest;

/// The version of the algorithm below. Stored with each group; a change of the algorithm raises it.
pub const VERSION: u32 = 1;

/// The cause of a failure, as it is grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    pub group: GroupId,
    pub version: u32,
    /// The error message without its variable parts, bounded.
    pub template: String,
}

/// The words that, with the template, make a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    pub source: &'a str,
    pub queue: &'a str,
    pub consumer: Option<&'a str>,
    pub event_type: Option<&'a str>,
    pub error_class: Option<&'a str>,
}

impl Fingerprint {
    /// The fingerprint of a failure with these parts and this error message.
    pub fn of(parts: Parts<'_>, error_message: &str) -> Self {
        let template = template(error_message);
        Self { group: group_id(parts, "", &template), version: VERSION, template }
    }

    /// The one group of a source that takes what comes past its cap of groups.
    pub fn overflow(source: &str) -> Self {
        let parts = Parts { source, queue: "", consumer: None, event_type: None, error_class: None };
        Self { group: group_id(parts, "overflow", ""), version: VERSION, template: String::new() }
    }
}

fn group_id(parts: Parts<'_>, kind: &str, template: &str) -> GroupId {
    let hash = digest(&[
        Some(kind),
        Some(&VERSION.to_string()),
        Some(parts.source),
        Some(parts.queue),
        parts.consumer,
        parts.event_type,
        parts.error_class,
        Some(template),
    ]);
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&hash[..16]);
    GroupId(Uuid::new_v8(bytes))
}

#[cfg(test)]
mod tests;
