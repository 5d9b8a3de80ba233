//! Bits one after the other, the lowest of a byte first, and distances in a Rice code among them.

pub(crate) struct BitWriter {
    data: Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter {
    pub(crate) fn behind(data: Vec<u8>) -> Self {
        Self { data, held: 0, count: 0 }
    }

    /// At most 56 bits at once, the lowest first.
    pub(crate) fn push(&mut self, value: u64, bits: u32) {
        self.held |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.data.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.data.push(self.held as u8);
        }
        self.data
    }
}

pub(crate) struct BitReader<'d> {
    data: &'d [u8],
    at: usize,
}

impl<'d> BitReader<'d> {
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// The next bits, as many as there are up to 56; beyond the end are zeros.
    fn peek(&self) -> u64 {
        let bytes = self.data.get(self.at / 8..).unwrap_or_default();
        let word = match bytes.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)),
        };
        word >> (self.at % 8)
    }

    /// A distance in a Rice code with this parameter, forty at most; `None`: there is none.
    pub(crate) fn gap(&mut self, parameter: u32) -> Option<u64> {
        let word = self.peek();
        let mut quotient = u64::from(word.trailing_ones());
        let rest = if quotient + 1 + u64::from(parameter) <= 56 {
            // Nearly always the whole of it is in sight.
            self.at += quotient as usize + 1;
            word >> (quotient + 1)
        } else {
            quotient = self.ones();
            self.peek()
        };
        self.at += parameter as usize;
        // Damage may claim anything; what lies behind the end was not written.
        let inside = self.at <= self.data.len() * 8 && quotient < 1 << 40;
        inside.then(|| (quotient << parameter) | (rest & ((1 << parameter) - 1)))
    }

    /// How many ones come next, however many; the zero behind them is passed.
    fn ones(&mut self) -> u64 {
        let mut all = 0;
        loop {
            let ones = self.peek().trailing_ones().min(48);
            all += u64::from(ones);
            self.at += ones as usize;
            if ones < 48 {
                self.at += 1;
                return all;
            }
        }
    }
}
