//! CBOR (RFC 8949), written as its diagnostic notation where JSON has no word for it.

use super::reading::{Reading, Step, Stop};
use super::writing::Writing;

/// Ends what began without a length.
const BREAK: u8 = 0xff;

/// Whether these may be the first bytes of a document: a map, an array, or one of them under the tag of CBOR itself.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(&[0xd9, 0xd9, 0xf7]).unwrap_or(bytes);
    matches!(bytes.first(), Some(0x80..=0x9b | 0x9f | 0xa0..=0xbb | 0xbf))
}

pub(super) fn value(from: &mut Reading<'_>, to: &mut Writing) -> Step {
    let head = from.byte()?;
    let small = head & 0x1f;
    match head >> 5 {
        0 => to.put(argument(from, small)?),
        1 => to.put(-1 - i128::from(argument(from, small)?)),
        2 if small == 31 => chunks(from, to, 2),
        2 => to.bytes(sized(from, small)?),
        3 if small == 31 => chunks(from, to, 3),
        3 => to.text(sized(from, small)?),
        4 => elements(from, to, small),
        5 => members(from, to, small),
        6 => {
            let tag = argument(from, small)?;
            // That it is CBOR is known by now.
            if tag == 55_799 {
                return nested(from, to);
            }
            to.put(format_args!("{tag}("))?;
            nested(from, to)?;
            to.put(')')
        }
        _ => simple(from, to, small),
    }
}

/// A value inside a tag: tags in tags are levels too.
fn nested(from: &mut Reading<'_>, to: &mut Writing) -> Step {
    to.deeper(|to| value(from, to))
}

fn argument(from: &mut Reading<'_>, small: u8) -> Step<u64> {
    match small {
        0..=23 => Ok(u64::from(small)),
        24..=27 => from.number(1 << (small - 24)),
        _ => Err(Stop::Wrong),
    }
}

fn sized<'a>(from: &mut Reading<'a>, small: u8) -> Step<&'a [u8]> {
    let length = argument(from, small)?;
    from.take(usize::try_from(length).map_err(|_| Stop::Wrong)?)
}

/// Text or bytes in pieces, each of the same kind and with a length.
fn chunks(from: &mut Reading<'_>, to: &mut Writing, kind: u8) -> Step {
    to.put("(_ ")?;
    let mut first = true;
    loop {
        let head = from.byte()?;
        if head == BREAK {
            return to.put(')');
        }
        if head >> 5 != kind {
            return Err(Stop::Wrong);
        }
        if !std::mem::take(&mut first) {
            to.put(", ")?;
        }
        let part = sized(from, head & 0x1f)?;
        if kind == 3 { to.text(part)? } else { to.bytes(part)? }
    }
}

/// How many there are; `None`: until a break.
fn count(from: &mut Reading<'_>, small: u8) -> Step<Option<u64>> {
    if small == 31 { Ok(None) } else { argument(from, small).map(Some) }
}

/// Whether one more follows.
fn more(from: &mut Reading<'_>, left: &mut Option<u64>) -> Step<bool> {
    match left {
        Some(0) => Ok(false),
        Some(left) => {
            *left -= 1;
            Ok(true)
        }
        None if from.0.first() == Some(&BREAK) => from.byte().map(|_| false),
        None => Ok(true),
    }
}

fn elements(from: &mut Reading<'_>, to: &mut Writing, small: u8) -> Step {
    let mut left = count(from, small)?;
    to.open('[')?;
    while more(from, &mut left)? {
        to.next()?;
        value(from, to)?;
    }
    to.close(']')
}

fn members(from: &mut Reading<'_>, to: &mut Writing, small: u8) -> Step {
    let mut left = count(from, small)?;
    to.open('{')?;
    while more(from, &mut left)? {
        to.next()?;
        value(from, to)?;
        to.put(": ")?;
        value(from, to)?;
    }
    to.close('}')
}

fn simple(from: &mut Reading<'_>, to: &mut Writing, small: u8) -> Step {
    match small {
        20 => to.put("false"),
        21 => to.put("true"),
        22 => to.put("null"),
        23 => to.put("undefined"),
        24 => {
            let number = from.byte()?;
            to.put(format_args!("simple({number})"))
        }
        25 => to.float(half(u16::from_be_bytes(from.array()?))),
        26 => to.single(f32::from_be_bytes(from.array()?)),
        27 => to.float(f64::from_be_bytes(from.array()?)),
        0..=19 => to.put(format_args!("simple({small})")),
        _ => Err(Stop::Wrong),
    }
}

/// A float of sixteen bits: one of sign, five of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff);
    let exponent = i32::from(bits >> 10 & 0x1f);
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1_024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}
