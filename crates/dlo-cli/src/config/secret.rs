//! Text that is never shown: tokens, and database addresses that hold a password.

/// A secret. `Debug` and `Display` show that it is set, not what it is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

/// A database address with its password and query left out, for people.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let shown = match authority.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or("")),
        None => authority.to_string(),
    };
    if scheme.is_empty() { "the database".to_string() } else { format!("{scheme}://{shown}/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "<secret>");
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        assert_eq!(
            without_password("postgres://dlo:hunter2@db:5432/office?x=1"),
            "postgres://dlo@db:5432/office"
        );
        assert_eq!(without_password("postgres://db/office"), "postgres://db/office");
        assert_eq!(without_password("host=db password=hunter2"), "the database");
        assert_eq!(without_password("postgres://u:p@ss@db/x"), "postgres://u@db/x");
    }
}
