//! Whom a source had before, for brokers that forget over a restart what they had delivered: they say of a second
//! delivery that it is the first. Known by message id, up to a bound.

use std::collections::{HashSet, VecDeque};

/// Ids that are remembered: more than can be unsettled at once.
const REMEMBERED: usize = 20_000;

#[derive(Debug, Default)]
pub(crate) struct Recent {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Recent {
    /// Whether the message was here before; it was from now on.
    pub(crate) fn had(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return true;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_here_is_remembered_up_to_a_bound() {
        let mut recent = Recent::default();
        assert!(!recent.had("first") && recent.had("first"));
        for n in 0..REMEMBERED {
            assert!(!recent.had(&n.to_string()));
        }
        assert!(!recent.had("first"), "the oldest is forgotten");
        assert_eq!(recent.ids.len(), REMEMBERED);
    }
}
