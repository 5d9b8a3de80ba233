//! Identities. Each is a type of its own, so that a group is never looked up with a letter's id.
//!
//! Nothing here draws randomness or reads a clock: the caller hands both in.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Timestamp;

macro_rules! uuid_id {
    ($(#[$outer:meta])* $name:ident) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::try_parse(text).map(Self)
            }
        }
    };
}

uuid_id! {
    /// A letter: a UUIDv7 that the office gives at capture.
    LetterId
}
uuid_id! {
    /// A group: the fingerprint of its cause, so the same cause has the same id in every office.
    GroupId
}
uuid_id! {
    /// A death: name-based over (origin, consumer group, replay count), so parking twice is seen as one.
    DeathId
}

uuid_id! {
    /// A replay: a UUIDv7 that the office gives when it is planned.
    ReplayId
}

impl ReplayId {
    /// A UUIDv7, as [`LetterId::new`].
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        Self(LetterId::new(now, random).0)
    }
}

impl LetterId {
    /// A UUIDv7 from the office's clock and ten random bytes.
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }
}

/// The namespace of our name-based ids. Changing it would make every known death look new.
const DEATHS: Uuid = Uuid::from_u128(0x6c0d_1e77_e200_4f1c_9a5e_d1ed_5a11_0ff1);

impl DeathId {
    /// The id of the death that `name` spells out; see `Origin::death_name`.
    pub fn from_name(name: &[u8]) -> Self {
        Self(Uuid::new_v5(&DEATHS, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letter_ids_sort_by_the_time_they_were_given() {
        let early = LetterId::new(Timestamp::from_millis(1_000), [0xff; 10]);
        let late = LetterId::new(Timestamp::from_millis(1_001), [0; 10]);
        assert!(early < late);
        assert_eq!(early.0.get_version_num(), 7);
    }

    #[test]
    fn a_death_id_depends_on_nothing_but_its_name() {
        assert_eq!(DeathId::from_name(b"orders/17/42"), DeathId::from_name(b"orders/17/42"));
        assert_ne!(DeathId::from_name(b"orders/17/42"), DeathId::from_name(b"orders/17/43"));
    }
}
