//! Error message → template: bounded, one line, and its own template.
#![no_main]

use dlo_core::fingerprint::template;
use dlo_core::limits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &str| {
    let once = template(message);
    assert!(once.len() <= limits::TEMPLATE && !once.contains('\n'));
    assert_eq!(template(&once), once);
});
