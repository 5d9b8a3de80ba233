//! Words to people: results to stdout, talk to stderr, colour only where somebody looks.
//!
//! Letters hold bytes of strangers. Whatever is printed as text passes [`clean`], so that an error message cannot
//! move the cursor, clear the screen or change the title of an operator's terminal.

mod age;
mod table;
mod whole_file;

use std::io::{IsTerminal, Write};

use crate::exit::Outcome;

pub(crate) use age::ago;
pub(crate) use table::{Align, Table};
pub(crate) use whole_file::WholeFile;

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warn,
    Quiet,
    Strong,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "33",
            Self::Quiet => "2",
            Self::Strong => "1",
        }
    }
}

/// Where a command writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    /// Machines read: the API's own JSON.
    pub(crate) json: bool,
    colour: bool,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { json, colour: !json && !plain && std::io::stdout().is_terminal() }
    }

    /// One line of the result.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Outcome {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", text.as_ref())?;
        Ok(())
    }

    /// JSON as the server gave it, indented for a terminal and compact for a pipe.
    pub(crate) fn value(&self, value: &serde_json::Value) -> Outcome {
        let text = if std::io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() };
        self.line(text)
    }

    /// Bytes exactly as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Outcome {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    pub(crate) fn table(&self, table: &Table) -> Outcome {
        for line in table.lines(|text, tone| self.paint(text, tone)) {
            self.line(line)?;
        }
        Ok(())
    }

    /// The text in a tone, where colours are seen.
    pub(crate) fn paint(&self, text: &str, tone: Tone) -> String {
        if self.colour { format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code()) } else { text.to_string() }
    }
}

/// Talk: progress, hints, what happens next. Never part of the result; a closed stderr is no reason to fail.
pub(crate) fn say(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.as_ref());
}

/// A line of progress that is rewritten in place on a terminal, and not shown elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    seen: bool,
    shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { seen: std::io::stderr().is_terminal(), shown: false }
    }

    pub(crate) fn at(&mut self, text: &str) {
        if self.seen {
            self.shown = true;
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K{text}");
        }
    }

    /// Whether somebody looks.
    pub(crate) const fn is_seen(&self) -> bool {
        self.seen
    }

    /// Clears the line, so that what follows begins on an empty one.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

/// Text on one line without control characters.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() || is_deceptive(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Text with its line breaks, without other control characters.
pub(crate) fn clean_lines(text: &str) -> String {
    text.split('\n').map(|line| clean(line.trim_end_matches('\r'))).collect::<Vec<_>>().join("\n")
}

/// Characters that reorder what stands around them.
const fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// At most `most` characters, with `…` where something was cut.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_string();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A number with thin groups: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 letter`, `2,000 letters`.
pub(crate) fn letters(number: u64) -> String {
    if number == 1 { "1 letter".to_string() } else { format!("{} letters", count(number)) }
}

/// A bar of at most ten cells that shows a share of the largest.
pub(crate) fn bar(number: u64, largest: u64) -> String {
    const CELLS: u64 = 10;
    if number == 0 || largest == 0 {
        return String::new();
    }
    let eighths = (number.saturating_mul(CELLS * 8)).div_ceil(largest).min(CELLS * 8);
    let full = usize::try_from(eighths / 8).unwrap_or(0);
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][usize::try_from(eighths % 8).unwrap_or(0)];
    format!("{}{part}", "█".repeat(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_strangers_do_not_reach_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb c\u{fffd}d");
        assert_eq!(clean_lines("a\r\nb\u{7}"), "a\nb\u{fffd}");
    }

    #[test]
    fn numbers_are_grouped_and_texts_are_cut_on_characters() {
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!((letters(1), letters(2_000)), ("1 letter".into(), "2,000 letters".into()));
        assert_eq!(cut("Straße", 4), "Str…");
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn a_bar_is_never_longer_than_ten_cells_and_shows_the_smallest() {
        assert_eq!(bar(10, 10), "█".repeat(10));
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(0, 10), "");
    }
}
