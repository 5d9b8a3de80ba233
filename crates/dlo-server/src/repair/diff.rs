//! Before and after as a unified diff of lines, for people. Bounded in work: what is too long is shown as replaced.

use std::fmt::Write as _;

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// Pairs of lines that are compared; a longer middle is shown as taken out and put in.
const PAIRS: usize = 4_000_000;
/// Bytes of a diff; the rest is left out and said.
pub(super) const SHOWN: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Both(&'a str),
    Out(&'a str),
    In(&'a str),
}

/// The unified diff of two texts, without a head; empty where they are equal.
pub(super) fn unified(before: &str, after: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.split('\n').collect(), after.split('\n').collect());
    let front = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let (left, right) = (&before[front..], &after[front..]);
    let back = left.iter().rev().zip(right.iter().rev()).take_while(|(one, other)| one == other).count();
    let mut lines: Vec<Line<'_>> = before[..front].iter().map(|line| Line::Both(line)).collect();
    middle(&left[..left.len() - back], &right[..right.len() - back], &mut lines);
    lines.extend(left[left.len() - back..].iter().map(|line| Line::Both(line)));
    print(&lines)
}

/// The longest common subsequence by its table, read from the front.
fn middle<'a>(left: &[&'a str], right: &[&'a str], lines: &mut Vec<Line<'a>>) {
    if left.len().saturating_mul(right.len()) > PAIRS {
        lines.extend(left.iter().map(|line| Line::Out(line)));
        lines.extend(right.iter().map(|line| Line::In(line)));
        return;
    }
    let width = right.len() + 1;
    // longest[i * width + j]: common lines of left from i and right from j.
    let mut longest = vec![0_u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            longest[i * width + j] = if left[i] == right[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            lines.push(Line::Both(left[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < left.len()
            && (j == right.len() || longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            lines.push(Line::Out(left[i]));
            i += 1;
        } else {
            lines.push(Line::In(right[j]));
            j += 1;
        }
    }
}

/// Hunks with their context and line numbers.
fn print(lines: &[Line<'_>]) -> String {
    let changed = |at: usize| !matches!(lines[at], Line::Both(_));
    let mut shown = String::new();
    let (mut left, mut right) = (1, 1);
    let mut at = 0;
    while at < lines.len() {
        let Some(next) = (at..lines.len()).find(|at| changed(*at)) else { break };
        let start = next.saturating_sub(CONTEXT).max(at);
        left += start - at;
        right += start - at;
        let mut last = next;
        while let Some(near) =
            (last + 1..lines.len().min(last + 2 * CONTEXT + 2)).rev().find(|at| changed(*at))
        {
            last = near;
        }
        let end = (last + CONTEXT + 1).min(lines.len());
        let hunk = &lines[start..end];
        let outs = hunk.iter().filter(|line| !matches!(line, Line::In(_))).count();
        let ins = hunk.iter().filter(|line| !matches!(line, Line::Out(_))).count();
        // Writing to memory does not fail.
        let _ = writeln!(shown, "@@ -{left},{outs} +{right},{ins} @@");
        for line in hunk {
            let (mark, text) = match line {
                Line::Both(text) => (' ', text),
                Line::Out(text) => ('-', text),
                Line::In(text) => ('+', text),
            };
            if shown.len() + text.len() > SHOWN {
                shown.push_str("… the rest of the difference is left out\n");
                return shown;
            }
            shown.push(mark);
            shown.push_str(text);
            shown.push('\n');
        }
        left += outs;
        right += ins;
        at = end;
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_changed_line_stands_between_its_neighbours() {
        let text = |five: &str| format!("1\n2\n3\n4\n{five}\n6\n7\n8\n9");
        assert_eq!(unified(&text("5"), &text("V")), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+V\n 6\n 7\n 8\n");
        assert_eq!(unified("same", "same"), "");
        assert_eq!(unified("a\nb", "b"), "@@ -1,2 +1,1 @@\n-a\n b\n");
    }

    #[test]
    fn far_changes_are_hunks_of_their_own() {
        let lines: Vec<String> = (1..=40).map(|line| line.to_string()).collect();
        let mut after = lines.clone();
        after[1] = "two".to_string();
        after[30] = "thirty-one".to_string();
        let diff = unified(&lines.join("\n"), &after.join("\n"));
        assert_eq!(diff.matches("@@ -").count(), 2, "{diff}");
        assert!(diff.contains("@@ -28,7 +28,7 @@"), "{diff}");
    }

    #[test]
    fn a_huge_difference_is_cut_and_says_so() {
        let many = |word: &str| (0..20_000).map(|n| format!("{word}{n}\n")).collect::<String>();
        let diff = unified(&many("a"), &many("b"));
        assert!(diff.len() < SHOWN + 100 && diff.ends_with("is left out\n"));
    }

    /// What `patch` would make of it.
    fn patched(before: &str, diff: &str) -> String {
        let before: Vec<&str> = before.split('\n').collect();
        let (mut after, mut at) = (Vec::new(), 0);
        for line in diff.lines() {
            if let Some(head) = line.strip_prefix("@@ -") {
                let start: usize = head.split(',').next().unwrap().parse().unwrap();
                after.extend_from_slice(&before[at..start - 1]);
                at = start - 1;
            } else {
                match line.split_at(1) {
                    ("+", text) => after.push(text),
                    ("-", _) => at += 1,
                    (_, text) => {
                        after.push(text);
                        at += 1;
                    }
                }
            }
        }
        after.extend_from_slice(&before[at..]);
        after.join("\n")
    }

    proptest! {
        #[test]
        fn a_diff_applied_to_the_old_text_gives_the_new(
            before in proptest::collection::vec("[ab]", 1..30), after in proptest::collection::vec("[ab]", 1..30),
        ) {
            let (before, after) = (before.join("\n"), after.join("\n"));
            prop_assert_eq!(patched(&before, &unified(&before, &after)), after);
        }
    }
}
