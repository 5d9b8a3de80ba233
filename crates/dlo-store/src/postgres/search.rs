//! Searching: choose the cheapest source of candidates, walk it newest first, hold each against the query.
//!
//! Words about groups are resolved to groups first. Then the choice is between single (group, status) pairs merged, the
//! word indexes, and a walk over statuses or everything. Every stream is ordered by place, so a page ends as soon as
//! it is full. A page is answered from one snapshot, and the work for it is bounded.

use std::borrow::Cow;
use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::letter::Status;
use dlo_core::query::Query;

use super::pairs::Pairs;
use super::rows::{self, Found};
use super::streams::Stream;
use super::{read, read_error, triage};
use crate::block::Block;
use crate::filter::{Filter, unless_unreadable, with_heads};
use crate::place::{Place, Range};
use crate::{Glimpse, LetterPage, Page, StoreError};

/// Candidates looked at for one page before it is handed out as far as it got.
const WORK: usize = 20_000;
/// How often that is done for a page on which nothing stands yet.
const IN_VAIN: usize = 5;
/// Candidates looked at to say how many there are.
pub(super) const GLIMPSE: usize = 5_000;
/// Letters of which the block was read for one page: dearer than a row by far.
const SCANS: usize = 4_000;
/// Candidates of one round: the first is as large as the page, each further one larger, up to this.
const ROUND: i64 = 2_000;
/// Groups with fewer letters than this are walked even if words are asked for.
const FEW: u64 = 1_000;
/// Opening one pair's range costs about as much as walking this many rows.
const PAIR_COST: u64 = 4;

