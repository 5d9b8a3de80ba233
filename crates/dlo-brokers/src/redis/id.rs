//! The id of an entry: milliseconds and a sequence, given by the server, growing along a stream.

use dlo_core::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct EntryId {
    ms: u64,
    sequence: u64,
}

/// Bits of the sequence in [`EntryId::number`].
const SEQUENCE_BITS: u32 = 20;

impl EntryId {
    /// Reads `1794769087242-0`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (ms, sequence) = std::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self { ms: ms.parse().ok()?, sequence: sequence.parse().ok()? })
    }

    /// When the server added it, unless the producer chose the id itself.
    pub(super) fn time(self) -> Option<Timestamp> {
        i64::try_from(self.ms).ok().map(Timestamp::from_millis)
    }

    /// A number that grows with the id as the server gives it: up to a million entries a millisecond.
    pub(super) fn number(self) -> i64 {
        let ms = self.ms.min((1 << (63 - SEQUENCE_BITS)) - 1) as i64;
        let sequence = self.sequence.min((1 << SEQUENCE_BITS) - 1) as i64;
        (ms << SEQUENCE_BITS) | sequence
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.ms, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_written_and_ordered_as_the_server_does() {
        let ids: Vec<_> = ["0-1", "7-18446744073709551615", "1794769087242-0", "1794769087242-10"]
            .map(|text| EntryId::parse(text.as_bytes()).unwrap())
            .to_vec();
        assert!(ids.is_sorted());
        assert!(ids.iter().map(|id| id.number()).collect::<Vec<_>>().is_sorted());
        assert_eq!(ids[3].to_string(), "1794769087242-10");
        assert_eq!(ids[2].time(), Some(Timestamp::from_millis(1_794_769_087_242)));
    }

    #[test]
    fn what_is_no_id_is_none() {
        for text in ["", "-", "1", "1-", "a-b", "1-2-3", "99999999999999999999-0", "\u{fc}-1"] {
            assert_eq!(EntryId::parse(text.as_bytes()), None, "{text}");
        }
    }
}
