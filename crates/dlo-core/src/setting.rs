//! A setting that cannot be used: which one, what was expected, what was found.
//!
//! The door where config is read puts file and line in front of it.

/// One wrong value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {problem}")]
pub struct SettingError {
    pub field: &'static str,
    pub problem: String,
}

impl SettingError {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}