pub(super) async fn page(db: &Transaction<'_>, query: &Query, page: &Page) -> Result<LetterPage, StoreError> {
    let high = Place::from_cursor(page.cursor.as_ref())?;
    let query = &*heads_named(db, query).await?;
    let mut search = Search::new(query, high);
    let mut letters = Vec::new();
    let mut last = None;
    let mut tries = 1;
    let ended = loop {
        let mut take = |found: Found| {
            last = Some(found.place);
            letters.push(found.letter);
            letters.len() < page.limit
        };
        match search.run(db, page.limit, Some(WORK), &mut take).await? {
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
pub(super) async fn count(
    db: &Transaction<'_>,
    query: &Query,
    at_most: u64,
    work: Option<usize>,
) -> Result<Glimpse, StoreError> {
    let query = &*heads_named(db, query).await?;
    let mut search = Search::new(query, Place::END);
    let mut letters = 0;
    if at_most == 0 {
        return Ok(Glimpse { letters, whole: false });
    }
    if let Some(kept) = search.kept_count(db).await? {
        return Ok(Glimpse { letters: kept.min(at_most), whole: kept <= at_most });
    }
    let mut take = |_| {
        letters += 1;
        letters < at_most
    };
    let ended = search.run(db, ROUND as usize, work, &mut take).await?;
    Ok(Glimpse { letters, whole: matches!(ended, Ended::Exhausted) })
}

/// The places of all matches, oldest first; no more than `most` and one.
pub(super) async fn places(
    db: &Transaction<'_>,
    query: &Query,
    most: usize,
) -> Result<Vec<Place>, StoreError> {
    let query = &*heads_named(db, query).await?;
    let mut search = Search::new(query, Place::END);
    if !search.filter.concerns_rows() {
        // Groups and statuses are all that is asked for: nothing has to be held against the query.
        return Pairs::new(query, search.statuses()).places(db, most as i64 + 1).await;
    }
    let mut places = Vec::new();
    let mut take = |found: Found| {
        places.push(found.place);
        places.len() <= most
    };
    search.run(db, ROUND as usize, None, &mut take).await?;
    places.sort_unstable();
    Ok(places)
}

/// The newest letters that match, with where their blocks are.
pub(super) async fn newest(
    db: &Transaction<'_>,
    query: &Query,
    most: usize,
) -> Result<Vec<Found>, StoreError> {
    let query = &*heads_named(db, query).await?;
    let mut newest = Vec::new();
    if most == 0 {
        return Ok(newest);
    }
    let mut take = |found: Found| {
        newest.push(found);
        newest.len() < most
    };
    Search::new(query, Place::END).run(db, most, Some(WORK), &mut take).await?;
    Ok(newest)
}

/// The query with heads in the place of groups that were merged into them.
async fn heads_named<'q>(db: &Transaction<'_>, query: &'q Query) -> Result<Cow<'q, Query>, StoreError> {
    let heads = triage::named_head(db, query).await?;
    Ok(with_heads(query, |id| heads.get(&id).copied()))
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
    query: &'q Query,
    filter: Filter<'q>,
    range: Range,
    blocks: HashMap<i64, Block>,
    scanned: usize,
}

impl<'q> Search<'q> {
    fn new(query: &'q Query, high: Place) -> Self {
        let filter = Filter::new(query);
        let range = filter.range(high);
        Self { query, filter, range, blocks: HashMap::new(), scanned: 0 }
    }

    fn statuses(&self) -> Vec<i16> {
        self.filter.statuses().into_iter().map(|status| status.number().into()).collect()
    }

    /// The exact count, where it need not be walked for: groups and statuses are all the query asks for.
    async fn kept_count(&self, db: &Transaction<'_>) -> Result<Option<u64>, StoreError> {
        if self.filter.concerns_rows() {
            return Ok(None);
        }
        if self.filter.concerns_groups() {
            return Pairs::new(self.query, self.statuses()).count(db).await.map(Some);
        }
        let sql = "SELECT coalesce(sum(n), 0)::bigint FROM counts WHERE status = ANY($1)";
        let row = db.query_one(sql, &[&self.statuses()]).await.map_err(read_error)?;
        rows::number(row.get(0), "counts.n").map(Some)
    }

    /// Calls `take` with every match, newest first, until it says `false`, the candidates end, or `work` is used up.
    async fn run(
        &mut self,
        db: &Transaction<'_>,
        first_round: usize,
        work: Option<usize>,
        take: &mut (dyn FnMut(Found) -> bool + Send),
    ) -> Result<Ended, StoreError> {
        if let Some(id) = self.filter.only() {
            let found = match read::find(db, id).await {
                Err(StoreError::NoLetter(_)) => return Ok(Ended::Exhausted),
                found => found?,
            };
            if found.place < self.range.high && self.matches(db, &found).await? {
                take(found);
            }
            return Ok(Ended::Exhausted);
        }
        let Some(stream) = self.candidates(db).await? else { return Ok(Ended::Exhausted) };
        let mut round = (first_round as i64 + 1).clamp(32, ROUND);
        let mut looked = 0;
        loop {
            let candidates = stream.next(db, self.range, round).await?;
            let exhausted = (candidates.len() as i64) < round;
            looked += candidates.len();
            for found in candidates {
                self.range.high = found.place;
                if self.matches(db, &found).await? && !take(found) {
                    return Ok(Ended::Enough);
                }
                if work.is_some() && self.scanned >= SCANS {
                    return Ok(Ended::Tired(self.range.high));
                }
            }
            if exhausted {
                return Ok(Ended::Exhausted);
            }
            if work.is_some_and(|work| looked >= work) {
                return Ok(Ended::Tired(self.range.high));
            }
            round = (round * 4).min(ROUND);
        }
    }

    async fn matches(&mut self, db: &Transaction<'_>, found: &Found) -> Result<bool, StoreError> {
        if !self.filter.row_matches(&found.letter) {
            return Ok(false);
        }
        if !self.filter.needs_block(&found.letter) {
            return Ok(true);
        }
        self.scanned += 1;
        unless_unreadable(&found.letter, self.block_matches(db, found).await)
    }

    async fn block_matches(&mut self, db: &Transaction<'_>, found: &Found) -> Result<bool, StoreError> {
        let block = read::held(&mut self.blocks, db, found.block).await?;
        Ok(self.filter.block_matches(&found.letter, &block.cold(found.slot)?))
    }

    /// The cheapest stream of candidates that misses nothing; `None` if nothing can match.
    async fn candidates(&self, db: &Transaction<'_>) -> Result<Option<Stream>, StoreError> {
        let statuses = self.statuses();
        // A text without a single word is found nowhere.
        if statuses.is_empty() || self.filter.texts.iter().any(String::is_empty) {
            return Ok(None);
        }
        let walk =
            if statuses.len() == Status::ALL.len() { Stream::Everything } else { Stream::Statuses(statuses) };
        if !self.filter.concerns_groups() {
            return Ok(Some(self.words(db).await?.unwrap_or(walk)));
        }
        let pairs = Pairs::new(self.query, self.statuses());
        let held = pairs.summary(db).await?;
        if held.letters == 0 {
            return Ok(None);
        }
        if held.letters > FEW
            && let Some(words) = self.words(db).await?
        {
            return Ok(Some(words));
        }
        // Fifty matches are expected after this many rows of a walk.
        let walk_cost = estimated_letters(db).await? / held.letters * 50;
        if held.pairs * PAIR_COST <= walk_cost || held.pairs <= 16 {
            let (groups, statuses) = pairs.read(db).await?;
            return Ok(Some(Stream::Pairs(groups, statuses)));
        }
        Ok(Some(walk))
    }

    /// The stream of the exact values of rows, or else of what stands in texts and blocks.
    async fn words(&self, db: &Transaction<'_>) -> Result<Option<Stream>, StoreError> {
        if !self.filter.quick.is_empty() {
            return Stream::quick(db, &self.filter.quick).await.map(Some);
        }
        Stream::deep(db, &self.filter).await
    }
}

/// How many letters there are about, as the planner believes: for a choice, never for an answer.
async fn estimated_letters(db: &Transaction<'_>) -> Result<u64, StoreError> {
    let sql = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'letters'::regclass";
    let row = db.query_one(sql, &[]).await.map_err(read_error)?;
    rows::number(row.get(0), "reltuples")
}
