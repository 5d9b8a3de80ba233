//! Paths of JSON fields, and where in them a walk through a document stands.

use crate::limits;
use crate::pattern::{Glob, RuleError};

/// Segments of one path.
const SEGMENTS: usize = 32;

/// `customer.card`, `*.password`, `**.iban`.
#[derive(Debug, Clone)]
pub(super) struct FieldPath(Vec<Segment>);

#[derive(Debug, Clone)]
enum Segment {
    /// One field, by name or glob.
    Field(Glob),
    /// Any number of fields, none included.
    Any,
}

impl FieldPath {
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        let segments: Vec<&str> = text.split('.').collect();
        let wrong = text.len() > limits::NAME * 4
            || segments.len() > SEGMENTS
            || segments.iter().any(|segment| segment.is_empty())
            || segments.last() == Some(&"**");
        if wrong {
            let problem = format!(
                "expected a path such as customer.card, *.password or **.iban with 1 to {SEGMENTS} segments, \
                 the last one a name; found `{}`",
                text.chars().take(64).collect::<String>()
            );
            return Err(RuleError::new("redact", "fields", problem));
        }
        let segment = |text: &str| if text == "**" { Segment::Any } else { Segment::Field(Glob::new(text)) };
        Ok(Self(segments.into_iter().map(segment).collect()))
    }
}

/// How far each path has come at one place of a document. Array positions do not move it.
pub(super) struct Places<'a>(Vec<&'a [Segment]>);

impl<'a> Places<'a> {
    pub(super) fn start(paths: &'a [FieldPath]) -> Self {
        let mut places = Self(Vec::new());
        for path in paths {
            places.add(&path.0);
        }
        places
    }

    /// Whether a path ends here.
    pub(super) fn reached(&self) -> bool {
        self.0.iter().any(|rest| rest.is_empty())
    }

    /// The places one field further.
    pub(super) fn enter(&self, name: &str) -> Self {
        let mut next = Self(Vec::new());
        for rest in &self.0 {
            match rest {
                [Segment::Any, ..] => next.add(rest),
                [Segment::Field(glob), behind @ ..] if glob.matches(name) => next.add(behind),
                [Segment::Field(_), ..] | [] => {}
            }
        }
        next
    }

    /// Adds a place, and with `**` also what lies behind it. A place is kept once, so their number stays bounded
    /// by the segments of all paths.
    fn add(&mut self, mut rest: &'a [Segment]) {
        loop {
            if self.0.iter().any(|known| std::ptr::eq(*known, rest)) {
                return;
            }
            self.0.push(rest);
            match rest {
                [Segment::Any, behind @ ..] => rest = behind,
                [Segment::Field(_), ..] | [] => return,
            }
        }
    }
}
