//! Bytes from outside, taken one piece at a time. What is not there is an error, never a panic.

/// Why a decoder ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes are not of this format.
    Wrong,
    /// They may be, and there is more in them than is shown.
    Full,
}

pub(super) type Step<T = ()> = Result<T, Stop>;

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading<'a>(pub(super) &'a [u8]);

impl<'a> Reading<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Step<u8> {
        let (first, rest) = self.0.split_first().ok_or(Stop::Wrong)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn take(&mut self, count: usize) -> Step<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(count).ok_or(Stop::Wrong)?;
        self.0 = rest;
        Ok(part)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk().ok_or(Stop::Wrong)?;
        self.0 = rest;
        Ok(*part)
    }

    /// A number of 1, 2, 4 or 8 bytes, the highest first.
    pub(super) fn number(&mut self, bytes: usize) -> Step<u64> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Seven bits a byte, the lowest first, at most ten bytes.
    pub(super) fn varint(&mut self) -> Step<u64> {
        let mut number = 0_u64;
        for place in 0..10 {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if place == 9 && bits > 1 {
                return Err(Stop::Wrong);
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Stop::Wrong)
    }

    /// A varint whose lowest bit is the sign.
    pub(super) fn zigzag(&mut self) -> Step<i64> {
        Ok(unzigzag(self.varint()?))
    }
}

pub(super) const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}
