//! Searching: choose the cheapest source of candidates, walk it newest first, hold each against the query.
//!
//! Counts are kept at write time, so it is known beforehand how many letters the groups and statuses of a query have
//! at most, and the choice is arithmetic: streams of single (group, status) pairs merged, a walk over everything, or the
//! word indexes. Every stream is ordered by place, so a page ends as soon as it is full. Work per page is bounded.

use std::borrow::Cow;
use std::collections::HashMap;

use dlo_core::letter::Status;
use dlo_core::query::Query;
use dlo_core::words;
use rusqlite::Connection;

use super::catalog::{Catalog, GroupRow};
use super::rows::Found;
use super::streams::{Merged, Stream};
use super::writer::Shared;
use super::{read, read_error};
use crate::block::Block;
use crate::filter::{Filter, unless_unreadable, with_heads};
use crate::place::{Place, Range};
use crate::{Glimpse, LetterPage, Page, StoreError};

/// Candidates looked at for one page before it is handed out as far as it got.
const WORK: usize = 20_000;
/// How often that is done for a page on which nothing stands yet: who looks for one letter wants to see it, or that there
/// is none, and an empty page with more behind it says neither.
const IN_VAIN: usize = 5;
/// Candidates looked at to say how many there are.
pub(super) const GLIMPSE: usize = 5_000;
/// Opening one pair's stream costs about as much as walking this many rows.
const PAIR_COST: u64 = 4;
/// How far hits of an index are counted to choose the rarest.
const HITS: usize = 1_000;
/// Hits of an exact value that are looked through without asking for a rarer text.
const FEW: u64 = 100;
/// Letters that may wait for the index of texts; where more do, it is not asked, since all of them are listed beside it.
const WAITING: u64 = 200_000;

pub(super) fn page(
    db: &Connection,
    shared: &Shared,
    query: &Query,
    page: &Page,
) -> Result<LetterPage, StoreError> {
    let high = Place::from_cursor(page.cursor.as_ref())?;
    let query = &*heads_named(shared, query);
    let mut search = Search::new(query, high);
    // One snapshot for all streams: a letter that changes its status meanwhile is seen once, where it was.
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let mut letters = Vec::with_capacity(page.limit.min(64));
    let mut last = None;
    let mut tries = 1;
    let ended = loop {
        let ended = search.run(db, shared, Some(WORK), &mut |found| {
            last = Some(found.place);
            letters.push(found.letter);
            letters.len() < page.limit
        })?;
        match ended {
            Ended::Tired(at) if letters.is_empty() && tries < IN_VAIN => search = Search::new(query, at),
            ended => break ended,
        }
        tries += 1;
    };
    let next = match ended {
        Ended::Exhausted => None,
        Ended::Enough => last.map(Place::cursor),
        Ended::Tired(at) => Some(at.cursor()),
    };
    Ok(LetterPage { letters, next })
}

/// How many match, up to `at_most`; looking at so many candidates and no more, if `work` says so.
pub(super) fn count(
    db: &Connection,
    shared: &Shared,
    query: &Query,
    at_most: u64,
    work: Option<usize>,
) -> Result<Glimpse, StoreError> {
    let query = &*heads_named(shared, query);
    let mut search = Search::new(query, Place::END);
    if let Some(kept) = shared.catalog(|catalog| search.kept_count(catalog)) {
        return Ok(Glimpse { letters: kept.min(at_most), whole: kept <= at_most });
    }
    let mut letters = 0;
    if at_most == 0 {
        return Ok(Glimpse { letters, whole: false });
    }
    let ended = search.run(db, shared, work, &mut |_| {
        letters += 1;
        letters < at_most
    })?;
    Ok(Glimpse { letters, whole: matches!(ended, Ended::Exhausted) })
}

