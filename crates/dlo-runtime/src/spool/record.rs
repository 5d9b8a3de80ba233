//! One letter as bytes, exactly: a frame, and in it the fields.
//!
//! ```text
//!  frame   length 4 · crc of the length 4 · crc of the body 4 · body
//!  body    death 16 · partition? · queue · key? · headers 4 · (name · value?)… · payload
//! ```
//! Text and bytes stand behind their length (4); what may be absent stands behind a byte, 0 or 1. The length has a
//! checksum of its own: behind a body that is rotten, the next letter is still found.

use dlo_core::broker::Destination;
use dlo_core::id::DeathId;
use dlo_core::message::{Header, Headers, Message, Payload};
use uuid::Uuid;

use super::Spooled;
use crate::crc32::crc32;

pub(super) const FRAME: usize = 12;

/// Adds a letter's frame, and returns its length. `None`: it is longer than a frame can be.
pub(super) fn write(letter: &Spooled, to: &mut Vec<u8>) -> Option<u32> {
    let start = to.len();
    to.extend([0; FRAME]);
    body(letter, to)?;
    let framed = u32::try_from(to.len() - start).ok()?;
    let length = (framed - FRAME as u32).to_le_bytes();
    let check = crc32(&to[start + FRAME..]);
    to[start..start + 4].copy_from_slice(&length);
    to[start + 4..start + 8].copy_from_slice(&crc32(&length).to_le_bytes());
    to[start + 8..start + 12].copy_from_slice(&check.to_le_bytes());
    Some(framed)
}

fn body(letter: &Spooled, to: &mut Vec<u8>) -> Option<()> {
    to.extend(letter.death.0.as_bytes());
    to.push(u8::from(letter.to.partition.is_some()));
    to.extend(letter.to.partition.iter().flat_map(|partition| partition.to_le_bytes()));
    put(letter.to.queue.as_bytes(), to)?;
    let Message { key, headers, payload } = &letter.message;
    put_or_not(key.as_ref().map(|key| key.0.as_ref()), to)?;
    to.extend(u32::try_from(headers.len()).ok()?.to_le_bytes());
    for Header { name, value } in headers.iter() {
        put(name.as_bytes(), to)?;
        put_or_not(value.as_deref(), to)?;
    }
    put(&payload.0, to)
}

fn put(bytes: &[u8], to: &mut Vec<u8>) -> Option<()> {
    to.extend(u32::try_from(bytes.len()).ok()?.to_le_bytes());
    to.extend(bytes);
    Some(())
}

fn put_or_not(bytes: Option<&[u8]>, to: &mut Vec<u8>) -> Option<()> {
    to.push(u8::from(bytes.is_some()));
    bytes.map_or(Some(()), |bytes| put(bytes, to))
}

/// The length of the whole frame, by its first bytes. `None`: they are no frame.
pub(super) fn framed(frame: &[u8; FRAME]) -> Option<u64> {
    let length = word(frame, 0);
    (crc32(&length.to_le_bytes()) == word(frame, 4)).then(|| FRAME as u64 + u64::from(length))
}

/// The letter in a whole frame. `None`: it is damaged.
pub(super) fn read(frame: &[u8]) -> Option<Spooled> {
    let (head, mut rest) = frame.split_first_chunk::<FRAME>()?;
    if crc32(rest) != word(head, 8) {
        return None;
    }
    let rest = &mut rest;
    let death = DeathId(Uuid::from_bytes(fixed(rest)?));
    let partition = if flag(rest)? { Some(i32::from_le_bytes(fixed(rest)?)) } else { None };
    let queue = text(rest)?;
    let key = maybe(rest)?.map(|key| Payload::from(key.to_vec()));
    let count = u32::from_le_bytes(fixed(rest)?);
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = text(rest)?;
        headers.push(name, maybe(rest)?.map(|value| value.to_vec().into()));
    }
    let payload = Payload::from(bytes(rest)?.to_vec());
    let letter = Spooled {
        death,
        to: Destination { queue, partition, route: None },
        message: Message { key, headers, payload },
    };
    rest.is_empty().then_some(letter)
}

fn word(frame: &[u8; FRAME], at: usize) -> u32 {
    frame.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u32::from_le_bytes)
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

fn flag(rest: &mut &[u8]) -> Option<bool> {
    match fixed(rest)? {
        [0] => Some(false),
        [1] => Some(true),
        [_] => None,
    }
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(u32::from_le_bytes(fixed(rest)?)).ok()?;
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn maybe<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    if flag(rest)? { bytes(rest).map(Some) } else { Some(None) }
}

fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(bytes(rest)?.to_vec()).ok()
}
