//! What a failing consumer added to a message that it parked as a copy: header names, and fields of a Redis entry.
//!
//! `error_message` may be a business field as well. A word that an application may use is taken off only if the names
//! together show that a consumer wrote them: an error, and where the message came from or who failed. Plain words, such
//! as `reason`, are taken off only inside the run of names that the consumer wrote, at one end of the message.

use std::sync::LazyLock;

use super::mapper::Mapper;

/// What a name says, if it is one that failing consumers write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// What went wrong.
    Error,
    /// Where the message was.
    Origin,
    /// Who failed.
    Consumer,
    /// How often, and when.
    Course,
    /// As the four above, in a word that messages of a business often have.
    Plain(Kind),
}

/// What a plain word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    Place,
    Course,
    Other,
}

/// Names longer than this are nobody's convention.
const LONGEST: usize = 48;

/// Names of one message, judged together.
#[derive(Debug)]
pub(super) struct Judged {
    taken_off: Vec<bool>,
}

impl Judged {
    /// Judges names in their order. `ordered`: the broker keeps that order, so what the consumer added is at one end.
    pub(super) fn of<'n>(names: impl Iterator<Item = &'n str>, mapper: &Mapper, ordered: bool) -> Self {
        let names: Vec<(&str, Option<Word>)> = names.map(|name| (name, word(name))).collect();
        let certain = mapper.builtin && is_certain(names.iter().filter_map(|(_, word)| *word));
        let words: Vec<Option<Word>> = names.iter().map(|(_, word)| *word).collect();
        let is_added = |at: usize| match words[at] {
            None => false,
            Some(Word::Plain(kind)) if ordered => is_inside_a_run(&words, at, kind),
            Some(Word::Plain(kind)) => kind != Kind::Other,
            Some(Word::Error | Word::Origin | Word::Consumer | Word::Course) => true,
        };
        let taken_off = names
            .iter()
            .enumerate()
            .map(|(at, (name, _))| !mapper.keeps(name) && (mapper.takes_off(name) || certain && is_added(at)))
            .collect();
        Self { taken_off }
    }

    /// Whether the name at this place was added.
    pub(super) fn is_added(&self, at: usize) -> bool {
        self.taken_off.get(at).copied().unwrap_or(false)
    }

    pub(super) fn any(&self) -> bool {
        self.taken_off.contains(&true)
    }
}

/// An error beside an origin, or an error, a place and a course among four words and more.
fn is_certain(words: impl Iterator<Item = Word>) -> bool {
    let (mut all, mut errors, mut origins, mut places, mut courses) = (0, 0, 0, 0, 0);
    for word in words {
        all += 1;
        match word {
            Word::Error | Word::Plain(Kind::Error) => errors += 1,
            Word::Origin => origins += 1,
            Word::Consumer | Word::Plain(Kind::Place) => places += 1,
            Word::Course | Word::Plain(Kind::Course) => courses += 1,
            Word::Plain(Kind::Other) => {}
        }
    }
    errors > 0 && (origins > 0 || (places > 0 && courses > 0 && all >= 4))
}

/// Whether a plain word belongs to a run of words that a consumer wrote: one that has a telling word and reaches an end
/// of the message. A word such as `reason` at the inner end of a run may be the producer's, and is left.
fn is_inside_a_run(words: &[Option<Word>], at: usize, kind: Kind) -> bool {
    let start = words[..at].iter().rposition(Option::is_none).map_or(0, |gap| gap + 1);
    let end = words[at..].iter().position(Option::is_none).map_or(words.len(), |gap| at + gap);
    let tells = |run: &[Option<Word>]| {
        run.iter().any(|word| word.is_some_and(|word| !matches!(word, Word::Plain(_))))
    };
    let (is_last, is_first) = (end == words.len(), start == 0);
    match kind {
        Kind::Error | Kind::Place | Kind::Course => (is_last || is_first) && tells(&words[start..end]),
        Kind::Other if is_last => tells(&words[start..at]),
        Kind::Other => is_first && tells(&words[at..end]),
    }
}

