//! Numbered things, counted behind a kill: which are missing, and which are there more than once.

/// How often each of `0..count` was seen.
#[derive(Debug, Clone)]
pub struct Numbered {
    times: Vec<u32>,
}

impl Numbered {
    /// Of so many, none of which was seen yet.
    pub fn of(count: u64) -> Self {
        Self { times: vec![0; count as usize] }
    }

    /// One more sight of `n`. A number that was never sent is damage, and worse than a loss: it ends the bench.
    pub fn saw(&mut self, n: u64) {
        let times = usize::try_from(n).ok().and_then(|at| self.times.get_mut(at));
        *times.unwrap_or_else(|| panic!("number {n} was never sent")) += 1;
    }

    /// How many were seen at all.
    pub fn there(&self) -> u64 {
        self.times.iter().filter(|times| **times > 0).count() as u64
    }

    /// How many were not.
    pub fn lost(&self) -> u64 {
        self.times.len() as u64 - self.there()
    }

    /// Sights beyond the first of each.
    pub fn again(&self) -> u64 {
        self.times.iter().map(|times| u64::from(times.saturating_sub(1))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Numbered;

    #[test]
    fn what_is_missing_and_what_is_there_again_is_counted() {
        let mut letters = Numbered::of(6);
        for n in [0, 1, 3, 3, 3, 5, 5] {
            letters.saw(n);
        }
        assert_eq!((letters.there(), letters.lost(), letters.again()), (4, 2, 3));
    }

    #[test]
    fn of_all_once_nothing_is_lost_or_again() {
        let mut letters = Numbered::of(3);
        (0..3).for_each(|n| letters.saw(n));
        assert_eq!((letters.there(), letters.lost(), letters.again()), (3, 0, 0));
    }

    #[test]
    #[should_panic(expected = "number 3 was never sent")]
    fn a_number_that_was_never_sent_is_damage() {
        Numbered::of(3).saw(3);
    }
}
