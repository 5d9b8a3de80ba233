//! Which segments are merged: few of many blocks are asked sooner than many of few.
//!
//! Every search asks every segment, and a trickle of letters leaves a small one a few times a second. So those of one size
//! are merged, four at a time, until they are full. While letters pour in, whoever brings them has the processors: only
//! small segments are merged as soon as that, and large ones when [`PILE`] of a size have come together. One merge of a size
//! is under way at a time; `merging.rs` does it in steps.
//!
//! A block whose letter died again stands in a newer segment as well, and of two segments the one with the larger number
//! is right: a merge leaves the others out, and a full segment that is outdated by half is written anew.

use rusqlite::{Connection, params};

use super::read_error;
use super::runs::Runs;
use crate::StoreError;
use crate::postings::MOST_BLOCKS;

/// Segments that are worth a merge.
const TOGETHER: usize = 4;
/// Large segments that may come together while letters pour in, and the most that are merged at once.
const PILE: usize = 16;
/// Blocks of the largest segment of each size; what is larger is full and stays.
const SIZES: [usize; 6] = [16, 64, 256, 1_024, 4_096, LARGEST];
const LARGEST: usize = MOST_BLOCKS / TOGETHER;
/// Blocks of a small one: to merge four of them takes a moment.
const SMALL: usize = 64;

/// How much is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// What is small, and what has piled up.
    Busy,
    /// Whatever is worth it.
    Calm,
}

/// A size of segments of which one merge may be under way; that of the full ones is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(usize);

/// Segments that are to become one, the oldest first.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) size: Size,
    pub(super) old: Vec<i64>,
    /// The places of their oldest and newest letter.
    pub(super) low: i64,
    pub(super) top: i64,
}

impl Picked {
    fn one(size: Size, (id, low, top): (i64, i64, i64)) -> Self {
        Self { size, old: vec![id], low, top }
    }

    fn add(&mut self, (id, low, top): (i64, i64, i64)) {
        self.old.push(id);
        self.low = self.low.min(low);
        self.top = self.top.max(top);
    }
}

/// The oldest segments of the smallest size of which there are enough, unless some of it are being merged.
pub(super) fn alike(db: &Connection, pace: Pace, under_way: &[Size]) -> Result<Option<Picked>, StoreError> {
    let sql = "SELECT id, low, top, size FROM segments WHERE size <= ?1 AND size > ?2 ORDER BY id LIMIT ?3";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let mut smaller = 0;
    for (number, largest) in SIZES.into_iter().enumerate() {
        let size = Size(number);
        let bounds = params![largest as i64, smaller as i64, PILE as i64];
        smaller = largest;
        if under_way.contains(&size) {
            continue;
        }
        let found: Vec<((i64, i64, i64), usize)> = statement
            .query_map(bounds, |row| {
                Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get::<_, u32>(3)? as usize))
            })
            .and_then(Iterator::collect)
            .map_err(read_error)?;
        let enough = if pace == Pace::Calm || largest <= SMALL { TOGETHER } else { PILE };
        if found.len() >= enough {
            return Ok(together(size, found));
        }
    }
    Ok(None)
}

/// As many of them as fit into one.
fn together(size: Size, found: Vec<((i64, i64, i64), usize)>) -> Option<Picked> {
    let mut picked: Option<Picked> = None;
    let mut all = 0;
    for (segment, blocks) in found {
        all += blocks;
        if all > MOST_BLOCKS {
            break;
        }
        match &mut picked {
            None => picked = Some(Picked::one(size, segment)),
            Some(picked) => picked.add(segment),
        }
    }
    picked
}