/// Words without separators, in lower case, sorted.
const WORDS: &[(&str, Word)] = &[
    ("attempt", Word::Plain(Kind::Course)),
    ("attemptcount", Word::Course),
    ("attempts", Word::Plain(Kind::Course)),
    ("cause", Word::Plain(Kind::Other)),
    ("consumer", Word::Plain(Kind::Place)),
    ("consumergroup", Word::Consumer),
    ("consumerid", Word::Consumer),
    ("consumername", Word::Consumer),
    ("deadat", Word::Course),
    ("deadletteredat", Word::Course),
    ("deadletterreason", Word::Error),
    ("deliveries", Word::Plain(Kind::Course)),
    ("deliveryattempts", Word::Course),
    ("deliverycount", Word::Course),
    ("error", Word::Plain(Kind::Error)),
    ("errorat", Word::Course),
    ("errorclass", Word::Error),
    ("errorcode", Word::Error),
    ("errordetail", Word::Error),
    ("errordetails", Word::Error),
    ("erroredat", Word::Course),
    ("errormessage", Word::Error),
    ("errormsg", Word::Error),
    ("errorname", Word::Error),
    ("errorreason", Word::Error),
    ("errorstack", Word::Error),
    ("errorstacktrace", Word::Error),
    ("errortime", Word::Course),
    ("errortimestamp", Word::Course),
    ("errortraceback", Word::Error),
    ("errortype", Word::Error),
    ("exception", Word::Plain(Kind::Error)),
    ("exceptionclass", Word::Error),
    ("exceptionmessage", Word::Error),
    ("exceptionname", Word::Error),
    ("exceptionstacktrace", Word::Error),
    ("exceptiontype", Word::Error),
    ("failedat", Word::Course),
    ("failedby", Word::Consumer),
    ("failedconsumer", Word::Consumer),
    ("failure", Word::Plain(Kind::Error)),
    ("failurecause", Word::Error),
    ("failuremessage", Word::Error),
    ("failurereason", Word::Error),
    ("failuretime", Word::Course),
    ("failuretimestamp", Word::Course),
    ("firstfailedat", Word::Course),
    ("fromqueue", Word::Origin),
    ("fromstream", Word::Origin),
    ("fromtopic", Word::Origin),
    ("group", Word::Plain(Kind::Place)),
    ("groupid", Word::Plain(Kind::Place)),
    ("handler", Word::Plain(Kind::Place)),
    ("host", Word::Plain(Kind::Other)),
    ("hostname", Word::Plain(Kind::Other)),
    ("lasterror", Word::Error),
    ("lasterrormessage", Word::Error),
    ("lastfailedat", Word::Course),
    ("maxretries", Word::Plain(Kind::Course)),
    ("movedat", Word::Plain(Kind::Course)),
    ("origid", Word::Origin),
    ("originalchannel", Word::Origin),
    ("originalentryid", Word::Origin),
    ("originalexchange", Word::Origin),
    ("originalgroup", Word::Consumer),
    ("originalid", Word::Origin),
    ("originalmessageid", Word::Origin),
    ("originaloffset", Word::Origin),
    ("originalpartition", Word::Origin),
    ("originalqueue", Word::Origin),
    ("originalroutingkey", Word::Origin),
    ("originalstream", Word::Origin),
    ("originalsubject", Word::Origin),
    ("originaltimestamp", Word::Plain(Kind::Course)),
    ("originaltopic", Word::Origin),
    ("originqueue", Word::Origin),
    ("originstream", Word::Origin),
    ("origintopic", Word::Origin),
    ("origqueue", Word::Origin),
    ("origstream", Word::Origin),
    ("origtopic", Word::Origin),
    ("parkedat", Word::Course),
    ("reason", Word::Plain(Kind::Other)),
    ("retries", Word::Plain(Kind::Course)),
    ("retrycount", Word::Course),
    ("service", Word::Plain(Kind::Other)),
    ("sourceentryid", Word::Origin),
    ("sourceid", Word::Plain(Kind::Place)),
    ("sourcemessageid", Word::Origin),
    ("sourceoffset", Word::Origin),
    ("sourcepartition", Word::Origin),
    ("sourcequeue", Word::Origin),
    ("sourcestream", Word::Origin),
    ("sourcesubject", Word::Origin),
    ("sourcetopic", Word::Origin),
    ("stack", Word::Plain(Kind::Error)),
    ("stacktrace", Word::Plain(Kind::Error)),
    ("stream", Word::Plain(Kind::Place)),
    ("timesdelivered", Word::Course),
    ("timestamp", Word::Plain(Kind::Other)),
    ("traceback", Word::Plain(Kind::Error)),
    ("worker", Word::Plain(Kind::Place)),
    ("workerid", Word::Plain(Kind::Place)),
    ("workername", Word::Plain(Kind::Place)),
];

