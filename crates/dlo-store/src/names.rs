//! Names that groups carry, for the search bar: counted, held against what was typed, the best first.
//!
//! Both stores hand in their groups and agree on the order. Bounded by the cap of groups per source.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use dlo_core::query::complete::{Known, fits};
use dlo_core::query::{Named, ShownBy};

/// Collects names while groups go by.
pub(crate) struct Names<'g> {
    typed: String,
    open: HashMap<(Named, Cow<'g, str>), u64>,
}

impl<'g> Names<'g> {
    pub(crate) fn new(typed: &str) -> Self {
        Self { typed: typed.to_lowercase(), open: HashMap::new() }
    }

    /// One group carries `name` and has so many open letters.
    pub(crate) fn seen(&mut self, named: Named, name: impl Into<Cow<'g, str>>, open: u64) {
        *self.open.entry((named, name.into())).or_default() += open;
    }

    /// Those that fit and are shown, the best first. A name that many groups carry is compared with the text once.
    pub(crate) fn best(self, shown_by: Option<&ShownBy>, most: usize) -> Vec<Known> {
        let Self { typed, open } = self;
        let fitting = open.into_iter().filter_map(|((named, name), open)| {
            let rank = fits(&name, &typed)?;
            let is_address = matches!(named, Named::Source | Named::Queue | Named::Owner);
            if !is_address && shown_by.is_some_and(|by| by.0.hides_text(&name)) {
                return None;
            }
            Some((rank, Known { named, name: name.into_owned(), open }))
        });
        let mut best: Vec<(u8, Known)> = fitting.collect();
        best.sort_unstable_by(|(rank, one), (other_rank, other)| {
            let order = (rank, Reverse(one.open)).cmp(&(other_rank, Reverse(other.open)));
            order.then_with(|| (&one.name, one.named.field()).cmp(&(&other.name, other.named.field())))
        });
        best.truncate(most);
        best.into_iter().map(|(_, known)| known).collect()
    }
}
