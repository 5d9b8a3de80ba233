//! Reads what a test binary, or Node's test runner, printed: counts, failed tests and what they said.
//!
//! A test may declare that it can be run a second time: it prints [`RETRY_ALLOWED`] and the reason. Nothing else in the
//! output allows a retry.

/// What `dlo_testkit::retry::allowed` prints before the reason.
pub(crate) const RETRY_ALLOWED: &str = "test-retry-allowed: ";

/// The outcome of one test binary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<Failure>,
    /// The binary printed its result line; without it, it died on the way.
    pub(crate) finished: bool,
}

/// A test that failed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) test: String,
    /// Everything that the test printed.
    pub(crate) output: String,
}

impl Failure {
    /// Why this test may be run again, if the test says so.
    pub(crate) fn retry_reason(&self) -> Option<&str> {
        self.output.lines().find_map(|line| line.trim_start_matches(['#', ' ']).strip_prefix(RETRY_ALLOWED))
    }
}

/// Reads the output of Rust's test harness.
pub(crate) fn parse(output: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut block: Option<Failure> = None;
    let mut failed: Vec<String> = Vec::new();
    let mut in_list = false;
    for line in output.lines() {
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            outcome.failures.extend(block.replace(Failure { test: test.to_owned(), output: String::new() }));
            in_list = false;
        } else if line == "failures:" || line == "successes:" {
            outcome.failures.extend(block.take());
            // The names of passed tests are listed too, with their output.
            in_list = line == "failures:";
            failed.clear();
        } else if let Some(result) = line.strip_prefix("test result: ") {
            outcome.failures.extend(block.take());
            outcome.finished = true;
            outcome.passed += count_before(result, " passed");
        } else if let Some(block) = &mut block {
            block.output.push_str(line);
            block.output.push('\n');
        } else if in_list && let Some(test) = line.strip_prefix("    ").filter(|name| !name.contains(' ')) {
            failed.push(test.to_owned());
        }
    }
    keep_only(&mut outcome.failures, &failed);
    outcome
}

/// `--show-output` prints the blocks of tests that passed too. The last list names the failed tests.
fn keep_only(blocks: &mut Vec<Failure>, failed: &[String]) {
    let mut kept: Vec<Failure> = Vec::new();
    for test in failed {
        let block = blocks.iter().find(|block| block.test == *test).cloned();
        kept.push(block.unwrap_or_else(|| Failure { test: test.clone(), output: String::new() }));
    }
    *blocks = kept;
}

fn count_before(text: &str, word: &str) -> usize {
    let end = text.find(word).unwrap_or(0);
    text[..end].rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Reads the output of Node's test runner (TAP).
pub(crate) fn parse_tap(output: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut last: Option<Failure> = None;
    for line in output.lines() {
        if let Some(test) = line.strip_prefix("not ok ") {
            outcome.failures.extend(last.take());
            let name = test.split_once(" - ").map_or(test, |(_, name)| name);
            last = Some(Failure { test: name.to_owned(), output: String::new() });
        } else if line.starts_with("ok ") {
            outcome.failures.extend(last.take());
        } else if let Some(passed) = line.strip_prefix("# pass ") {
            outcome.finished = true;
            outcome.passed = passed.trim().parse().unwrap_or(0);
        } else if let Some(last) = &mut last {
            last.output.push_str(line);
            last.output.push('\n');
        }
    }
    outcome.failures.extend(last);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "running 3 tests\n\
        test a::passes ... ok\n\
        test b::fails ... FAILED\n\
        \nsuccesses:\n\n---- a::passes stdout ----\ntest-retry-allowed: not this one\n\n\nsuccesses:\n    a::passes\n\
        \nfailures:\n\n---- b::fails stdout ----\n\
        test-retry-allowed: the emulator drops a connection now and then\n\
        thread 'b::fails' panicked at x.rs:1:1:\nexpected 3 deliveries, 2 came\n\n\
        \nfailures:\n    b::fails\n\n\
        test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

    #[test]
    fn a_failed_test_is_named_with_its_output_and_its_reason_for_a_retry() {
        let outcome = parse(FAILED);
        assert_eq!((outcome.passed, outcome.failures.len(), outcome.finished), (2, 1, true));
        let failure = &outcome.failures[0];
        assert_eq!(failure.test, "b::fails");
        assert!(failure.output.contains("expected 3 deliveries, 2 came"), "{}", failure.output);
        assert_eq!(failure.retry_reason(), Some("the emulator drops a connection now and then"));
    }

    #[test]
    fn a_failed_test_that_declares_nothing_is_not_retried_whatever_it_says() {
        let output = FAILED.replace("test-retry-allowed", "please retry");
        assert_eq!(parse(&output).failures[0].retry_reason(), None);
    }

    #[test]
    fn the_output_of_tests_that_passed_is_no_failure() {
        let output = "running 1 test\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\n2,000 letters\n\n\n\
            successes:\n    a\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(parse(output), Outcome { passed: 1, failures: Vec::new(), finished: true });
    }

    #[test]
    fn a_binary_that_dies_on_the_way_has_not_finished() {
        let output = "running 2 tests\ntest a ... ok\nfatal runtime error: stack overflow\n";
        assert_eq!(parse(output), Outcome::default());
    }

    #[test]
    fn passed_tests_are_counted_over_all_result_lines() {
        let line =
            "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!(parse(&line.repeat(2)).passed, 14);
    }

    #[test]
    fn nodes_runner_is_read_too() {
        let output = "TAP version 13\nok 1 - a\nnot ok 2 - the page opens\n  ---\n  error: 'no heading'\n  ...\n\
            # test-retry-allowed: Chromium starts slowly\nok 3 - c\n# tests 3\n# pass 2\n# fail 1\n";
        let outcome = parse_tap(output);
        assert_eq!((outcome.passed, outcome.finished), (2, true));
        assert_eq!(outcome.failures[0].test, "the page opens");
        assert_eq!(outcome.failures[0].retry_reason(), Some("Chromium starts slowly"));
    }
}
