//! The words between the office and its repair worker: frames of bytes, each with its length in front.
//!
//! One request carries many letters; the answers come back in their order, one frame each, behind one frame that says
//! whether the expression was understood. Both ends are the same program, so the words need no version.

use std::io::{self, Read};

use dlo_core::limits;

use super::BadExpression;

/// Bytes of a request: a batch of the largest size and one payload of the largest size.
pub(super) const REQUEST: usize = 64 * 1024 * 1024;
/// Bytes of an answer: the largest message.
pub(super) const ANSWER: usize = limits::PAYLOAD + limits::HEADERS_SIZE + limits::KEY + 64 * 1024;

/// Names with values, some of which are absent.
pub(super) type Pairs<'a> = Vec<(&'a str, Option<&'a [u8]>)>;
/// The same, of one's own.
pub(super) type OwnPairs = Vec<(String, Option<Vec<u8>>)>;

/// A letter as the worker sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Letter<'a> {
    pub(super) payload: &'a [u8],
    pub(super) key: Option<&'a [u8]>,
    pub(super) headers: Pairs<'a>,
    pub(super) facts: Pairs<'a>,
}

/// What the worker is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// Each answer is sent before the next letter is begun, so that the one that ends the worker is known.
    pub(super) careful: bool,
    pub(super) expression: &'a str,
    pub(super) letters: Vec<Letter<'a>>,
}

/// What became of one letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Same,
    Changed(Change),
    Failed(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// `None`: as it was.
    pub(super) payload: Option<Vec<u8>>,
    pub(super) key: KeyChange,
    /// In place of all of that name; `None` takes them away.
    pub(super) headers: OwnPairs,
}

impl Change {
    pub(super) fn is_none(&self) -> bool {
        self.payload.is_none() && self.key == KeyChange::Kept && self.headers.is_empty()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum KeyChange {
    #[default]
    Kept,
    Removed,
    Set(Vec<u8>),
}

/// A frame that is not what was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the repair worker and the office do not understand each other")]
pub(super) struct Garbled;

impl From<Garbled> for io::Error {
    fn from(garbled: Garbled) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, garbled)
    }
}

/// Puts a frame together; its length is filled in at the end.
pub(super) struct Frame(Vec<u8>);

impl Frame {
    pub(super) fn new(room: usize) -> Self {
        let mut bytes = Vec::with_capacity(room + 4);
        bytes.extend_from_slice(&[0; 4]);
        Self(bytes)
    }

    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: usize) {
        // Everything counted here is far below: requests and answers are bounded.
        self.0.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn maybe(&mut self, bytes: Option<&[u8]>) {
        self.byte(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    fn pairs<'p>(&mut self, pairs: impl ExactSizeIterator<Item = (&'p str, Option<&'p [u8]>)>) {
        self.number(pairs.len());
        for (name, value) in pairs {
            self.bytes(name.as_bytes());
            self.maybe(value);
        }
    }

    fn end(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// Takes a frame apart. Every length is checked against what is there.
pub(super) struct Parts<'a>(pub(super) &'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Garbled> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Garbled)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Garbled> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<usize, Garbled> {
        let bytes = self.take(4)?.try_into().map_err(|_| Garbled)?;
        usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| Garbled)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Garbled> {
        let length = self.number()?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a str, Garbled> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Garbled)
    }

    fn maybe(&mut self) -> Result<Option<&'a [u8]>, Garbled> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.bytes().map(Some),
            _ => Err(Garbled),
        }
    }

    fn pairs(&mut self) -> Result<Pairs<'a>, Garbled> {
        (0..self.number()?).map(|_| Ok((self.text()?, self.maybe()?))).collect()
    }

    fn end<T>(self, read: T) -> Result<T, Garbled> {
        if self.0.is_empty() { Ok(read) } else { Err(Garbled) }
    }
}

impl<'a> Request<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let room = self.letters.iter().map(|letter| letter.payload.len() + 64).sum();
        let mut frame = Frame::new(room);
        frame.byte(u8::from(self.careful));
        frame.bytes(self.expression.as_bytes());
        frame.number(self.letters.len());
        for letter in &self.letters {
            frame.bytes(letter.payload);
            frame.maybe(letter.key);
            frame.pairs(letter.headers.iter().copied());
            frame.pairs(letter.facts.iter().copied());
        }
        frame.end()
    }

    pub(super) fn decode(body: &'a [u8]) -> Result<Self, Garbled> {
        let mut parts = Parts(body);
        let careful = parts.byte()? == 1;
        let expression = parts.text()?;
        let letters = (0..parts.number()?).map(|_| {
            let payload = parts.bytes()?;
            Ok(Letter { payload, key: parts.maybe()?, headers: parts.pairs()?, facts: parts.pairs()? })
        });
        let letters = letters.collect::<Result<_, _>>()?;
        parts.end(Self { careful, expression, letters })
    }
}

