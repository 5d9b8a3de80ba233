//! The rules of the scanner at their edges: what is told from what, and how a template that is too long is cut.

use super::*;

/// Room for a template that has to be cut.
const ROOM: usize = limits::TEMPLATE - CUT.len();

#[track_caller]
fn check(table: &[(&str, &str)]) {
    for (message, expected) in table {
        assert_eq!(template(message), *expected, "of {message:?}");
    }
}

#[test]
fn a_traceback_is_its_last_line_that_says_something() {
    let frames = "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n";
    for behind in ["", "\n", "\n\n", "\n  a note", "\n\tanother\n \n"] {
        assert_eq!(template(&format!("{frames}KeyError: 42{behind}")), "KeyError: <num>", "{behind:?}");
    }
}

#[test]
fn the_first_line_is_never_a_frame() {
    check(&[("Caused by: 42", "Caused by: <num>"), ("failed 42\n  at f (x.js:1)", "failed <num>")]);
}

#[test]
fn an_address_of_the_web_ends_where_its_sentence_goes_on() {
    check(&[
        ("GET http://a/b?c=5 failed", "GET <url> failed"),
        ("GET (http://a/b) failed", "GET (<url>) failed"),
        ("GET http://a/b\u{1}failed", "GET <url> failed"),
        ("see the http://a/b.", "see the <url>."),
    ]);
}

#[test]
fn what_has_no_scheme_or_no_host_is_no_address_of_the_web() {
    check(&[
        ("a://b", "a://b"),
        ("x_y://b", "x_y://b"),
        ("http://", "http://"),
        ("see the http:// x", "see the http:// x"),
        ("http://a<num>", "http://a<num>"),
    ]);
}

#[test]
fn an_id_without_digits_in_front_is_told_from_a_word() {
    check(&[
        ("deadbeef-e29b-41d4-a716-446655440000", "<uuid>"),
        ("deadbeef::1", "deadbeef::<num>"),
        ("0x", "<num>x"),
    ]);
}

#[test]
fn behind_a_quoted_text_nothing_begins_that_needs_a_beginning() {
    check(&[("\"x\"2026-11-01", "<str><num>-<num>-<num>"), ("\"x\" 2026-11-01", "<str> <time>")]);
}

#[test]
fn each_quote_closes_its_own_kind() {
    check(&[
        ("` said \"x\" and 'y'", "` said <str> and <str>"),
        ("' said \"x\"", "' said <str>"),
        ("\" said `x`", "\" said <str>"),
        (r#""a\"b" c"#, "<str> c"),
        (r#""a\\" c"#, "<str> c"),
        ("\"a\"b c\"", "<str>b c\""),
    ]);
}

#[test]
fn an_apostrophe_opens_and_closes_nothing() {
    check(&[("the cat's dogs' tails", "the cat's dogs' tails"), ("'don't do it' 5", "<str> <num>")]);
}

#[test]
fn a_number_is_a_code_only_behind_its_word() {
    check(&[
        ("5 404", "<num> <num>"),
        ("status 404", "status 404"),
        ("status 'x' 404", "status <str> <num>"),
        ("status 5 404", "status <num> 404"),
    ]);
}

#[test]
fn a_word_that_fills_the_room_stays_and_one_more_letter_cuts_it() {
    assert_eq!(template(&"a".repeat(ROOM)), "a".repeat(ROOM));
    assert_eq!(template(&"a".repeat(ROOM + 1)), format!("{}<cut>", "a".repeat(ROOM - 1)));
    let behind = format!("ab {}", "c".repeat(ROOM - 2));
    assert_eq!(template(&behind), format!("ab {}<cut>", "c".repeat(ROOM - 3)));
}

#[test]
fn a_word_is_kept_in_part_only_if_it_is_longer_than_words_are() {
    let front = ["ab"; 150].join(" ");
    let cut = |letters| template(&format!("{front} {}", "c".repeat(letters)));
    assert_eq!(cut(64), format!("{front}<cut>"));
    assert_eq!(cut(65), format!("{front} {}<cut>", "c".repeat(ROOM - front.len() - 1)));
    assert_eq!(template(&format!("{} 5", "d".repeat(65))), format!("{} <num>", "d".repeat(65)));
}
