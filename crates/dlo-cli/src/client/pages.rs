//! Lists that come in pages, read until there is enough; and fields of what they hold.

use dlo_core::time::Timestamp;
use serde_json::{Value, json};

use super::{Client, Query};
use crate::exit::{Failure, Outcome};
use crate::output::{ago, say};

/// Items of one page that the server gives at most.
const MOST: u64 = 500;

/// Which list to read.
#[derive(Debug)]
pub(crate) struct Pages<'a> {
    pub(crate) path: &'a str,
    /// The field of the answer that holds the items.
    pub(crate) list: &'a str,
    pub(crate) query: Query<'a>,
    pub(crate) cursor: Option<String>,
}

/// What was read, and where it would go on.
#[derive(Debug)]
pub(crate) struct Listed {
    list: String,
    pub(crate) items: Vec<Value>,
    pub(crate) next: Option<String>,
}

impl Pages<'_> {
    /// Reads pages until there are `limit` items or no more.
    pub(crate) fn up_to(mut self, client: &Client, limit: u64) -> Outcome<Listed> {
        let mut listed = Listed { list: self.list.to_string(), items: Vec::new(), next: None };
        loop {
            let left = limit.saturating_sub(listed.items.len() as u64);
            let (items, next) = self.next(client, left.min(MOST))?;
            listed.items.extend(items);
            let enough = listed.items.len() as u64 >= limit;
            if enough || next.is_none() {
                listed.next = next;
                return Ok(listed);
            }
        }
    }

    /// One page. A page may be empty and still have a next one.
    pub(crate) fn next(&mut self, client: &Client, limit: u64) -> Outcome<(Vec<Value>, Option<String>)> {
        let limit = limit.max(1).to_string();
        let mut query: Vec<(&str, &str)> = self.query.to_vec();
        query.push(("limit", &limit));
        if let Some(cursor) = &self.cursor {
            query.push(("cursor", cursor));
        }
        let mut answer = client.get(self.path, &query)?;
        if self.cursor.is_none() {
            let masked = answer.get("masked").and_then(Value::as_array);
            masked
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .for_each(|why| say(format!("{why}, so it finds nothing")));
        }
        let next = answer.get("next_cursor").and_then(Value::as_str).map(String::from);
        match answer.get_mut(self.list).map(Value::take) {
            Some(Value::Array(items)) => {
                self.cursor.clone_from(&next);
                Ok((items, next))
            }
            _ => Err(Failure::failed(format!(
                "{} did not answer with a list of {}",
                client.address(),
                self.list
            ))),
        }
    }
}

impl Listed {
    /// The pages as one answer of the API.
    pub(crate) fn whole(self) -> Value {
        json!({ self.list: self.items, "next_cursor": self.next })
    }

    /// Says that there is more, and how to get it.
    pub(crate) fn say_more(&self, what: &str) {
        if self.next.is_some() {
            say(format!("… the newest {} {what}; --limit shows more", self.items.len()));
        }
    }
}

/// A field as text; `-` if it is absent.
pub(crate) fn text_of(value: &Value, key: &str) -> String {
    match value.get(key) {
        None | Some(Value::Null) => "-".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A moment as its age; `-` if it is absent.
pub(crate) fn age_of(value: &Value, key: &str, now: Timestamp) -> String {
    let text = text_of(value, key);
    Timestamp::parse(&text).map_or(text, |then| ago(then, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_as_text_and_what_is_absent_as_a_dash() {
        let value = json!({"a": "x", "n": 3, "z": null});
        assert_eq!(["a", "n", "z", "b"].map(|key| text_of(&value, key)), ["x", "3", "-", "-"]);
    }
}
