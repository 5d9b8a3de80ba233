//! What was decoded, as text in the manner of JSON: one member a line, every digit of a number, bytes as `h'00ff'`. Bounded
//! in length and depth.

use std::fmt::{Display, Write as _};

use super::reading::{Step, Stop};

/// Levels that are followed.
const DEEPEST: usize = 64;
/// Bytes of one value that are shown as hex.
const HEX: usize = 256;

#[derive(Debug)]
pub(super) struct Writing {
    text: String,
    level: usize,
    /// Whether something stands on this level already.
    begun: Vec<bool>,
    most: usize,
}

impl Writing {
    pub(super) fn new(most: usize) -> Self {
        Self { text: String::new(), level: 0, begun: Vec::new(), most }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Text as it is; nothing more once there is too much.
    pub(super) fn put(&mut self, text: impl Display) -> Step {
        // Writing to memory does not fail.
        let _ = write!(self.text, "{text}");
        if self.text.len() > self.most { Err(Stop::Full) } else { Ok(()) }
    }

    pub(super) fn open(&mut self, bracket: char) -> Step {
        if self.level >= DEEPEST {
            return Err(Stop::Full);
        }
        self.level += 1;
        self.begun.push(false);
        self.put(bracket)
    }

    /// What has no bracket of its own is one level deeper all the same.
    pub(super) fn deeper(&mut self, inside: impl FnOnce(&mut Self) -> Step) -> Step {
        if self.level >= DEEPEST {
            return Err(Stop::Full);
        }
        self.level += 1;
        inside(self)?;
        self.level -= 1;
        Ok(())
    }

    /// Begins the next member or element.
    pub(super) fn next(&mut self) -> Step {
        let begun = self.begun.last_mut().is_some_and(|begun| std::mem::replace(begun, true));
        if begun {
            self.text.push(',');
        }
        self.line()
    }

    pub(super) fn close(&mut self, bracket: char) -> Step {
        self.level = self.level.saturating_sub(1);
        if self.begun.pop() == Some(true) {
            self.line()?;
        }
        self.put(bracket)
    }

    fn line(&mut self) -> Step {
        let level = self.level;
        self.put(format_args!("\n{:width$}", "", width = level * 2))
    }

    /// Text in quotes, as JSON writes it.
    pub(super) fn string(&mut self, text: &str) -> Step {
        let room = self.most.saturating_sub(self.text.len());
        let Some(fits) = text.get(..text.floor_char_boundary(room)) else { return Err(Stop::Full) };
        // Text always becomes JSON.
        let quoted = serde_json::to_string(fits).unwrap_or_default();
        self.put(quoted)?;
        if fits.len() < text.len() { Err(Stop::Full) } else { Ok(()) }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Step {
        self.put("h'")?;
        for byte in bytes.iter().take(HEX) {
            self.put(format_args!("{byte:02x}"))?;
        }
        match bytes.len().checked_sub(HEX) {
            Some(left @ 1..) => self.put(format_args!("' and {left} bytes more")),
            _ => self.put('\''),
        }
    }

    /// Bytes that ought to be text.
    pub(super) fn text(&mut self, bytes: &[u8]) -> Step {
        self.string(std::str::from_utf8(bytes).map_err(|_| Stop::Wrong)?)
    }

    /// Every digit that it takes to read the same number back.
    pub(super) fn float(&mut self, number: f64) -> Step {
        self.put(format_args!("{number:?}"))
    }

    pub(super) fn single(&mut self, number: f32) -> Step {
        self.put(format_args!("{number:?}"))
    }
}
