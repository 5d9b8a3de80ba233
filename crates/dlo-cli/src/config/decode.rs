//! A section read through a type of another crate: rules and brokers know their own settings.
//!
//! Variables are filled in first, value by value. What serde then refuses is told with the best line there is: that of
//! the key or value which the refusal names.

use serde::de::DeserializeOwned;
use toml::Value as Plain;
use toml_edit::{Item, TableLike, Value};

use super::expand::expand;
use super::problem::near;
use super::reader::Section;

/// How deep tables may lie in each other.
const DEEPEST: usize = 16;

impl Section<'_> {
    /// The whole section as a `T`, but for the keys in `besides`, which are read otherwise; `None` after noting what is
    /// wrong.
    pub(crate) fn decode<T: DeserializeOwned>(&self, besides: &[&str]) -> Option<T> {
        let table = self.table()?;
        let mut value = self.plain_table(table, DEEPEST)?;
        if let Plain::Table(settings) = &mut value {
            settings.retain(|key, _| !besides.contains(&key));
        }
        match T::deserialize(value) {
            Ok(decoded) => Some(decoded),
            Err(refusal) => {
                self.refused(table, refusal.message(), besides);
                None
            }
        }
    }

    fn plain_table(&self, table: &dyn TableLike, deep: usize) -> Option<Plain> {
        let mut plain = toml::Table::new();
        for (key, item) in table.iter() {
            let value = match item {
                Item::Value(value) => self.plain_value(key, value, deep)?,
                Item::Table(inner) => self.plain_table(inner, deep.checked_sub(1)?)?,
                Item::ArrayOfTables(list) => {
                    let tables = list.iter().map(|inner| self.plain_table(inner, deep.checked_sub(1)?));
                    Plain::Array(tables.collect::<Option<_>>()?)
                }
                Item::None => continue,
            };
            plain.insert(key.to_string(), value);
        }
        Some(Plain::Table(plain))
    }

    fn plain_value(&self, key: &str, value: &Value, deep: usize) -> Option<Plain> {
        Some(match value {
            Value::String(text) => match expand(text.value(), self.reader.env) {
                Ok(text) => Plain::String(text),
                Err(bad) => {
                    let line = self.reader.line(value.span());
                    self.reader.problem(line, format!("`{}`: {bad}", self.path_of(key)));
                    return None;
                }
            },
            Value::Integer(number) => Plain::Integer(*number.value()),
            Value::Float(number) => Plain::Float(*number.value()),
            Value::Boolean(flag) => Plain::Boolean(*flag.value()),
            Value::Datetime(moment) => Plain::Datetime(*moment.value()),
            Value::Array(list) => {
                let values = list.iter().map(|inner| self.plain_value(key, inner, deep.checked_sub(1)?));
                Plain::Array(values.collect::<Option<_>>()?)
            }
            Value::InlineTable(inner) => self.plain_table(inner, deep.checked_sub(1)?)?,
        })
    }

    /// Notes a refusal at the line of what it names in backquotes.
    fn refused(&self, table: &dyn TableLike, message: &str, besides: &[&str]) {
        let message = message.trim().replace('\n', " ");
        let named: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let line = named
            .first()
            .and_then(|name| find(table, name, DEEPEST))
            .map_or(self.line(), |at| self.reader.line(Some(at)));
        let path = self.path_of("").trim_end_matches('.').to_string();
        let what = match (message.strip_prefix("unknown field `"), named.split_first()) {
            (Some(_), Some((found, known))) => {
                let known = [besides, known].concat();
                match near(found, &known) {
                    Some(meant) => format!("`{path}.{found}` is not a setting; did you mean `{meant}`?"),
                    None => format!("`{path}.{found}` is not a setting; known here: {}", known.join(", ")),
                }
            }
            _ => format!("`{path}`: {message}"),
        };
        self.reader.problem(line, what);
    }
}

/// Where a key of that name stands, or a text of that value, in the table or below it.
fn find(table: &dyn TableLike, name: &str, deep: usize) -> Option<std::ops::Range<usize>> {
    let deeper = deep.checked_sub(1)?;
    table.iter().find_map(|(key, item)| {
        if key == name {
            return table.get_key_value(key).and_then(|(key, _)| key.span());
        }
        match item {
            Item::Value(Value::String(text)) if text.value() == name => item.span(),
            _ => item.as_table_like().and_then(|inner| find(inner, name, deeper)),
        }
    })
}