/// The places of all matches, oldest first; no more than `most` and one.
pub(super) fn places(
    db: &Connection,
    shared: &Shared,
    query: &Query,
    most: usize,
) -> Result<Vec<Place>, StoreError> {
    let query = &*heads_named(shared, query);
    let mut search = Search::new(query, Place::END);
    let mut places = Vec::new();
    match search.exact_pairs(shared) {
        // Nothing has to be held against the query: the index alone answers.
        Some(pairs) => {
            for (group, status) in pairs {
                let room = most + 1 - places.len();
                places.extend(Stream::pair(group, status).all(db, search.range, room)?);
            }
        }
        None => {
            search.run(db, shared, None, &mut |found| {
                places.push(found.place);
                places.len() <= most
            })?;
        }
    }
    places.sort_unstable();
    Ok(places)
}

/// The newest letters that match, with where their blocks are.
pub(super) fn newest(
    db: &Connection,
    shared: &Shared,
    query: &Query,
    most: usize,
) -> Result<Vec<Found>, StoreError> {
    let query = &*heads_named(shared, query);
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let mut newest = Vec::new();
    if most > 0 {
        Search::new(query, Place::END).run(db, shared, Some(WORK), &mut |found| {
            newest.push(found);
            newest.len() < most
        })?;
    }
    Ok(newest)
}

/// The query with heads in the place of groups that were merged into them.
fn heads_named<'q>(shared: &Shared, query: &'q Query) -> Cow<'q, Query> {
    with_heads(query, |id| {
        shared.catalog(|catalog| {
            catalog.head(id).and_then(|row| catalog.groups.get(&row)).map(|group| group.id)
        })
    })
}

/// How a search came to its end.
enum Ended {
    /// Nothing is left.
    Exhausted,
    /// The caller has enough.
    Enough,
    /// The bound on work was reached; everything from this place on was looked at.
    Tired(Place),
}

struct Search<'q> {
    filter: Filter<'q>,
    range: Range,
    /// The block looked at last: neighbours in time often share one.
    blocks: HashMap<i64, Block>,
}

/// The (group, status) pairs that can hold matches, with how many letters they have.
struct Pairs {
    pairs: Vec<(GroupRow, Status)>,
    letters: u64,
}

impl<'q> Search<'q> {
    fn new(query: &'q Query, high: Place) -> Self {
        let filter = Filter::new(query);
        let range = filter.range(high);
        Self { filter, range, blocks: HashMap::new() }
    }

    /// The exact count, where it is kept: groups and statuses are all the query asks for.
    fn kept_count(&self, catalog: &Catalog) -> Option<u64> {
        if self.filter.concerns_rows() {
            return None;
        }
        let statuses = self.filter.statuses();
        let mut count = 0;
        for group in catalog.groups.values().filter(|group| self.filter.may_hold(group)) {
            if group.overflow && self.filter.concerns_groups() {
                return None;
            }
            count += statuses.iter().map(|status| group.counts.get(*status)).sum::<u64>();
        }
        Some(count)
    }

    /// The pairs whose letters all match, if groups and statuses are all the query asks for.
    fn exact_pairs(&self, shared: &Shared) -> Option<Vec<(GroupRow, Status)>> {
        if self.filter.concerns_rows() {
            return None;
        }
        shared.catalog(|catalog| {
            let pairs = self.pairs(catalog).pairs;
            let mixed =
                |(row, _): &(GroupRow, Status)| catalog.groups.get(row).is_none_or(|group| group.overflow);
            let exact = !self.filter.concerns_groups() || !pairs.iter().any(mixed);
            exact.then_some(pairs)
        })
    }

    fn pairs(&self, catalog: &Catalog) -> Pairs {
        let statuses = self.filter.statuses();
        let mut found = Pairs { pairs: Vec::new(), letters: 0 };
        for (row, group) in catalog.groups.iter().filter(|(_, group)| self.filter.may_hold(group)) {
            // A group that has letters is asked for every status, counted or not: a letter may have taken a step
            // that the snapshot shows and the catalog does not show yet.
            if group.counts.total() > 0 {
                found.pairs.extend(statuses.iter().map(|status| (*row, *status)));
                found.letters += statuses.iter().map(|status| group.counts.get(*status)).sum::<u64>();
            }
        }
        found
    }

