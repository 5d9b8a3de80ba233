//! An error message with its variable parts taken out: `pin 560001 not in tax table` → `pin <num> not in tax table`.
//!
//! One pass by hand over the bytes, because this runs for every letter that comes in and a list of regexes is some
//! fifty times dearer. A *chunk* is what stands between spaces, quotes and brackets; a whole chunk may be a URL, an e-mail
//! address or a path. Otherwise its *pieces* (runs of letters and digits) are judged one by one.
//!
//! Choices: everything quoted varies, also where it names a column, since we cannot know. Numbers vary, except a
//! three-digit one behind `HTTP`, `status` or `code`, because a 404 and a 503 have different causes. Letters without
//! digits never vary, so `ORD-88812` keeps its `ORD`. Of several lines those before the stack trace count, at most
//! four; of a Python traceback, the last.
//!
//! `template(template(x)) == template(x)`: marks are passed through, count as a word for what stands beside them, and a
//! chunk that touches one is never judged whole. A template that had to be cut ends in `<cut>`.

use super::shapes::{self, is_delimiter, is_word};
use crate::limits;

/// Every mark that may stand in a template.
const MARKS: [&str; 11] =
    ["<num>", "<id>", "<hex>", "<uuid>", "<str>", "<path>", "<url>", "<time>", "<ip>", "<email>", CUT];
const CUT: &str = "<cut>";
/// Bytes past which a word is kept in part rather than left out.
const LONG_WORD: usize = 64;
/// Lines of a message that count.
const LINES: usize = 4;

/// The error message with its variable parts taken out, at most [`limits::TEMPLATE`] bytes.
pub fn template(message: &str) -> String {
    let text = head(message);
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        out: String::with_capacity(text.len().min(limits::TEMPLATE) + 16),
        space: false,
        beside_word: false,
        code_follows: false,
        unclosed: [false; 3],
    };
    while scanner.at < scanner.bytes.len() {
        if scanner.step().is_none() {
            scanner.out.push_str(CUT);
            break;
        }
    }
    scanner.out
}

/// The lines of a message that say what failed.
fn head(message: &str) -> &str {
    let message = message.trim_ascii_start();
    if message.starts_with("Traceback (most recent call last)") {
        let said = |line: &&str| !line.trim_ascii().is_empty() && !line.starts_with([' ', '\t']);
        return message.lines().rfind(said).unwrap_or(message);
    }
    let mut end = 0;
    for (index, line) in message.split_inclusive('\n').take(LINES).enumerate() {
        if index > 0 && is_frame(line) {
            break;
        }
        end += line.len();
    }
    &message[..end]
}

/// Whether a line belongs to a stack trace.
fn is_frame(line: &str) -> bool {
    const FRAMES: [&str; 8] = [
        "at ",
        "File \"",
        "goroutine ",
        "Caused by:",
        "... ",
        "Traceback ",
        "Stack trace",
        "stack backtrace",
    ];
    let line = line.trim_ascii_start();
    FRAMES.iter().any(|frame| line.starts_with(frame))
}

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    out: String,
    /// A space is due before what comes next.
    space: bool,
    /// What was written last is a letter, a digit or a mark, with nothing behind it.
    beside_word: bool,
    /// The last word was one that a status code follows.
    code_follows: bool,
    /// Per kind of quote: from here on there is none that could close, so it need not be looked for again.
    unclosed: [bool; 3],
}

/// `None`: the template is full.
type Step = Option<()>;

