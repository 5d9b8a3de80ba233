//! Searching: choose the cheapest source of candidates, walk it newest first, hold each against the query.
//!
//! Words about groups are resolved to groups first. Then the choice is between single (group, status) pairs merged, the
//! word indexes, and a walk over statuses or everything. Every stream is ordered by place, so a page ends as soon as
//! it is full. A page is answered from one snapshot, and the work for it is bounded.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::letter::Status;
use dlo_core::query::{Matcher, Query};
use tokio_postgres::types::ToSql;

use super::rows::{self, Found, GROUP, GroupRow};
use super::streams::Stream;
use super::text::{escape, escape_option};
use super::{groups, read, read_error};
use crate::block::Block;
use crate::filter::Filter;
use crate::place::{Place, Range};
use crate::{LetterPage, Page, StoreError};

/// Candidates looked at for one page before it is handed out as far as it got.
const WORK: usize = 20_000;
/// Candidates of one round: the first is as large as the page, each further one larger, up to this.
const ROUND: i64 = 2_000;
/// Groups with fewer letters than this are walked even if words are asked for.
const FEW: u64 = 1_000;
/// Opening one pair's range costs about as much as walking this many rows.
const PAIR_COST: u64 = 4;
/// Blocks held at a time: enough for candidates that come in the order of time.
const BLOCKS: usize = 8;

pub(super) async fn page(db: &Transaction<'_>, query: &Query, page: &Page) -> Result<LetterPage, StoreError> {
    let high = Place::from_cursor(page.cursor.as_ref())?;
    let mut search = Search::new(query, high);
    let mut letters = Vec::new();
    let mut last = None;
    let mut take = |found: Found| {
        last = Some(found.place);
        letters.push(found.letter);
        letters.len() < page.limit
    };
    let ended = search.run(db, page.limit, Some(WORK), &mut take).await?;
    let next = match ended {
        Ended::Exhausted => None,
        Ended::Enough => last.map(Place::cursor),
        Ended::Tired(at) => Some(at.cursor()),
    };
    Ok(LetterPage { letters, next })
}

pub(super) async fn count(db: &Transaction<'_>, query: &Query, at_most: u64) -> Result<u64, StoreError> {
    let mut search = Search::new(query, Place::END);
    let mut count = 0;
    if at_most == 0 {
        return Ok(0);
    }
    if let Some(kept) = search.kept_count(db).await? {
        return Ok(kept.min(at_most));
    }
    let mut take = |_| {
        count += 1;
        count < at_most
    };
    search.run(db, ROUND as usize, None, &mut take).await?;
    Ok(count)
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
}

/// The (group, status) pairs that can hold matches, with how many letters they have.
struct Pairs {
    groups: Vec<GroupRow>,
    statuses: Vec<i16>,
    letters: u64,
    /// A group among them holds many causes, so that its count says nothing about a single one.
    overflow: bool,
}

impl<'q> Search<'q> {
    fn new(query: &'q Query, high: Place) -> Self {
        let filter = Filter::new(query);
        let range = filter.range(high);
        Self { query, filter, range, blocks: HashMap::new() }
    }

    fn statuses(&self) -> Vec<i16> {
        self.filter.statuses().into_iter().map(|status| status.number().into()).collect()
    }

    /// The exact count, where it is kept: groups and statuses are all the query asks for.
    async fn kept_count(&self, db: &Transaction<'_>) -> Result<Option<u64>, StoreError> {
        if self.filter.concerns_rows() {
            return Ok(None);
        }
        if self.filter.concerns_groups() {
            let pairs = self.pairs(db).await?;
            return Ok(Some(pairs.letters).filter(|_| !pairs.overflow));
        }
        let sql = "SELECT coalesce(sum(n), 0)::bigint FROM counts WHERE status = ANY($1)";
        let row = db.query_one(sql, &[&self.statuses()]).await.map_err(read_error)?;
        rows::number(row.get(0), "counts.n").map(Some)
    }

    async fn pairs(&self, db: &Transaction<'_>) -> Result<Pairs, StoreError> {
        let (held, overflow) = self.groups(db).await?;
        let mut found = Pairs { groups: Vec::new(), statuses: Vec::new(), letters: 0, overflow };
        for (group, status, n) in groups::pairs(db, &held, &self.statuses()).await? {
            found.groups.push(group);
            found.statuses.push(status.number().into());
            found.letters += n;
        }
        Ok(found)
    }

