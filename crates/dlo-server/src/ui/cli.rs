//! The command line and the HTTP request that do what the page does, ready to be copied.

/// One word of a shell command: quoted where the shell would read it differently.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_string();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A shell command from its words.
pub(crate) fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_meant() {
        assert_eq!(line(["dlo", "replay", "plan", "source:orders"]), "dlo replay plan source:orders");
        assert_eq!(quoted("it's $HOME `x`"), r"'it'\''s $HOME `x`'");
        assert_eq!([quoted(""), quoted("a b")], ["''", "'a b'"]);
    }
}