impl Scanner<'_> {
    fn step(&mut self) -> Step {
        let byte = self.bytes[self.at];
        match byte {
            _ if byte.is_ascii_whitespace() || byte.is_ascii_control() => {
                self.at += 1;
                self.space = !self.out.is_empty();
                self.beside_word = false;
                Some(())
            }
            b'<' => match mark_at(self.bytes, self.at) {
                Some(CUT) => None,
                Some(mark) => self.mark(mark, self.at + mark.len()),
                None => self.literal(1),
            },
            b'"' | b'\'' | b'`' => match self.closing(byte) {
                Some(close) => self.mark("<str>", close + 1),
                None => self.literal(1),
            },
            b')' => self.postgres_key(),
            _ if is_delimiter(byte) => self.literal(1),
            _ => self.chunk(),
        }
    }

    /// `Key (email)=(ann@example.org) already exists`: what stands in the second brackets varies, quoted or not.
    fn postgres_key(&mut self) -> Step {
        let rest = &self.bytes[self.at..];
        match rest.strip_prefix(b")=(").and_then(|value| memchr::memchr(b')', value)) {
            Some(len) => {
                let close = self.at + 3 + len;
                self.literal(3)?;
                self.mark("<str>", close)
            }
            None => self.literal(1),
        }
    }

    /// Everything up to the next delimiter.
    fn chunk(&mut self) -> Step {
        let len = self.bytes[self.at..].iter().position(|byte| is_delimiter(*byte));
        let end = len.map_or(self.bytes.len(), |len| self.at + len);
        if !self.beside_word
            && let Some((mark, end)) = self.whole(end)
        {
            return self.mark(mark, end);
        }
        if !self.beside_word
            && matches!(self.bytes[self.at], b'-' | b'+')
            && self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit)
        {
            // The sign goes with the number, which is then no status code.
            self.at += 1;
            self.code_follows = false;
        }
        while self.at < end {
            if is_word(self.bytes[self.at]) { self.piece()? } else { self.literal(1)? }
        }
        Some(())
    }

    /// The mark for the chunk up to `end` as a whole, and where it ends: dots and colons behind it are the sentence's.
    fn whole(&self, end: usize) -> Option<(&'static str, usize)> {
        let chunk = &self.bytes[self.at..end];
        let trimmed = |end: usize| {
            let kept = self.bytes[self.at..end].iter().rposition(|byte| is_word(*byte) || *byte == b'/');
            kept.map_or(self.at, |last| self.at + last + 1)
        };
        if let Some(scheme) = memchr::memmem::find(chunk, b"://") {
            let stop = |byte: &u8| {
                byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'`<>()[]{}".contains(byte)
            };
            let end = self.bytes[end..].iter().position(stop).map_or(self.bytes.len(), |len| end + len);
            let named =
                chunk[..scheme].iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:".contains(byte));
            let fits = scheme > 1 && named && trimmed(end) > self.at + scheme + 3;
            return (fits && mark_at(self.bytes, end).is_none()).then(|| ("<url>", trimmed(end)));
        }
        if mark_at(self.bytes, end).is_some() {
            return None;
        }
        let end = trimmed(end);
        let chunk = &self.bytes[self.at..end];
        if shapes::is_email(chunk) {
            Some(("<email>", end))
        } else if shapes::is_path(chunk) {
            Some(("<path>", end))
        } else {
            None
        }
    }

    /// A run of letters and digits, or a thing that begins with one.
    fn piece(&mut self) -> Step {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
        let piece = &rest[..len];
        let digits = shapes::digits(piece);
        let number = shapes::number(rest);
        // What stays is judged first: with the number behind it gone it could look like something else.
        let is_code =
            self.code_follows && (len, digits, number) == (3, 3, 3) && matches!(piece[0], b'1'..=b'5');
        let may_be_uuid = len == 8 && rest.get(8) == Some(&b'-');
        let is_plain = !may_be_uuid && !piece.iter().any(u8::is_ascii_digit);
        if is_code || is_plain || shapes::is_constant(piece) {
            return self.word(len);
        }
        // Only what does not go on in front can be such a thing.
        let starts = !self.beside_word;
        let things = [
            ("<uuid>", starts.then(|| shapes::uuid(rest)).flatten()),
            ("<time>", (starts && digits > 1).then(|| shapes::time(rest)).flatten()),
            ("<ip>", starts.then(|| shapes::ip(rest)).flatten()),
        ];
        if let Some((mark, Some(len))) = things.into_iter().find(|(_, len)| len.is_some()) {
            return self.mark(mark, self.at + len);
        }
        self.mixed(piece, digits, number)
    }

    /// A piece with digits in it.
    fn mixed(&mut self, piece: &[u8], digits: usize, number: usize) -> Step {
        let end = self.at + piece.len();
        let letters = piece.iter().take_while(|byte| !byte.is_ascii_digit()).count();
        let hex = piece.iter().all(u8::is_ascii_hexdigit);
        if digits == piece.len() {
            return self.mark("<num>", self.at + number);
        }
        if letters == piece.len() {
            return self.word(piece.len());
        }
        if piece.len() > 2
            && matches!(piece, [b'0', b'x' | b'X', hex @ ..] if hex.iter().all(u8::is_ascii_hexdigit))
        {
            return self.mark("<hex>", end);
        }
        if hex && piece.len() >= 6 {
            return self.mark("<hex>", end);
        }
        // `worker12` and `200ms` keep their word; everything more mixed is an id.
        if letters > 0 && shapes::digits(&piece[letters..]) == piece.len() - letters {
            self.word(letters)?;
            return self.mark("<num>", end);
        }
        let unit = &piece[digits..];
        if digits > 0 && shapes::is_unit(unit) {
            self.mark("<num>", self.at + digits)?;
            return self.word(unit.len());
        }
        self.mark("<id>", end)
    }

    /// Where the quote that opens here closes, if it does either.
    fn closing(&mut self, quote: u8) -> Option<usize> {
        let kind = match quote {
            b'"' => 0,
            b'\'' => 1,
            _ => 2,
        };
        if self.beside_word || self.unclosed[kind] {
            return None;
        }
        let from = self.at + 1;
        let closes = |at: &usize| {
            let slashes = self.bytes[..*at].iter().rev().take_while(|byte| **byte == b'\\').count();
            // An apostrophe stands inside a word.
            let inside = |byte: &u8| is_word(*byte) || *byte == b'<';
            slashes % 2 == 0 && (quote != b'\'' || !self.bytes.get(at + 1).is_some_and(inside))
        };
        let close = memchr::memchr_iter(quote, &self.bytes[from..]).map(|at| from + at).find(closes);
        self.unclosed[kind] = close.is_none();
        close
    }

    /// Writes a mark for everything up to `end`.
    fn mark(&mut self, mark: &str, end: usize) -> Step {
        self.code_follows &= mark == "<num>";
        self.write(mark)?;
        self.at = end;
        self.beside_word = true;
        Some(())
    }

    /// Copies letters and digits. A text without spaces can be one very long word: as much of it is kept as fits.
    fn word(&mut self, len: usize) -> Step {
        let word = &self.bytes[self.at..self.at + len];
        self.code_follows = announces_code(word);
        if len > LONG_WORD && self.out.len() + usize::from(self.space) + len > limits::TEMPLATE - CUT.len() {
            let mut kept = self.text[self.at..self.at + len].to_string();
            limits::cut(&mut kept, (limits::TEMPLATE - CUT.len()).saturating_sub(self.out.len() + 1));
            // An empty rest would leave a space behind, and nothing after it.
            if !kept.is_empty() {
                self.write(&kept)?;
            }
            return None;
        }
        self.literal(len)?;
        self.beside_word = true;
        Some(())
    }

    /// Copies `len` bytes, which are whole characters.
    fn literal(&mut self, len: usize) -> Step {
        self.write(self.text.get(self.at..self.at + len).unwrap_or_default())?;
        self.at += len;
        self.beside_word = false;
        Some(())
    }

    /// Room is left for the mark that says the template was cut.
    fn write(&mut self, what: &str) -> Step {
        if self.out.len() + usize::from(self.space) + what.len() > limits::TEMPLATE - CUT.len() {
            return None;
        }
        if self.space {
            self.out.push(' ');
            self.space = false;
        }
        self.out.push_str(what);
        Some(())
    }
}

/// The mark that stands at this place.
fn mark_at(bytes: &[u8], at: usize) -> Option<&'static str> {
    let rest = bytes.get(at..)?;
    if rest.first() != Some(&b'<') {
        return None;
    }
    MARKS.into_iter().find(|mark| rest.starts_with(mark.as_bytes()))
}

fn announces_code(word: &[u8]) -> bool {
    ["http", "https", "status", "code", "statuscode"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests;