/// Prefixes that such names have in front.
const PREFIXES: [&str; 6] = ["deadletter", "dlq", "dlt", "dl", "meta", "x"];

/// Whether a failing consumer may have written this name.
pub(super) fn is_word(name: &str) -> bool {
    word(name).is_some()
}

fn word(name: &str) -> Option<Word> {
    let mut buffer = [0; LONGEST];
    let mut length = 0;
    let mut first = None;
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            *buffer.get_mut(length)? = byte.to_ascii_lowercase();
            length += 1;
        } else if matches!(byte, b'_' | b'-' | b'.') {
            first = first.or((length > 0).then_some(length));
        } else {
            return None;
        }
    }
    let folded = &buffer[..length];
    known(folded).or_else(|| {
        // A prefix ends at a separator: `x-error`, not `xerror`.
        let end = first?;
        let is_prefix = PREFIXES.iter().any(|prefix| prefix.as_bytes() == &folded[..end]);
        is_prefix.then(|| known(&folded[end..])).flatten()
    })
}

/// The words of each first letter, so that most names are compared with none or few.
static BY_FIRST_LETTER: LazyLock<[&[(&str, Word)]; 26]> = LazyLock::new(|| {
    std::array::from_fn(|letter| {
        let first = |word: &str| usize::from(word.as_bytes()[0] - b'a');
        let start = WORDS.partition_point(|(word, _)| first(word) < letter);
        let end = WORDS.partition_point(|(word, _)| first(word) <= letter);
        &WORDS[start..end]
    })
});

fn known(folded: &[u8]) -> Option<Word> {
    let letter = folded.first()?.checked_sub(b'a')?;
    let words = BY_FIRST_LETTER.get(usize::from(letter))?;
    let at = words.binary_search_by(|(word, _)| word.as_bytes().cmp(folded)).ok()?;
    words.get(at).map(|(_, word)| *word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(names: &[&str], ordered: bool) -> Vec<String> {
        let judged = Judged::of(names.iter().copied(), &Mapper::default(), ordered);
        let kept = names.iter().enumerate().filter(|(at, _)| !judged.is_added(*at));
        kept.map(|(_, name)| (*name).to_owned()).collect()
    }

    #[test]
    fn the_words_are_sorted_and_fit_the_buffer() {
        assert!(WORDS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(WORDS.iter().all(|(word, _)| word.len() <= LONGEST));
    }

    #[test]
    fn what_a_failing_consumer_writes_is_taken_off_in_every_spelling() {
        let added: &[&[&str]] = &[
            &[
                "original_id",
                "original_stream",
                "consumer_group",
                "error_class",
                "error_message",
                "retry_count",
                "failed_at",
            ],
            &[
                "originalId",
                "originalStream",
                "consumerGroup",
                "errorClass",
                "errorMessage",
                "retryCount",
                "failedAt",
            ],
            &["error", "source_stream", "source_id", "attempts", "reason", "timestamp"],
            &["failed_at", "error", "stream", "group", "consumer", "deliveries"],
            &["_error", "_original_id", "_failed_at"],
            &["dlq_error", "dlq_original_queue", "dlq_attempts"],
        ];
        for words in added {
            let behind: Vec<&str> = ["order", "reason", "sku"].iter().chain(*words).copied().collect();
            assert_eq!(left(&behind, true), ["order", "reason", "sku"]);
        }
        for words in &added[..2] {
            let before: Vec<&str> = words.iter().chain(&["order", "reason", "sku"]).copied().collect();
            assert_eq!(left(&before, true), ["order", "reason", "sku"]);
            assert_eq!(left(&before, false), ["order", "reason", "sku"]);
        }
    }

    #[test]
    fn names_that_an_application_may_use_stay_where_no_origin_is_told() {
        for names in [
            &["payment", "error_message", "retry_count", "failed_at"][..],
            &["error_code", "error_message"],
            &["service", "host", "attempts", "error"],
            &["original_topic", "tenant"],
            &["consumer_group", "consumer_id", "attempts"],
        ] {
            assert_eq!(left(names, true), names);
            assert_eq!(left(names, false), names);
        }
    }

    #[test]
    fn a_plain_word_that_the_producer_wrote_stays() {
        let names = ["order", "reason", "error_message", "original_stream", "attempts"];
        assert_eq!(left(&names, true), ["order", "reason"]);
    }
}
