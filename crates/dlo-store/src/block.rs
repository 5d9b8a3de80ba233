//! Blocks: what is read rarely (headers, payload, stack, history), packed some thirty letters at a time and compressed.
//!
//! A block is written in the same transaction as the rows that point into it and is never changed afterwards; a
//! letter knows its block and its slot. Some thirty small letters share one, which compresses to half of what
//! each alone would; a large letter has one to itself. The layout is ours, little-endian, and begins with a version.

use std::cell::RefCell;
use std::ops::Range;

use bytes::Bytes;
use dlo_core::attempt::History;
use dlo_core::letter::NewLetter;
use dlo_core::message::{Headers, Message, Payload};

use crate::StoreError;

const VERSION: u8 = 1;
/// A block is closed when it holds this many bytes before compression: larger ones are smaller on disk and dearer to
/// look into, and a search for a phrase looks into many.
const FULL: usize = 32 * 1024;
/// Fast, and still halves typical JSON; measured beside ingest, where the writer is the bottleneck.
const LEVEL: i32 = 1;
/// No broker takes a message of this size, so no block is larger; a larger claim on disk is damage.
const LARGEST: usize = 1024 * 1024 * 1024;

/// The part of a letter that stands in a block.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Cold {
    pub(crate) headers: Headers,
    pub(crate) payload: Payload,
    pub(crate) stack: Option<String>,
    pub(crate) history: History,
}

/// A block ready to be stored, and which letters of its batch (by index) stand in it, slot by slot.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) data: Vec<u8>,
    pub(crate) letters: Vec<usize>,
}

/// Packs the cold parts of a batch, in order.
pub(crate) fn pack(letters: &[NewLetter]) -> Result<Vec<Packed>, StoreError> {
    let mut packed = Vec::new();
    let mut raw = vec![VERSION];
    let mut members = Vec::new();
    for (index, letter) in letters.iter().enumerate() {
        write_entry(&mut raw, letter)?;
        members.push(index);
        if raw.len() >= FULL {
            packed.push(close(&mut raw, &mut members)?);
        }
    }
    if !members.is_empty() {
        packed.push(close(&mut raw, &mut members)?);
    }
    Ok(packed)
}

fn close(raw: &mut Vec<u8>, members: &mut Vec<usize>) -> Result<Packed, StoreError> {
    // What could not be read again is not taken: whoever sent it still has it.
    if raw.len() > LARGEST {
        return Err(StoreError::Unsupported(format!("a letter of more than {LARGEST} bytes cannot be kept")));
    }
    let data = compress(raw)?;
    let mut sized = (raw.len() as u32).to_le_bytes().to_vec();
    sized.extend_from_slice(&data);
    raw.clear();
    raw.push(VERSION);
    Ok(Packed { data: sized, letters: std::mem::take(members) })
}

thread_local! {
    /// Making one clears tables that are larger than a block.
    static PACKER: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

fn compress(raw: &[u8]) -> Result<Vec<u8>, StoreError> {
    PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            None => packer.insert(compressor()?),
        };
        packer.compress(raw).map_err(|e| StoreError::Refused(format!("compressing a block: {e}")))
    })
}

fn compressor() -> Result<zstd::bulk::Compressor<'static>, StoreError> {
    zstd::bulk::Compressor::new(LEVEL).map_err(|e| StoreError::Refused(format!("no compressor: {e}")))
}

/// Packs single messages, one after the other, with one compressor for all of them.
pub(crate) struct Sealer {
    compressor: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
}

impl Sealer {
    pub(crate) fn new() -> Result<Self, StoreError> {
        Ok(Self { compressor: compressor()?, raw: Vec::new() })
    }

    /// A block of one, without stack and history.
    pub(crate) fn seal(&mut self, message: &Message) -> Result<Vec<u8>, StoreError> {
        self.raw.clear();
        self.raw.push(VERSION);
        let start = write_message(&mut self.raw, message);
        write_bytes(&mut self.raw, None);
        write_bytes(&mut self.raw, None);
        close_entry(&mut self.raw, start);
        if self.raw.len() > LARGEST {
            return Err(StoreError::Unsupported(format!(
                "a message of more than {LARGEST} bytes cannot be kept"
            )));
        }
        let data = self
            .compressor
            .compress(&self.raw)
            .map_err(|e| StoreError::Refused(format!("compressing a message: {e}")))?;
        let mut sized = (self.raw.len() as u32).to_le_bytes().to_vec();
        sized.extend_from_slice(&data);
        Ok(sized)
    }
}

/// Begins an entry with headers and payload; returns where it begins.
fn write_message(raw: &mut Vec<u8>, message: &Message) -> usize {
    let start = raw.len();
    raw.extend_from_slice(&[0; 4]);
    raw.extend_from_slice(&(message.headers.len() as u32).to_le_bytes());
    for header in message.headers.iter() {
        write_bytes(raw, Some(header.name.as_bytes()));
        write_bytes(raw, header.value.as_deref());
    }
    write_bytes(raw, Some(&message.payload.0));
    start
}

