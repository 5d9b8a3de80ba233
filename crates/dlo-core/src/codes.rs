//! Closed vocabularies: enums that are stored, searched, shown and sent.
//!
//! `coded!` writes, for one enum, the two spellings it has everywhere: a snake_case word for people and
//! wires, and a small number for databases. Numbers are given by hand and never reused; a word is never
//! changed. Reading an unknown word names the known ones, so that a typo gives directions.

/// A word that is not in its vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{found}`, expected one of {expected}")]
pub struct UnknownCode {
    /// Which vocabulary was asked, e.g. `status`.
    pub what: &'static str,
    /// The word as it came, cut to 64 characters.
    pub found: String,
    /// The known words, comma separated.
    pub expected: String,
}

impl UnknownCode {
    pub(crate) fn new(what: &'static str, found: &str, known: &[&str]) -> Self {
        Self { what, found: found.chars().take(64).collect(), expected: known.join(", ") }
    }
}

macro_rules! coded {
    (
        $(#[$outer:meta])*
        pub enum $name:ident as $what:literal {
            $( $(#[$inner:meta])* $variant:ident = $number:literal => $word:literal ),+ $(,)?
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$inner])* $variant = $number ),+ }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: &'static [Self] = &[ $( Self::$variant ),+ ];
            /// Every word, in the same order.
            pub const WORDS: &'static [&'static str] = &[ $( $word ),+ ];

            /// The word that people, wires and files use.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word ),+ }
            }

            /// The number that databases use.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The value of a stored number; `None` if a newer version wrote it.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $( $number => Some(Self::$variant), )+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::codes::UnknownCode;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    other => Err($crate::codes::UnknownCode::new($what, other, Self::WORDS)),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use coded;

#[cfg(test)]
mod tests {
    use crate::reason::Reason;

    #[test]
    fn a_word_and_a_number_come_back_as_the_value_they_came_from() {
        for value in Reason::ALL {
            assert_eq!(value.as_str().parse::<Reason>().as_ref(), Ok(value));
            assert_eq!(Reason::from_number(value.number()), Some(*value));
        }
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_known_ones() {
        let refusal = "timeuot".parse::<Reason>().unwrap_err().to_string();
        assert!(
            refusal.starts_with("unknown reason `timeuot`, expected one of max_retries_exceeded"),
            "{refusal}"
        );
    }
}
