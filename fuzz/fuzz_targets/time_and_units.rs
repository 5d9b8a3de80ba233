//! Times, durations and sizes: what is understood is written back as the same.
#![no_main]

use dlo_core::time::Timestamp;
use dlo_core::units::{ByteSize, HumanDuration};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(time) = Timestamp::parse(text) {
        assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
    }
    let _ = text.parse::<HumanDuration>();
    let _ = text.parse::<ByteSize>();
});
