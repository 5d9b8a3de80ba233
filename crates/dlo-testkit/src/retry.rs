//! A test that may be run a second time says so itself, with the reason.
//!
//! `./test` runs a failed test again only if it declares this, at most three in a run, and its summary names each one. A
//! test about loss, duplication or order never declares it: such a failure is a defect even if it is rare.

/// Declares that this test may be run again when it fails, because of something that is not ours.
#[expect(clippy::print_stdout, reason = "the runner reads it in the output of a failed test")]
pub fn allowed(reason: &str) {
    println!("test-retry-allowed: {reason}");
}