/// Writes down how long the entry is.
fn close_entry(raw: &mut [u8], start: usize) {
    let length = (raw.len() - start - 4) as u32;
    raw[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn write_entry(raw: &mut Vec<u8>, letter: &NewLetter) -> Result<(), StoreError> {
    let start = write_message(raw, &letter.message);
    write_bytes(raw, letter.error_stack.as_deref().map(str::as_bytes));
    if letter.history.is_empty() {
        write_bytes(raw, None);
    } else {
        let history = serde_json::to_vec(&letter.history).map_err(|e| StoreError::Refused(e.to_string()))?;
        write_bytes(raw, Some(&history));
    }
    close_entry(raw, start);
    Ok(())
}

/// Length plus one, so that absent (zero) is not empty (one).
fn write_bytes(raw: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => raw.extend_from_slice(&0_u32.to_le_bytes()),
        Some(bytes) => {
            raw.extend_from_slice(&(bytes.len() as u32 + 1).to_le_bytes());
            raw.extend_from_slice(bytes);
        }
    }
}

thread_local! {
    /// Making one costs as much as unpacking a small block with it.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn unpack(compressed: &[u8], size: usize) -> Result<Vec<u8>, StoreError> {
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            None => unpacker.insert(zstd::bulk::Decompressor::new().map_err(|_| damaged())?),
        };
        unpacker.decompress(compressed, size).map_err(|_| damaged())
    })
}

/// A block unpacked once, from which any slot can be read.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    raw: Bytes,
    starts: Vec<usize>,
}

impl Block {
    pub(crate) fn open(data: &[u8]) -> Result<Self, StoreError> {
        let (size, compressed) = data.split_at_checked(4).ok_or_else(damaged)?;
        let size = u32::from_le_bytes(size.try_into().map_err(|_| damaged())?) as usize;
        if size > LARGEST {
            return Err(damaged());
        }
        let raw = Bytes::from(unpack(compressed, size)?);
        if raw.first() != Some(&VERSION) {
            return Err(StoreError::Unreadable("a block of a version this one does not know".into()));
        }
        let mut starts = Vec::new();
        let mut at = 1;
        while at < raw.len() {
            let length = Reader { raw: &raw, at }.number()?;
            starts.push(at + 4);
            at += 4 + length;
        }
        Ok(Self { raw, starts })
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The payload alone.
    pub(crate) fn payload(&self, slot: usize) -> Result<Bytes, StoreError> {
        let mut reader = self.entry(slot)?;
        for _ in 0..reader.number()? {
            reader.pass()?;
            reader.pass()?;
        }
        reader.bytes()?.ok_or_else(damaged)
    }

    fn entry(&self, slot: usize) -> Result<Reader<'_>, StoreError> {
        let at = *self.starts.get(slot).ok_or_else(damaged)?;
        Ok(Reader { raw: &self.raw, at })
    }

    pub(crate) fn cold(&self, slot: usize) -> Result<Cold, StoreError> {
        let (headers, payload, mut rest) = self.entry(slot)?.message()?;
        let stack = rest.text()?;
        // The least of it: a history that cannot be read must not withhold the payload and the headers.
        let history = rest.bytes().ok().flatten().and_then(|json| serde_json::from_slice(&json).ok());
        let history: History = history.unwrap_or_default();
        Ok(Cold { headers, payload, stack, history })
    }

    /// What is sent of a slot; the story of its death is left where it is. It is copied out of a block that holds more than
    /// itself: a thousand letters in hand would hold a thousand blocks of thirty otherwise.
    pub(crate) fn message(&self, slot: usize) -> Result<(Headers, Payload), StoreError> {
        let at = *self.starts.get(slot).ok_or_else(damaged)?;
        let end = self.starts.get(slot + 1).map_or(self.raw.len(), |next| next - 4);
        let entry = self.raw.get(at..end).ok_or_else(damaged)?;
        let alone = entry.len() > self.raw.len() / 2;
        let own = if alone { self.raw.slice(at..end) } else { Bytes::copy_from_slice(entry) };
        let (headers, payload, _) = Reader { raw: &own, at: 0 }.message()?;
        Ok((headers, payload))
    }
}

struct Reader<'a> {
    raw: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    /// Headers and payload, and the reader, which stands behind them.
    fn message(mut self) -> Result<(Headers, Payload, Self), StoreError> {
        let count = self.number()?;
        let mut headers = Headers::new();
        for _ in 0..count {
            let name = self.text()?.ok_or_else(damaged)?;
            headers.push(name, self.bytes()?);
        }
        let payload = Payload(self.bytes()?.ok_or_else(damaged)?);
        Ok((headers, payload, self))
    }

    fn number(&mut self) -> Result<usize, StoreError> {
        let four = self.raw.get(self.at..self.at + 4).ok_or_else(damaged)?;
        self.at += 4;
        Ok(u32::from_le_bytes(four.try_into().map_err(|_| damaged())?) as usize)
    }

    fn bytes(&mut self) -> Result<Option<Bytes>, StoreError> {
        Ok(self.pass()?.map(|range| self.raw.slice(range)))
    }

    /// Where the next bytes stand; the reader goes on behind them.
    fn pass(&mut self) -> Result<Option<Range<usize>>, StoreError> {
        let length = self.number()?;
        let Some(length) = length.checked_sub(1) else { return Ok(None) };
        let end = self.at.checked_add(length).filter(|end| *end <= self.raw.len()).ok_or_else(damaged)?;
        Ok(Some(std::mem::replace(&mut self.at, end)..end))
    }

    fn text(&mut self) -> Result<Option<String>, StoreError> {
        self.bytes()?.map(|bytes| String::from_utf8(bytes.to_vec()).map_err(|_| damaged())).transpose()
    }
}

fn damaged() -> StoreError {
    StoreError::Unreadable("a payload block is damaged; restore it from a backup".into())
}
