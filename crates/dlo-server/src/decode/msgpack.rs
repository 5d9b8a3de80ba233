//! MessagePack.

use super::reading::{Reading, Step, Stop};
use super::writing::Writing;

/// Whether these may be the first bytes of a document: a map or an array. Everything begins some MessagePack.
pub(super) fn begins(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(0x80..=0x9f | 0xdc..=0xdf))
}

pub(super) fn value(from: &mut Reading<'_>, to: &mut Writing) -> Step {
    match from.byte()? {
        small @ 0x00..=0x7f => to.put(small),
        map @ 0x80..=0x8f => members(from, to, u64::from(map & 0x0f)),
        array @ 0x90..=0x9f => elements(from, to, u64::from(array & 0x0f)),
        text @ 0xa0..=0xbf => string(from, to, u64::from(text & 0x1f)),
        0xc0 => to.put("null"),
        0xc1 => Err(Stop::Wrong),
        0xc2 => to.put("false"),
        0xc3 => to.put("true"),
        width @ 0xc4..=0xc6 => {
            let length = length(from, width - 0xc4)?;
            to.bytes(from.take(size(length)?)?)
        }
        width @ 0xc7..=0xc9 => {
            let length = length(from, width - 0xc7)?;
            extension(from, to, length)
        }
        0xca => to.single(f32::from_be_bytes(from.array()?)),
        0xcb => to.float(f64::from_be_bytes(from.array()?)),
        width @ 0xcc..=0xcf => to.put(from.number(1 << (width - 0xcc))?),
        0xd0 => to.put(i8::from_be_bytes(from.array()?)),
        0xd1 => to.put(i16::from_be_bytes(from.array()?)),
        0xd2 => to.put(i32::from_be_bytes(from.array()?)),
        0xd3 => to.put(i64::from_be_bytes(from.array()?)),
        fixed @ 0xd4..=0xd8 => extension(from, to, 1 << (fixed - 0xd4)),
        width @ 0xd9..=0xdb => {
            let length = length(from, width - 0xd9)?;
            string(from, to, length)
        }
        width @ 0xdc..=0xdd => {
            let length = length(from, width - 0xdc + 1)?;
            elements(from, to, length)
        }
        width @ 0xde..=0xdf => {
            let length = length(from, width - 0xde + 1)?;
            members(from, to, length)
        }
        negative @ 0xe0..=0xff => to.put(negative.cast_signed()),
    }
}

/// A length of one, two or four bytes.
fn length(from: &mut Reading<'_>, width: u8) -> Step<u64> {
    from.number(1 << width)
}

fn size(length: u64) -> Step<usize> {
    usize::try_from(length).map_err(|_| Stop::Wrong)
}

fn string(from: &mut Reading<'_>, to: &mut Writing, length: u64) -> Step {
    to.text(from.take(size(length)?)?)
}

fn elements(from: &mut Reading<'_>, to: &mut Writing, count: u64) -> Step {
    to.open('[')?;
    for _ in 0..count {
        to.next()?;
        value(from, to)?;
    }
    to.close(']')
}

fn members(from: &mut Reading<'_>, to: &mut Writing, count: u64) -> Step {
    to.open('{')?;
    for _ in 0..count {
        to.next()?;
        value(from, to)?;
        to.put(": ")?;
        value(from, to)?;
    }
    to.close('}')
}

/// A type of its own; a time is the only one that everybody knows.
fn extension(from: &mut Reading<'_>, to: &mut Writing, length: u64) -> Step {
    let kind = from.byte()?.cast_signed();
    let bytes = from.take(size(length)?)?;
    let time = match (kind, bytes) {
        (-1, [_, _, _, _]) => Reading(bytes).number(4)?.checked_mul(1_000_000),
        (-1, [_, _, _, _, _, _, _, _]) => {
            let both = Reading(bytes).number(8)?;
            (both & 0x3_ffff_ffff)
                .checked_mul(1_000_000)
                .and_then(|micros| micros.checked_add((both >> 34) / 1_000))
        }
        _ => None,
    };
    match time.and_then(|micros| i64::try_from(micros).ok()) {
        Some(micros) => to.put(dlo_core::time::Timestamp::from_micros(micros)),
        None => {
            to.put(format_args!("extension {kind} "))?;
            to.bytes(bytes)
        }
    }
}