    /// Calls `take` with every match, newest first, until it says `false`, the candidates end, or `work` is used up.
    fn run(
        &mut self,
        db: &Connection,
        shared: &Shared,
        work: Option<usize>,
        take: &mut dyn FnMut(Found) -> bool,
    ) -> Result<Ended, StoreError> {
        // One snapshot, the caller's if there is one: what is moved or merged meanwhile is seen where it was.
        let own = db.is_autocommit().then(|| db.unchecked_transaction());
        let _snapshot = own.transpose().map_err(read_error)?;
        if let Some(id) = self.filter.only() {
            let found = match read::find(db, shared, id) {
                Err(StoreError::NoLetter(_)) => return Ok(Ended::Exhausted),
                found => found?,
            };
            if found.place < self.range.high && self.matches(db, &found)? {
                take(found);
            }
            return Ok(Ended::Exhausted);
        }
        let Some(mut candidates) = self.candidates(db, shared)? else { return Ok(Ended::Exhausted) };
        let (mut rows, mut looked) = (read::Rows::of(db)?, 0);
        while let Some(place) = candidates.next(db)? {
            if self.has_texts(db, place)?
                && let Some(found) = shared.catalog(|catalog| rows.at(catalog, place))?
                && self.matches(db, &found)?
                && !take(found)
            {
                return Ok(Ended::Enough);
            }
            looked += 1;
            if work.is_some_and(|work| looked >= work) {
                return Ok(Ended::Tired(place));
            }
        }
        Ok(Ended::Exhausted)
    }

