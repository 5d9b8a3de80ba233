//! Gives every term of a query its meaning: which field, what kind of value, compared how.
//!
//! Nothing matches by accident. A name that is no field is refused with the near ones, a value of the wrong kind with
//! what was expected; text with a colon in it is searched for in quotes.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use super::error::{Problem, QueryError, clip};
use super::lex::{Lexer, Piece, RawKind, RawTerm};
use super::{Compare, Expiry, Matcher, Op, Query, ReplayLimits, Term, fields};
use crate::codes::UnknownCode;
use crate::time::Timestamp;
use crate::units::{ByteSize, HumanDuration};
use crate::{limits, words};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Query {
    /// Reads the text of a query. `now` is what `age:` counts back from.
    ///
    /// Text of more than [`limits::QUERY`] characters or [`limits::QUERY_TERMS`] terms is refused.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, QueryError> {
        if let Some((at, _)) = text.char_indices().nth(limits::QUERY) {
            return Err(Problem::TooLong.at(text, at..at));
        }
        let mut lexer = Lexer::new(text);
        let mut terms = Vec::new();
        while let Some(raw) = lexer.term()? {
            let start = raw.start();
            let negated = raw.negated;
            let matchers = match raw.kind {
                RawKind::Free(piece) => vec![free(text, piece)?],
                RawKind::Field { path, op, value } => {
                    Reading { text, now, negated, path: &path, op, value: &value }.matchers()?
                }
            };
            terms.extend(matchers.into_iter().map(|matcher| Term { negated, matcher }));
            if terms.len() > limits::QUERY_TERMS {
                return Err(Problem::TooManyTerms.at(text, start..start));
            }
        }
        Ok(Self { terms })
    }
}

impl RawTerm {
    fn start(&self) -> usize {
        match &self.kind {
            RawKind::Free(piece) => piece.at.start,
            RawKind::Field { path, value, .. } => path.first().unwrap_or(value).at.start,
        }
    }
}

/// A free word or phrase.
fn free(text: &str, piece: Piece) -> Result<Matcher, QueryError> {
    let has_word = !words::fold(&piece.text).is_empty();
    if has_word { Ok(Matcher::Text(piece.text)) } else { Err(Problem::NoWord.at(text, piece.at)) }
}

/// One `field:value`, on its way to a meaning.
struct Reading<'a> {
    text: &'a str,
    now: Timestamp,
    negated: bool,
    path: &'a [Piece],
    op: Option<(Op, Range<usize>)>,
    value: &'a Piece,
}

