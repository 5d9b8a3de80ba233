//! A TOML document read key by key: what is asked for is known, what is left over is a typo.
//!
//! A [`Section`] remembers every name it was asked for. [`Section::check`] then refuses the others with the line, the
//! dotted path and the near name. Values that do not fit are noted as problems and read as absent, so that one run
//! tells everything that is wrong. The kinds of values live in `values.rs`.

use std::cell::RefCell;
use std::ops::Range;

use toml_edit::{Item, Key, TableLike, Value};

use super::expand::Lookup;
use super::problem::{Problem, near};

/// The document, and what was found wrong with it so far.
pub(crate) struct Reader<'d> {
    text: &'d str,
    pub(super) env: Lookup<'d>,
    problems: RefCell<Vec<Problem>>,
}

impl<'d> Reader<'d> {
    pub(crate) fn new(text: &'d str, env: Lookup<'d>) -> Self {
        Self { text, env, problems: RefCell::default() }
    }

    /// The line of a place in the text, counted from one.
    pub(crate) fn line(&self, at: Option<Range<usize>>) -> Option<usize> {
        let end = at?.start.min(self.text.len());
        Some(1 + self.text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count())
    }

    pub(crate) fn problem(&self, line: Option<usize>, what: impl Into<String>) {
        self.problems.borrow_mut().push(Problem { line, what: what.into() });
    }

    /// Everything found wrong, by line.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut list = self.problems.into_inner();
        list.sort_by_key(|problem| problem.line);
        list
    }
}

/// One table, at one path.
pub(crate) struct Section<'r> {
    pub(super) reader: &'r Reader<'r>,
    path: String,
    table: Option<&'r dyn TableLike>,
    line: Option<usize>,
    known: RefCell<Vec<&'static str>>,
}

/// One value that is there: where it stands, and what it is.
pub(super) struct Found<'r> {
    pub(super) path: String,
    pub(super) line: Option<usize>,
    pub(super) value: &'r Value,
}

impl<'r> Section<'r> {
    /// The whole document.
    pub(crate) fn root(reader: &'r Reader<'r>, table: &'r dyn TableLike) -> Self {
        Self::at(reader, String::new(), Some(table), None)
    }

    fn at(
        reader: &'r Reader<'r>,
        path: String,
        table: Option<&'r dyn TableLike>,
        line: Option<usize>,
    ) -> Self {
        Self { reader, path, table, line, known: RefCell::default() }
    }

    /// Where the table begins; `None` if it is not in the file.
    pub(crate) fn line(&self) -> Option<usize> {
        self.line
    }

    pub(crate) fn is_there(&self) -> bool {
        self.table.is_some()
    }

    pub(super) fn table(&self) -> Option<&'r dyn TableLike> {
        self.table
    }

    /// The dotted path of a key here: `server.listen`.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }

    /// Notes a problem with a key of this section, at its line if it is there.
    pub(crate) fn problem(&self, key: &str, what: impl AsRef<str>) {
        let line = self.entry(key).map_or(self.line, |(name, _)| self.reader.line(name.span()));
        self.reader.problem(line, format!("`{}` {}", self.path_of(key), what.as_ref()));
    }

    fn entry(&self, key: &str) -> Option<(&'r Key, &'r Item)> {
        self.table.and_then(|table| table.get_key_value(key))
    }

    /// The value under a key, which from now on is known here.
    pub(super) fn value(&self, key: &'static str) -> Option<Found<'r>> {
        self.known.borrow_mut().push(key);
        let (name, item) = self.entry(key)?;
        match item {
            Item::Value(value) => {
                Some(Found { path: self.path_of(key), line: self.reader.line(name.span()), value })
            }
            Item::Table(_) | Item::ArrayOfTables(_) | Item::None => {
                self.problem(key, "is a value, not a section; write it as `key = value`");
                None
            }
        }
    }

    /// A table under a key: `[server.limits]`, or the same inline. Empty if it is not there.
    pub(crate) fn section(&self, key: &'static str) -> Section<'r> {
        self.known.borrow_mut().push(key);
        let path = self.path_of(key);
        let Some((name, item)) = self.entry(key) else { return Self::at(self.reader, path, None, None) };
        let line = self.reader.line(name.span());
        let table = item.as_table_like();
        if table.is_none() {
            self.problem(key, format!("is a section; write `[{path}]` and its settings below"));
        }
        Self::at(self.reader, path, table, line)
    }

    /// A list of tables under a key: `[[sources]]`, or an array of inline tables.
    pub(crate) fn sections(&self, key: &'static str) -> Vec<Section<'r>> {
        self.known.borrow_mut().push(key);
        let path = self.path_of(key);
        let Some((name, item)) = self.entry(key) else { return Vec::new() };
        let mut tables: Vec<(&'r dyn TableLike, Option<Range<usize>>)> = Vec::new();
        match item {
            Item::ArrayOfTables(list) => {
                tables.extend(list.iter().map(|table| (table as &'r dyn TableLike, table.span())));
            }
            Item::Value(Value::Array(list)) if list.iter().all(Value::is_inline_table) => {
                let inline = list.iter().filter_map(Value::as_inline_table);
                tables.extend(inline.map(|table| (table as &'r dyn TableLike, table.span())));
            }
            Item::Value(_) | Item::Table(_) | Item::None => {
                let line = self.reader.line(name.span());
                self.reader.problem(
                    line,
                    format!("`{path}` is a list; write `[[{path}]]` before each of its entries"),
                );
            }
        }
        let numbered = tables.into_iter().enumerate();
        numbered
            .map(|(index, (table, span))| {
                let line = self.reader.line(span);
                Self::at(self.reader, format!("{path}[{}]", index + 1), Some(table), line)
            })
            .collect()
    }

    /// Tables under names that the user chose: `[brokers.shop]`.
    pub(crate) fn named(&self, key: &'static str) -> Vec<(String, Section<'r>)> {
        let outer = self.section(key);
        let Some(table) = outer.table else { return Vec::new() };
        let mut found = Vec::new();
        for (name, item) in table.iter() {
            let line = outer.entry(name).and_then(|(key, _)| self.reader.line(key.span()));
            match item.as_table_like() {
                Some(inner) => {
                    let path = outer.path_of(name);
                    found.push((name.to_string(), Self::at(self.reader, path, Some(inner), line)));
                }
                None => outer
                    .problem(name, format!("is a section; write `[{key}.{name}]` and its settings below")),
            }
        }
        found
    }

    /// Every key and value in the order of the file, for tables whose keys the user chose.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.table.map_or_else(Vec::new, |table| table.iter().map(|(key, _)| key.to_string()).collect())
    }

    /// Notes a problem with the section as a whole.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.reader.problem(self.line, what);
    }

    /// Refuses every key that nobody asked for. Called when all are read.
    pub(crate) fn check(&self) {
        let Some(table) = self.table else { return };
        let known = self.known.borrow();
        for (key, _) in table.iter().filter(|(key, _)| !known.contains(key)) {
            let shown: String = key.chars().take(64).collect();
            let what = match near(&shown, &known) {
                Some(meant) => format!("is not a setting; did you mean `{meant}`?"),
                None => format!("is not a setting; known here: {}", known.join(", ")),
            };
            self.problem(key, what);
        }
    }
}