    /// Whether the texts asked for stand in the letter at a place, as far as can be read. A block that has a word has it
    /// in one letter of thirty: the others are turned away here, before their rows are read.
    fn has_texts(&mut self, db: &Connection, place: Place) -> Result<bool, StoreError> {
        if self.filter.texts.is_empty() {
            return Ok(true);
        }
        let filter = &self.filter;
        let Some((block, slot, beyond)) = read::glance(db, place, |error| filter.texts_beyond(error))? else {
            return Ok(false);
        };
        if beyond.is_empty() {
            return Ok(true);
        }
        match read::held(&mut self.blocks, db, block).and_then(|block| block.payload(slot)) {
            Ok(payload) => {
                let payload = words::scanned(&payload);
                Ok(beyond.iter().all(|text| words::contains(&payload, text)))
            }
            // Said where the whole letter is looked at.
            Err(StoreError::Unreadable(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn matches(&mut self, db: &Connection, found: &Found) -> Result<bool, StoreError> {
        if !self.filter.row_matches(&found.letter) {
            return Ok(false);
        }
        if !self.filter.needs_block(&found.letter) {
            return Ok(true);
        }
        unless_unreadable(&found.letter, self.block_matches(db, found))
    }

    fn block_matches(&mut self, db: &Connection, found: &Found) -> Result<bool, StoreError> {
        let block = read::held(&mut self.blocks, db, found.block)?;
        Ok(self.filter.block_matches(&found.letter, &block.cold(found.slot)?))
    }

    /// The cheapest stream of candidates that misses nothing; `None` if nothing can match.
    fn candidates(&self, db: &Connection, shared: &Shared) -> Result<Option<Merged>, StoreError> {
        let statuses = self.filter.statuses();
        // Where no group can be ruled out, none of thousands is held against the query; only their counts are added up.
        let (total, pairs) = shared.catalog(|catalog| {
            (catalog.totals(), self.filter.concerns_groups().then(|| self.pairs(catalog)))
        });
        let none = pairs.as_ref().is_some_and(|pairs| pairs.pairs.is_empty());
        // A text without a single word is found nowhere.
        if none || self.filter.texts.iter().any(String::is_empty) {
            return Ok(None);
        }
        let walked: u64 = statuses.iter().map(|status| total.get(*status)).sum();
        let letters = pairs.as_ref().map_or(walked, |pairs| pairs.letters);
        let waiting = shared.unindexed.load(std::sync::atomic::Ordering::Relaxed);
        if let Some(words) = self.rarest_words(db, letters, waiting)? {
            return Ok(Some(Merged::new(words, self.range)));
        }
        // Fifty matches are expected after this many rows of a walk over these statuses.
        let walk_cost = walked / letters.max(1) * 50;
        let few =
            |pairs: &Pairs| pairs.pairs.len() as u64 * PAIR_COST <= walk_cost || pairs.pairs.len() <= 16;
        let streams = match pairs {
            Some(pairs) if few(&pairs) => {
                pairs.pairs.iter().map(|(group, status)| Stream::pair(*group, *status)).collect()
            }
            None if statuses.len() == Status::ALL.len() => vec![Stream::everything()],
            _ => statuses.iter().map(|status| Stream::status(*status)).collect(),
        };
        Ok(Some(Merged::new(streams, self.range)))
    }

    /// The streams of the exact values or texts asked for, whichever are rarer, unless the groups asked for have fewer
    /// letters than there are hits.
    fn rarest_words(
        &self,
        db: &Connection,
        letters: u64,
        waiting: u64,
    ) -> Result<Option<Vec<Stream>>, StoreError> {
        // Hits past the bound are not counted: then groups win up to twenty times as many letters.
        let expected = |hits: usize| if hits <= HITS { hits as u64 } else { hits as u64 * 20 };
        let mut rarest = match &self.filter.quick[..] {
            [] => None,
            tokens => {
                let (hits, streams) = self.rarest_value(tokens, db)?;
                Some((expected(hits), streams))
            }
        };
        let wanted = self.filter.wanted();
        let common = rarest.as_ref().is_none_or(|(cost, _)| *cost > FEW);
        if !wanted.is_empty() && waiting <= WAITING && common {
            let (hits, mut streams) = self.hits(vec![Stream::grams(db, wanted, self.range)?], db)?;
            // What waits is looked at as well, each letter once: it is known exactly and not to be multiplied.
            let mut behind = Stream::unindexed(db, self.range)?;
            let cost = expected(hits) + behind.hits(db, self.range, HITS)? as u64;
            streams.push(behind);
            if rarest.as_ref().is_none_or(|(least, _)| cost < *least) {
                rarest = Some((cost, streams));
            }
        }
        Ok(rarest.filter(|(cost, _)| *cost <= letters || *cost == 0).map(|(_, streams)| streams))
    }

    /// The stream of the rarest of these exact values, with how many hits it has. A match has all of them, so one that is
    /// rare is enough; only where all are common are they asked for together, which costs a walk through each.
    fn rarest_value(&self, tokens: &[String], db: &Connection) -> Result<(usize, Vec<Stream>), StoreError> {
        let mut rarest: Option<(usize, Vec<Stream>)> = None;
        for token in tokens {
            let found = self.hits(vec![Stream::quick(std::slice::from_ref(token))], db)?;
            if rarest.as_ref().is_none_or(|(fewest, _)| found.0 < *fewest) {
                rarest = Some(found);
            }
        }
        match rarest.filter(|(found, _)| *found <= HITS || tokens.len() == 1) {
            Some(rarest) => Ok(rarest),
            None => self.hits(vec![Stream::quick(tokens)], db),
        }
    }

    fn hits(&self, mut streams: Vec<Stream>, db: &Connection) -> Result<(usize, Vec<Stream>), StoreError> {
        let mut hits = 0;
        for stream in &mut streams {
            hits += stream.hits(db, self.range, HITS)?;
        }
        Ok((hits, streams))
    }
}