impl Reading<'_> {
    /// What the term asks for. More than one matcher only where all must hold, and never when negated.
    fn matchers(&self) -> Result<Vec<Matcher>, QueryError> {
        let matcher = match self.field() {
            "status" => Matcher::Status(self.coded()?),
            "source" => Matcher::Source(self.exact()?),
            "queue" => Matcher::Queue(self.exact()?),
            "group" => Matcher::Group(self.id("a group's id")?),
            "type" => Matcher::Type(self.exact()?),
            "class" => Matcher::Class(self.exact()?),
            "consumer" => Matcher::Consumer(self.exact()?),
            "owner" => Matcher::Owner(Some(self.exact()?).filter(|name| self.value.quoted || name != "none")),
            "id" => Matcher::Id(self.id("a letter's id")?),
            "broker" => Matcher::Broker(self.coded()?),
            "partition" => Matcher::Partition(self.exactly("a partition number such as 17")?),
            "offset" => Matcher::Offset(self.compared(whole)?),
            "version" => Matcher::Version(self.exact()?),
            "reason" => Matcher::Reason(self.coded()?),
            "verdict" => Matcher::Verdict(self.coded()?),
            "rule" => Matcher::Rule(self.exact()?),
            "code" => Matcher::Code(self.exact()?),
            "consumer_id" => Matcher::ConsumerId(self.exact()?),
            "attempts" => Matcher::Attempts(self.compared(whole)?),
            "replays" => Matcher::Replays(self.compared(whole)?),
            "is" => self.standing()?,
            "size" => Matcher::Size(self.compared(size)?),
            "age" => Matcher::Failed(self.age()?),
            "failed" => return self.moments("failed", Matcher::Failed),
            "captured" => return self.moments("captured", Matcher::Captured),
            "key" => Matcher::Key(self.exact()?),
            "correlation" => Matcher::Correlation(self.exact()?),
            "message" => Matcher::Message(self.exact()?),
            "trace" => Matcher::Trace(self.exact()?),
            "header" => Matcher::Header { name: self.header_name()?, value: self.exact()? },
            "payload" => Matcher::Payload { path: self.payload_path()?, value: self.exact()? },
            unknown => return Err(self.unknown(unknown)),
        };
        Ok(vec![matcher])
    }

    /// What a letter is, beside its status.
    fn standing(&self) -> Result<Matcher, QueryError> {
        match self.exact()?.as_str() {
            "exhausted" => Ok(Matcher::Exhausted(ReplayLimits::default())),
            "expiring" => Ok(Matcher::Expiring(Expiry::default())),
            word => match word.parse() {
                Ok(kind) => Ok(Matcher::Suspected(kind)),
                Err(_) => Err(self.bad("one of exhausted, expiring, suspected_duplicate, suspected_return")),
            },
        }
    }

    /// The name of the field: everything before the colon, or what stands before the first dot of `header.` and `payload.`.
    fn field(&self) -> &str {
        match self.path {
            [first, ..] if matches!(first.text.as_str(), "header" | "payload") => &first.text,
            [first, .., last] => &self.text[first.at.start..last.at.end],
            [only] => &only.text,
            [] => "",
        }
    }

    fn field_at(&self) -> Range<usize> {
        match self.path {
            [first, .., last] => first.at.start..last.at.end,
            [only] => only.at.clone(),
            [] => self.value.at.clone(),
        }
    }

    /// The value, if there is one.
    fn given(&self) -> Result<&Piece, QueryError> {
        if self.value.text.is_empty() && !self.value.quoted {
            let problem = Problem::MissingValue { field: clip(self.field()) };
            return Err(problem.at(self.text, self.value.at.clone()));
        }
        Ok(self.value)
    }

    /// The value of a field that is not compared.
    fn plain(&self) -> Result<&Piece, QueryError> {
        if let Some((op, at)) = &self.op {
            let problem = Problem::NotComparable { field: clip(self.field()), op: op.sign() };
            return Err(problem.at(self.text, at.clone()));
        }
        self.given()
    }

    fn bad(&self, expected: impl Into<String>) -> QueryError {
        Problem::bad_value(expected, &self.value.text).at(self.text, self.value.at.clone())
    }

    fn exact(&self) -> Result<String, QueryError> {
        Ok(self.plain()?.text.clone())
    }

    fn exactly<T: FromStr>(&self, expected: &str) -> Result<T, QueryError> {
        self.plain()?.text.parse().map_err(|_| self.bad(expected))
    }

    fn id<T: FromStr>(&self, what: &str) -> Result<T, QueryError> {
        self.exactly(&format!("{what}, such as 01936f3c-7a2e-7c1b-9d4f-2b8e6a0c5d17"))
    }

    fn coded<T: FromStr<Err = UnknownCode>>(&self) -> Result<T, QueryError> {
        let word = &self.plain()?.text;
        word.parse().map_err(|unknown: UnknownCode| {
            let near = nearest(word, unknown.expected.split(", "));
            let hint = near.first().map(|near| format!(" (perhaps `{near}`)")).unwrap_or_default();
            self.bad(format!("one of {}{hint}", unknown.expected)).with_near(near)
        })
    }

    fn compared<T>(&self, read: fn(&str) -> Result<T, String>) -> Result<Compare<T>, QueryError> {
        let value = read(&self.given()?.text).map_err(|expected| self.bad(expected))?;
        Ok(Compare { op: self.op.as_ref().map_or(Op::Eq, |(op, _)| *op), value })
    }

    /// An age is a failure as long ago: what is older failed earlier, so the sign turns around.
    fn age(&self) -> Result<Compare<Timestamp>, QueryError> {
        let age = self.compared(duration)?;
        let op = match age.op {
            Op::Gt => Op::Lt,
            Op::Ge => Op::Le,
            Op::Lt => Op::Gt,
            Op::Le => Op::Ge,
            Op::Eq => {
                let problem = Problem::NeedsComparison { field: "age", example: "age:>2h" };
                return Err(problem.at(self.text, self.value.at.clone()));
            }
        };
        Ok(Compare { op, value: self.now.minus(age.value) })
    }

    /// A moment is compared as it is; a bare day without a sign is all of that day.
    fn moments(
        &self,
        field: &'static str,
        matcher: fn(Compare<Timestamp>) -> Matcher,
    ) -> Result<Vec<Matcher>, QueryError> {
        let moment = self.compared(moment)?;
        let is_day = !self.value.text.contains(['T', 't', ' ']);
        if !is_day || moment.op != Op::Eq {
            return Ok(vec![matcher(moment)]);
        }
        if self.negated {
            return Err(Problem::NegatedDay { field }.at(self.text, self.value.at.clone()));
        }
        let end = moment.value.plus(DAY);
        Ok(vec![
            matcher(Compare { op: Op::Ge, value: moment.value }),
            matcher(Compare { op: Op::Lt, value: end }),
        ])
    }

    fn header_name(&self) -> Result<String, QueryError> {
        let parts: Vec<&str> = self.path.iter().skip(1).map(|part| part.text.as_str()).collect();
        let name = parts.join(".");
        if name.is_empty() {
            let problem = Problem::MissingName { field: "header", example: "header.x-tenant:acme" };
            return Err(problem.at(self.text, self.field_at()));
        }
        Ok(name)
    }

    fn payload_path(&self) -> Result<Vec<String>, QueryError> {
        let parts = self.path.get(1..).unwrap_or_default();
        if parts.is_empty() || parts.iter().any(|part| part.text.is_empty() && !part.quoted) {
            let problem = Problem::MissingName { field: "payload", example: "payload.customer.id:C-441" };
            return Err(problem.at(self.text, self.field_at()));
        }
        Ok(parts.iter().map(|part| part.text.clone()).collect())
    }

    fn unknown(&self, found: &str) -> QueryError {
        let near = fields::near(found);
        let directions = if near.is_empty() {
            let quoted = clip(self.text.get(self.field_at().start..self.value.at.end).unwrap_or(found));
            format!("; to search for this text, put it in quotes: \"{quoted}\"")
        } else {
            format!("; did you mean `{}`?", near.join("`, `"))
        };
        let error = Problem::UnknownField { found: clip(found), directions }.at(self.text, self.field_at());
        error.with_near(near)
    }
}

/// The names that `found` may have been meant as, the nearest first.
pub(super) fn nearest<'n>(found: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    // Longer than any name, and the distance is quadratic.
    if found.len() > 40 {
        return Vec::new();
    }
    let found = found.to_lowercase();
    let allowed = (found.chars().count() / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = names
        .map(|name| (strsim::damerau_levenshtein(&found, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

fn whole(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "a whole number such as 3".to_string())
}

fn size(text: &str) -> Result<i64, String> {
    let size: ByteSize = text.parse().map_err(|_| "a size such as 512, 100kb or 1.5mb")?;
    Ok(i64::try_from(size.0).unwrap_or(i64::MAX))
}

fn duration(text: &str) -> Result<Duration, String> {
    let age: HumanDuration = text.parse().map_err(|_| "a duration such as 90s, 2h or 7d, at most 36500d")?;
    Ok(age.0)
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|_| "a time such as 2026-11-01 or 2026-11-01T12:30:00Z".to_string())
}