/// The full segment that is outdated most, if it is by more than half.
pub(super) fn outdated(db: &Connection, under_way: &[Size]) -> Result<Option<Picked>, StoreError> {
    let size = Size(SIZES.len());
    if under_way.contains(&size) {
        return Ok(None);
    }
    let mut worst: Option<(usize, i64)> = None;
    survey(db, 0, &mut |id, current| {
        let gone = current.iter().filter(|block| block.is_none()).count();
        let full = current.len() > LARGEST && gone * 2 > current.len();
        if full && worst.is_none_or(|(most, _)| gone > most) {
            worst = Some((gone, id));
        }
    })?;
    let Some((_, id)) = worst else { return Ok(None) };
    let segment = db
        .query_row("SELECT id, low, top FROM segments WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .map_err(read_error)?;
    Ok(Some(Picked::one(size, segment)))
}

/// Calls `visit` with every segment from a number on, the newest first, and its blocks: none for one that a newer segment has.
pub(super) fn survey(
    db: &Connection,
    from: i64,
    visit: &mut dyn FnMut(i64, &[Option<i64>]),
) -> Result<(), StoreError> {
    let last: i64 =
        db.query_row("SELECT ifnull(max(id), 0) FROM blocks", [], |row| row.get(0)).map_err(read_error)?;
    // A bit for each block: blocks are numbered from one on.
    let mut seen = vec![0_u64; usize::try_from(last).unwrap_or(0) / 64 + 1];
    let mut statement = db
        .prepare_cached("SELECT id, blocks FROM segments WHERE id >= ?1 ORDER BY id DESC")
        .map_err(read_error)?;
    let mut rows = statement.query([from]).map_err(read_error)?;
    while let Some(row) = rows.next().map_err(read_error)? {
        let list = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
        let current: Vec<Option<i64>> = Runs::read(list)
            .iter()
            .map(|block| {
                let number = usize::try_from(block).ok()?;
                let word = seen.get_mut(number / 64)?;
                let new = *word & (1 << (number % 64)) == 0;
                *word |= 1 << (number % 64);
                new.then_some(block)
            })
            .collect();
        visit(row.get(0).map_err(read_error)?, &current);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of so many blocks each, numbered from one on.
    fn segments(blocks: &[usize]) -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE blocks (id INTEGER PRIMARY KEY);
             CREATE TABLE segments (id INTEGER PRIMARY KEY, low INTEGER, top INTEGER, size INTEGER, blocks BLOB);",
        )
        .unwrap();
        for (number, blocks) in blocks.iter().enumerate() {
            let row = params![number as i64 + 1, number as i64, 100 - number as i64, *blocks as i64];
            db.execute("INSERT INTO segments VALUES (?1, ?2, ?3, ?4, x'')", row).unwrap();
        }
        db
    }

    fn picked(blocks: &[usize], pace: Pace, under_way: &[Size]) -> Vec<i64> {
        alike(&segments(blocks), pace, under_way).unwrap().map_or(Vec::new(), |picked| picked.old)
    }

    #[test]
    fn the_oldest_of_the_smallest_size_of_which_there_are_enough_are_merged() {
        assert_eq!(picked(&[5, 700, 600, 6, 500, 400], Pace::Calm, &[]), [2, 3, 5, 6]);
        assert_eq!(picked(&[5, 700, 7, 6, 500, 400, 16], Pace::Calm, &[]), [1, 3, 4, 7]);
        assert_eq!(picked(&[5, 700, 7, 17, 500, 400], Pace::Calm, &[]), [0; 0]);
        let of_two = segments(&[300, 300, 300, 300]);
        let picked = alike(&of_two, Pace::Calm, &[]).unwrap().unwrap();
        assert_eq!((picked.low, picked.top), (0, 100));
    }

    #[test]
    fn large_ones_pile_up_while_letters_pour_in() {
        let busy = |blocks: &[usize]| picked(blocks, Pace::Busy, &[]).len();
        assert_eq!((busy(&[64; 4]), busy(&[256; 15]), busy(&[256; 16]), busy(&[256; 40])), (4, 0, 16, 16));
    }

    #[test]
    fn of_each_size_one_merge_is_under_way_and_none_grows_too_large() {
        let mut blocks = vec![10; 4];
        blocks.extend([LARGEST; 6]);
        assert_eq!(picked(&blocks, Pace::Calm, &[]), [1, 2, 3, 4]);
        assert_eq!(picked(&blocks, Pace::Calm, &[Size(0)]), [5, 6, 7, 8]);
        assert_eq!(picked(&blocks, Pace::Calm, &[Size(0), Size(5)]), [0; 0]);
        assert_eq!(picked(&[LARGEST + 1; 16], Pace::Calm, &[]), [0; 0], "they are full");
    }

    #[test]
    fn a_full_segment_that_is_outdated_by_half_is_written_anew() {
        let db = segments(&[]);
        let add = |id: i64, blocks: std::ops::Range<usize>| {
            let blocks: Vec<i64> = blocks.map(|block| block as i64).collect();
            let row = params![id, blocks.len() as i64, Runs::of(&blocks).bytes()];
            db.execute("INSERT INTO segments VALUES (?1, 1, 2, ?2, ?3)", row).unwrap();
        };
        db.execute("INSERT INTO blocks VALUES (?1)", [LARGEST as i64 * 4]).unwrap();
        add(1, 1..LARGEST * 2);
        add(2, 1..LARGEST);
        assert!(outdated(&db, &[]).unwrap().is_none());
        add(3, LARGEST..LARGEST + 5);
        assert_eq!(outdated(&db, &[]).unwrap().map(|picked| picked.old), Some(vec![1]));
        assert!(outdated(&db, &[Size(SIZES.len())]).unwrap().is_none(), "it is under way");
    }
}
