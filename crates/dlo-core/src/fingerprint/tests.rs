//! Templates of real messages, word for word, and what holds for the template of any text.

use proptest::prelude::*;

use super::*;
use crate::limits;

/// Pairs of lines: a message (`\n` and `\t` written as such), and its template behind an arrow.
#[test]
fn real_messages_have_the_templates_of_the_golden_file() {
    let golden = include_str!("../../tests/golden/templates.txt");
    let mut lines = golden.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let mut wrong = String::new();
    let mut seen = 0;
    while let (Some(message), Some(expected)) = (lines.next(), lines.next()) {
        let found = format!("→ {}", template(&message.replace("\\n", "\n").replace("\\t", "\t")));
        if found != expected {
            wrong.push_str(&format!("{message}\n{found}\n"));
        }
        seen += 1;
    }
    assert!(
        wrong.is_empty(),
        "these templates changed; existing groups would split, so raise VERSION:\n{wrong}"
    );
    assert!(seen >= 40, "only {seen} messages");
}

#[test]
fn a_template_is_bounded_and_says_that_it_was_cut() {
    for text in ["word ".repeat(2_000), "語".repeat(2_000), "<num> ".repeat(500), "1 ".repeat(10_000)] {
        let cut = template(&text);
        assert!(cut.len() <= limits::TEMPLATE && cut.len() > limits::TEMPLATE - 40, "{}", cut.len());
        assert!(cut.ends_with("<cut>"), "{cut}");
    }
}

/// What fuzzing found: it looked like the front of an address once the number behind it was gone.
#[test]
fn a_word_that_stays_is_not_the_front_of_an_address() {
    assert_eq!(template("b2b::5::ok"), "b2b::<num>::ok");
    assert_eq!(template("b2b::<num>::ok"), "b2b::<num>::ok");
    assert_eq!(template("http :220::5:6::m"), "http :220::<num>:<num>::m");
    assert_eq!(template("http :220::<num>:<num>::m"), "http :220::<num>:<num>::m");
}

/// Found by fuzzing: with no room left for a long word, a space was left where it would have stood.
#[test]
fn a_cut_leaves_no_space_in_front_of_its_mark() {
    for length in 480..=512 {
        let cut = template(&format!("{} {}", "a/".repeat(length / 2), "b".repeat(100)));
        assert!(cut.len() <= limits::TEMPLATE && !cut.contains(" <cut>"), "{cut}");
        assert_eq!(template(&cut), cut);
    }
}

#[test]
fn many_quotes_that_never_close_take_linear_time() {
    let text = "'a".repeat(1 << 20);
    assert!(template(&text).len() <= limits::TEMPLATE);
}

/// Text made of what the scanner looks for, so that its rules meet each other.
fn any_message() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        " ",
        "\n",
        "\t",
        "'",
        "\"",
        "`",
        "\\",
        "(",
        ")",
        ")=(",
        "[",
        "]",
        "<",
        ">",
        ",",
        ";",
        ":",
        "://",
        "=",
        "-",
        "+",
        ".",
        "/",
        "@",
        "?",
        "%",
        "_",
        "5",
        "42",
        "404",
        "503",
        "007",
        "a",
        "b",
        "code",
        "HTTP",
        "status",
        "worker12",
        "200ms",
        "utf8",
        "sha256",
        "0x7f3a",
        "1b2c3d4",
        "deadbeef",
        "550e8400-e29b-41d4-a716-446655440000",
        "2026-11-01",
        "T12:30:00Z",
        "12:30:00",
        "10.0.0.1",
        "fe80::1",
        "::",
        "b2b",
        "http://a/b?c=5",
        "ann@example.org",
        "/var/lib",
        "C:\\x",
        "<num>",
        "<str>",
        "<cut>",
        "<nu",
        "é",
        "語",
        "at ",
        "Traceback (most recent call last):",
        "File \"",
        "goroutine 1",
    ]);
    prop_oneof![
        4 => prop::collection::vec(part.clone(), 0..24).prop_map(|parts| parts.concat()),
        1 => prop::collection::vec(part, 150..400).prop_map(|parts| parts.concat()),
        1 => "(?s).{0,200}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_template_of_a_template_is_itself(message in any_message()) {
        let once = template(&message);
        prop_assert_eq!(&template(&once), &once, "of {:?}", message);
    }

    #[test]
    fn a_template_is_short_and_one_line(message in any_message()) {
        let found = template(&message);
        prop_assert!(found.len() <= limits::TEMPLATE);
        prop_assert!(!found.contains(['\n', '\t']) && !found.contains("  ") && found.trim_ascii() == found);
    }

    #[test]
    fn numbers_do_not_part_what_belongs_together(first in any::<u64>(), second in any::<u64>()) {
        let message = |number: u64| format!("order {number} of customer C-{number} failed after {number}ms");
        prop_assert_eq!(template(&message(first)), template(&message(second)));
    }
}
