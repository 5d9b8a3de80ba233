//! Records in, book out: what is merged, what is judged, and that the same records give the same bytes.

use super::super::bars::{self, Bars};
use super::{Book, Verdict};

const BARS: &str = r#"
[[figure]]
id = "redrive.shovel"
workload = "W4"
words = "redrive, to the shovel"
unit = "x"
better = "more"
bar = 0.9
goal = 1.1
from = "suite"

[[figure]]
id = "screens"
workload = "W10"
words = "the slowest screen"
unit = "ms"
better = "less"
bar = 50
from = "page"

[[figure]]
id = "growth.list"
workload = "W11"
words = "a list, at the largest store to the smallest"
unit = "x"
better = "less"
bar = 2
from = "growth"
curve = { name = "list", take = "ends" }

[[curve]]
name = "list"
words = "newest 50"
unit = "ms"
"#;

fn run(at: &str) -> String {
    format!(
        r#"{{"kind":"run","at":"{at}","asked":"W4","commit":"abc","cores":2,"memory_mb":7900,"kernel":"6.1","load":"0.10","versions":{{"Redis":"7.0.15"}}}}"#
    )
}

fn shovel(median: f64) -> String {
    format!(
        r#"{{"kind":"figure","id":"redrive.shovel","workload":"W4","words":"redrive, to the shovel","unit":"x","median":{median},"low":0.5,"high":1.5,"rounds":5}}"#
    )
}

fn book(records: &[(&str, &[String])]) -> Book {
    let bars = Bars::read(BARS).expect("bars");
    let records: Vec<(String, String)> = records
        .iter()
        .map(|(at, lines)| (format!("{at}.jsonl"), [&[run(at)][..], *lines].concat().join("\n")))
        .collect();
    Book::of(&bars, &records, None).expect("a book")
}

fn verdict(book: &Book, id: &str) -> Verdict {
    book.figures.iter().find(|row| row.id == id).expect("a row").verdict
}

fn file<'a>(files: &'a [(String, String)], name: &str) -> &'a str {
    &files.iter().find(|(file, _)| file == name).expect("the file").1
}

#[test]
fn the_bars_of_this_repository_are_readable_and_name_every_workload() {
    let workloads: std::collections::BTreeSet<&str> =
        bars::all().figure.iter().map(|entry| entry.workload.as_str()).collect();
    assert_eq!(workloads.len(), 12, "{workloads:?}");
    for entry in &bars::all().figure {
        let drawn = |name: &str| bars::all().curve.iter().any(|curve| curve.name == name);
        assert!(
            entry.curve.as_ref().is_none_or(|curve| drawn(&curve.name)),
            "{} has no such curve",
            entry.id
        );
    }
}

#[test]
fn a_figure_that_stands_twice_in_the_bars_is_refused() {
    let twice = BARS.replace("\"screens\"", "\"redrive.shovel\"");
    assert!(Bars::read(&twice).is_err_and(|why| why.contains("twice")));
}

#[test]
fn the_newest_record_of_a_figure_wins_whatever_order_they_come_in() {
    let (old, new) = ([shovel(0.8)], [shovel(1.0)]);
    let one = book(&[("2026-01-01T00:00:00Z", &old), ("2026-01-02T00:00:00Z", &new)]);
    let other = book(&[("2026-01-02T00:00:00Z", &new), ("2026-01-01T00:00:00Z", &old)]);
    assert_eq!(verdict(&one, "redrive.shovel"), Verdict::Passed);
    assert_eq!(one.files(), other.files());
    assert_eq!(one.runs.len(), 1, "a run of which nothing is shown is not named");
}

#[test]
fn a_figure_is_held_against_its_bar_and_what_was_not_measured_is_said() {
    let book = book(&[("2026-01-01T00:00:00Z", &[shovel(0.8)])]);
    assert_eq!(verdict(&book, "redrive.shovel"), Verdict::NotPassed);
    assert_eq!(verdict(&book, "screens"), Verdict::NotMeasured);
    let files = book.files();
    let page = file(&files, "README.md");
    assert!(
        page.contains(
            "| W4 | redrive, to the shovel | 0.8x (0.5 to 1.5) | ≥ 0.9x | ≥ 1.1x | **not passed** |"
        ),
        "{page}"
    );
    assert!(page.contains("| W10 | the slowest screen | – | ≤ 50 ms | – | not measured |"), "{page}");
}

