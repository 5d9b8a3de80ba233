//! The search language: a query written as text means the same, and an error points into the text.
#![no_main]

use dlo_core::query::Query;
use dlo_core::time::Timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let now = Timestamp::from_millis(1_794_000_000_000);
    match Query::parse(text, now) {
        Ok(query) => {
            // Quotes and days make the written form longer, which may pass the bound.
            if let Ok(back) = Query::parse(&query.to_string(), now) {
                assert_eq!(back, query);
            }
        }
        Err(error) => {
            assert!(text.get(error.at.clone()).is_some());
            assert_eq!(error.pointing(text).lines().count(), 2);
        }
    }
});
