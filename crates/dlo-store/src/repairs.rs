//! Repairs: a corrected message beside the original, which stays as it was.
//!
//! A letter has at most one active repair, the latest; that is what a replay sends. The others stay as history.

use dlo_core::id::LetterId;
use dlo_core::letter::Status;
use dlo_core::message::Message;
use dlo_core::time::Timestamp;

use crate::StoreError;
use crate::block::Sealer;

/// The expression of a repair that takes earlier ones back: the message as it was captured. No other repair has it, so the
/// stores can tell it from those that change something without opening the message.
pub const AS_CAPTURED: &str = ".";

/// A repair on its way in. Who and why are in the [`crate::Deed`] beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRepair {
    /// The whole message as it is to be sent: key, headers and payload, changed or not.
    pub message: Message,
    /// The expression that made it; `None` where it was edited by hand.
    pub expression: Option<String>,
}

/// A repair as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    pub letter: LetterId,
    /// Counted from one.
    pub number: u32,
    pub message: Message,
    pub author: String,
    pub reason: Option<String>,
    pub expression: Option<String>,
    pub at: Timestamp,
    /// Whether a replay sends this one.
    pub active: bool,
}

impl Repair {
    /// Whether it takes earlier ones back, and changes nothing itself.
    pub fn is_as_captured(&self) -> bool {
        self.expression.as_deref() == Some(AS_CAPTURED)
    }
}

/// What became of one repair of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repaired {
    /// Stored, and active from now on.
    Stored,
    /// The letter is not open; nothing was changed.
    NotOpen(Status),
    Missing,
}

/// A repair ready to be written.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) letter: LetterId,
    pub(crate) key: Option<Vec<u8>>,
    /// Headers and payload, as a block of one.
    pub(crate) message: Vec<u8>,
    pub(crate) expression: Option<String>,
}

/// Packs repairs on the caller's side, so that the writer only writes.
pub(crate) fn seal(repairs: Vec<(LetterId, NewRepair)>) -> Result<Vec<Sealed>, StoreError> {
    let mut sealer = Sealer::new()?;
    let seal = |(letter, repair): (LetterId, NewRepair)| {
        let message = sealer.seal(&repair.message)?;
        let key = repair.message.key.map(|key| key.0.to_vec());
        Ok(Sealed { letter, key, message, expression: repair.expression })
    };
    repairs.into_iter().map(seal).collect()
}