#[test]
fn a_figure_of_growth_is_taken_from_its_curve_in_one_record() {
    let point = |x: u64, y: f64| format!(r#"{{"kind":"point","curve":"list","x":{x},"y":{y}}}"#);
    let old = [point(10_000, 1.0), point(10_000_000, 9.0)];
    let new = [point(10_000, 1.0), point(1_000_000, 1.5)];
    let book = book(&[("2026-01-01T00:00:00Z", &old), ("2026-01-02T00:00:00Z", &new)]);
    assert_eq!(verdict(&book, "growth.list"), Verdict::Passed);
    let files = book.files();
    let picture = file(&files, "growth-list.svg");
    assert!(picture.contains("newest 50, ms") && picture.contains(">1.5 ms<"), "{picture}");
    assert!(!picture.contains(">9 ms<"), "points of two records are not joined");
}

#[test]
fn parts_without_their_figure_do_not_replace_an_older_whole() {
    let part = |value: f64| {
        format!(r#"{{"kind":"part","id":"screens","part":"Overview","unit":"ms","value":{value}}}"#)
    };
    let whole = r#"{"kind":"figure","id":"screens","workload":"W10","words":"the slowest screen","unit":"ms","median":7,"low":7,"high":7,"rounds":1}"#;
    let old = [part(7.0), whole.to_owned()];
    let book = book(&[("2026-01-01T00:00:00Z", &old), ("2026-01-02T00:00:00Z", &[part(99.0)])]);
    let row = book.figures.iter().find(|row| row.id == "screens").expect("a row");
    assert_eq!((row.parts["Overview"], row.run.as_deref()), (7.0, Some("2026-01-01T00:00:00Z")));
}

#[test]
fn what_could_not_be_measured_is_null_and_neither_passed_nor_drawn() {
    let lines = [shovel(1.0).replace("\"median\":1", "\"median\":null")];
    let book = book(&[("2026-01-01T00:00:00Z", &lines)]);
    assert_eq!(verdict(&book, "redrive.shovel"), Verdict::NotMeasured);
    assert!(!book.files().iter().any(|(name, _)| name == "bars.svg"), "there is nothing to draw");
}

#[test]
fn runners_stand_beside_each_other_with_what_they_took() {
    let median = r#"{"median":12345.6,"low":12000,"high":13000,"rounds":5}"#;
    let line = format!(
        r#"{{"kind":"runner","workload":"W4","contest":"RabbitMQ","name":"a | b","rate":{median},"client_us":null,"server_us":null,"peak_mb":{median}}}"#
    );
    let book = book(&[("2026-01-01T00:00:00Z", &[line])]);
    let files = book.files();
    let page = file(&files, "README.md");
    assert!(page.contains("### W4: RabbitMQ"), "{page}");
    assert!(page.contains(r"| a \| b | 12,300 (12,000 to 13,000) | – | – | 12,300 MB |"), "{page}");
}

#[test]
fn what_was_measured_before_and_not_anew_stays_in_the_book() {
    let bars = Bars::read(BARS).expect("bars");
    let again = |records: &[(String, String)], former: &Book| {
        let files = former.files();
        Book::of(&bars, records, Some(("results.json", file(&files, "results.json")))).expect("a book")
    };
    let screens = r#"{"kind":"part","id":"screens","part":"Overview","unit":"ms","value":7}
{"kind":"part","id":"screens","part":"Audit","unit":"ms","value":null}
{"kind":"figure","id":"screens","workload":"W10","words":"the slowest screen","unit":"ms","median":7,"low":7,"high":7,"rounds":1}
{"kind":"point","curve":"list","x":10,"y":1}
{"kind":"point","curve":"list","x":20,"y":1.5}
{"kind":"runner","workload":"W4","contest":"RabbitMQ","name":"a","rate":{"median":1,"low":1,"high":1,"rounds":5},"client_us":null,"server_us":null,"peak_mb":null}"#;
    let first = book(&[("2026-01-01T00:00:00Z", &[shovel(0.8), screens.to_owned()])]);
    assert_eq!(again(&[], &first).files(), first.files(), "a book alone is the same book");

    let record = format!("{}\n{}", run("2026-01-02T00:00:00Z"), shovel(1.0));
    let second = again(&[("x.jsonl".to_owned(), record)], &first);
    assert_eq!(verdict(&second, "redrive.shovel"), Verdict::Passed, "the new one counts");
    assert_eq!(verdict(&second, "screens"), Verdict::Passed);
    assert_eq!((second.contests.len(), second.curves.len(), second.runs.len()), (1, 1, 2));
}

#[test]
fn a_book_that_cannot_be_read_is_named_with_the_way_out() {
    let bars = Bars::read(BARS).expect("bars");
    let why = Book::of(&bars, &[], Some(("docs/bench/results.json", "{"))).expect_err("no book");
    assert!(why.contains("docs/bench/results.json") && why.contains("remove it"), "{why}");
}

#[test]
fn a_record_that_says_nothing_of_its_machine_is_refused_with_its_name() {
    let bars = Bars::read(BARS).expect("bars");
    let why = Book::of(&bars, &[("x.jsonl".to_owned(), shovel(1.0))], None).expect_err("no machine");
    assert!(why.contains("x.jsonl") && why.contains("bench/run"), "{why}");
}

#[test]
fn pictures_are_plain_svg_without_scripts_and_text_in_them_is_escaped() {
    let bars = Bars::read(&BARS.replace("redrive, to the shovel", "a <b> & c")).expect("bars");
    let records = [("x.jsonl".to_owned(), format!("{}\n{}", run("2026-01-01T00:00:00Z"), shovel(1.0)))];
    let files = Book::of(&bars, &records, None).expect("a book").files();
    let picture = file(&files, "bars.svg");
    assert!(picture.contains("a &lt;b&gt; &amp; c") && !picture.contains("<script"), "{picture}");
    assert!(picture.contains("prefers-color-scheme: dark"));
}
