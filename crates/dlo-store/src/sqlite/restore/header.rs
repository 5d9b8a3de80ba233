//! The first 100 bytes of a database file: what can be known before SQLite reads it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::{cannot_stage, refused};
use crate::StoreError;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const PAGE: u64 = 4_096;

pub(super) fn check(file: &Path) -> Result<(), StoreError> {
    let mut file = File::open(file).map_err(cannot_stage)?;
    let size = file.metadata().map_err(cannot_stage)?.len();
    let mut header = [0; 100];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let what = if size == 0 { "it is empty" } else { "it is not a SQLite database" };
            return Err(refused(what));
        }
        read => read.map_err(cannot_stage)?,
    }
    check_fields(&header, size)
}

fn check_fields(header: &[u8; 100], size: u64) -> Result<(), StoreError> {
    let number = |at: usize| header[at..at + 4].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    if !header.starts_with(MAGIC) {
        return Err(refused("it is not a SQLite database"));
    }
    // 1 stands for 65,536.
    let page = match u64::from(header[16]) << 8 | u64::from(header[17]) {
        1 => 65_536,
        page => page,
    };
    if page != PAGE || header[20] != 0 {
        return Err(refused(format!(
            "its page size is {page} bytes, not {PAGE}, or a part of each page is reserved"
        )));
    }
    if !matches!(header[18..20], [1 | 2, 1 | 2]) {
        return Err(refused("it has a file format that SQLite does not know"));
    }
    // A connection that is open keeps its own setting, and would write into the pages of the other.
    if number(52) != 0 {
        return Err(refused("it has `auto_vacuum` switched on; no office does that"));
    }
    if number(56) != 1 {
        return Err(refused("its text is not UTF-8"));
    }
    // The number of pages is valid only if both counters of changes agree.
    let pages = if number(24) == number(92) { number(28) } else { size.div_ceil(PAGE) };
    if !size.is_multiple_of(PAGE) || size / PAGE < pages {
        return Err(refused(format!("it is cut: {} of {pages} pages are there", size / PAGE)));
    }
    Ok(())
}
