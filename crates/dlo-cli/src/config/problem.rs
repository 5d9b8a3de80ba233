//! What is wrong with a config file, said so that it can be mended: where, what was found, what was expected.
//!
//! All problems of a file are collected and told at once, in the order of their lines.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Counted from one; `None` where the problem is about what is not there.
    pub(crate) line: Option<usize>,
    /// What is wrong, expected and near, in one sentence.
    pub(crate) what: String,
}

/// Everything that is wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problems {
    pub(crate) file: String,
    pub(crate) list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match problem.line {
                Some(line) => write!(f, "{}, line {line}: {}", self.file, problem.what)?,
                None => write!(f, "{}: {}", self.file, problem.what)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The known name that was probably meant, if any is near enough.
pub(crate) fn near<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let found = found.to_lowercase();
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&found, name), *name))
        .filter(|(distance, name)| *distance <= 2.max(name.chars().count() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_found_and_a_far_one_is_not() {
        assert_eq!(near("lsiten", &["listen", "data"]), Some("listen"));
        assert_eq!(near("Listen", &["listen", "data"]), Some("listen"));
        assert_eq!(near("colour", &["listen", "data"]), None);
    }
}