/// Whether the expression was understood.
pub(super) fn encode_ready(ready: Result<(), &BadExpression>) -> Vec<u8> {
    let mut frame = Frame::new(64);
    match ready {
        Ok(()) => frame.byte(1),
        Err(bad) => {
            frame.byte(0);
            frame.number(bad.at);
            frame.bytes(bad.what.as_bytes());
        }
    }
    frame.end()
}

pub(super) fn decode_ready(body: &[u8]) -> Result<Result<(), BadExpression>, Garbled> {
    let mut parts = Parts(body);
    match parts.byte()? {
        1 => parts.end(Ok(())),
        0 => {
            let bad = BadExpression { at: parts.number()?, what: parts.text()?.to_string() };
            parts.end(Err(bad))
        }
        _ => Err(Garbled),
    }
}

impl Answer {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Same => {
                let mut frame = Frame::new(1);
                frame.byte(0);
                frame.end()
            }
            Self::Changed(change) => {
                let mut frame = Frame::new(change.payload.as_ref().map_or(0, Vec::len) + 64);
                frame.byte(1);
                frame.maybe(change.payload.as_deref());
                match &change.key {
                    KeyChange::Kept => frame.byte(0),
                    KeyChange::Removed => frame.byte(1),
                    KeyChange::Set(key) => {
                        frame.byte(2);
                        frame.bytes(key);
                    }
                }
                frame.pairs(change.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())));
                frame.end()
            }
            Self::Failed(why) => {
                let mut frame = Frame::new(why.len());
                frame.byte(2);
                frame.bytes(why.as_bytes());
                frame.end()
            }
        }
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, Garbled> {
        let mut parts = Parts(body);
        match parts.byte()? {
            0 => parts.end(Self::Same),
            1 => {
                let payload = parts.maybe()?.map(<[u8]>::to_vec);
                let key = match parts.byte()? {
                    0 => KeyChange::Kept,
                    1 => KeyChange::Removed,
                    2 => KeyChange::Set(parts.bytes()?.to_vec()),
                    _ => return Err(Garbled),
                };
                let headers = parts.pairs()?.into_iter();
                let headers = headers.map(|(name, value)| (name.to_string(), value.map(<[u8]>::to_vec)));
                let headers = headers.collect();
                parts.end(Self::Changed(Change { payload, key, headers }))
            }
            2 => {
                let why = parts.text()?.to_string();
                parts.end(Self::Failed(why))
            }
            _ => Err(Garbled),
        }
    }
}

/// The next frame; `None` at the end of the stream.
pub(super) fn read_frame(from: &mut impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = frame_length(length, most)?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(body))
}

pub(super) fn frame_length(bytes: [u8; 4], most: usize) -> Result<usize, Garbled> {
    usize::try_from(u32::from_le_bytes(bytes)).ok().filter(|length| *length <= most).ok_or(Garbled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(frame: Vec<u8>) -> Vec<u8> {
        read_frame(&mut frame.as_slice(), usize::MAX).unwrap().unwrap()
    }

    #[test]
    fn what_was_said_is_heard() {
        let letter = Letter {
            payload: b"{}",
            key: Some(b""),
            headers: vec![("a", None), ("a", Some(b"\xff"))],
            facts: vec![("source", Some(b"orders"))],
        };
        let request = Request { careful: true, expression: ".", letters: vec![letter, Letter::default()] };
        assert_eq!(Request::decode(&body(request.encode())).unwrap(), request);
        let changed = Change {
            payload: Some(b"1".to_vec()),
            key: KeyChange::Set(b"k".to_vec()),
            headers: vec![("h".to_string(), None)],
        };
        for answer in [Answer::Same, Answer::Changed(changed), Answer::Failed("no".to_string())] {
            assert_eq!(Answer::decode(&body(answer.encode())).unwrap(), answer);
        }
        let bad = BadExpression { at: 7, what: "expected a term".to_string() };
        assert_eq!(decode_ready(&body(encode_ready(Err(&bad)))).unwrap(), Err(bad));
        assert_eq!(decode_ready(&body(encode_ready(Ok(())))).unwrap(), Ok(()));
    }

    proptest! {
        #[test]
        fn no_bytes_are_understood_as_more_than_they_are(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Request::decode(&bytes);
            let _ = Answer::decode(&bytes);
            let _ = decode_ready(&bytes);
            let _ = read_frame(&mut bytes.as_slice(), 50);
        }
    }
}