    /// The groups that can hold matches. The database narrows them down by what must be equal; the filter decides.
    async fn groups(&self, db: &Transaction<'_>) -> Result<(Vec<GroupRow>, bool), StoreError> {
        let mut values: Vec<Box<dyn ToSql + Sync + Send + 'q>> = Vec::new();
        let mut sql = format!("SELECT {GROUP} FROM groups g WHERE true");
        for term in self.query.terms.iter().filter(|term| !term.negated) {
            let (condition, value): (_, Box<dyn ToSql + Sync + Send + 'q>) = match &term.matcher {
                Matcher::Group(id) => ("g.uid =", Box::new(id.0)),
                Matcher::Source(name) => ("g.source =", Box::new(escape(name))),
                Matcher::Owner(owner) => ("g.owner IS NOT DISTINCT FROM", Box::new(escape_option(owner))),
                Matcher::Queue(name) => ("g.overflow OR g.queue =", Box::new(escape(name))),
                Matcher::Type(name) => ("g.overflow OR g.event_type =", Box::new(escape(name))),
                Matcher::Class(name) => ("g.overflow OR g.error_class =", Box::new(escape(name))),
                Matcher::Consumer(name) => ("g.overflow OR g.consumer =", Box::new(escape(name))),
                _ => continue,
            };
            values.push(value);
            sql.push_str(&format!(" AND ({condition} ${})", values.len()));
        }
        let parameters: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect();
        let mut held = (Vec::new(), false);
        for row in db.query(&sql, &parameters).await.map_err(read_error)? {
            let (id, group) = rows::group(&row)?;
            if self.filter.may_hold(&group) {
                held.0.push(id);
                held.1 |= group.overflow;
            }
        }
        Ok(held)
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
        if !self.filter.needs_block() {
            return Ok(true);
        }
        if !self.blocks.contains_key(&found.block) {
            if self.blocks.len() >= BLOCKS {
                self.blocks.clear();
            }
            self.blocks.insert(found.block, read::block(db, found.block).await?);
        }
        match self.blocks.get(&found.block) {
            Some(block) => Ok(self.filter.block_matches(&found.letter, &block.cold(found.slot)?)),
            None => Ok(false),
        }
    }

    /// The cheapest stream of candidates that misses nothing; `None` if nothing can match.
    async fn candidates(&self, db: &Transaction<'_>) -> Result<Option<Stream>, StoreError> {
        let statuses = self.statuses();
        // A phrase without a single word is found nowhere.
        if statuses.is_empty() || self.filter.phrases.iter().any(Vec::is_empty) {
            return Ok(None);
        }
        let walk =
            if statuses.len() == Status::ALL.len() { Stream::Everything } else { Stream::Statuses(statuses) };
        if !self.filter.concerns_groups() {
            return Ok(Some(self.words().unwrap_or(walk)));
        }
        let pairs = self.pairs(db).await?;
        if pairs.letters == 0 {
            return Ok(None);
        }
        if pairs.letters > FEW
            && let Some(words) = self.words()
        {
            return Ok(Some(words));
        }
        // Fifty matches are expected after this many rows of a walk.
        let walk_cost = estimated_letters(db).await? / pairs.letters * 50;
        if pairs.groups.len() as u64 * PAIR_COST <= walk_cost || pairs.groups.len() <= 16 {
            return Ok(Some(Stream::Pairs(pairs.groups, pairs.statuses)));
        }
        Ok(Some(walk))
    }

    /// The stream of the words asked for: exact values before phrases, the longest phrase of several.
    fn words(&self) -> Option<Stream> {
        if !self.filter.quick.is_empty() {
            return Some(Stream::quick(&self.filter.quick));
        }
        if !self.filter.deep.is_empty() {
            return Some(Stream::deep(&self.filter.deep));
        }
        let letters = |phrase: &&Vec<String>| phrase.iter().map(String::len).sum::<usize>();
        self.filter.phrases.iter().max_by_key(letters).map(|phrase| Stream::either(phrase))
    }
}

/// How many letters there are about, as the planner believes: for a choice, never for an answer.
async fn estimated_letters(db: &Transaction<'_>) -> Result<u64, StoreError> {
    let sql = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'letters'::regclass";
    let row = db.query_one(sql, &[]).await.map_err(read_error)?;
    rows::number(row.get(0), "reltuples")
}
