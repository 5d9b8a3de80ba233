//! The command that makes the same plan: with every flag that makes it differ from what its source does anyway. A command
//! that leaves one out sends other messages, or sends them faster, so where no command can say it there is none.

use dlo_core::replay::{DoubtPolicy, Pace, Replay, Settings, Target};

use crate::ui::cli;

/// `dlo replay plan …`; `usual` is what a plan without flags would do.
pub(super) fn plan(replay: &Replay, usual: &Settings) -> Option<String> {
    // What was planned by ids has no query, and a part is planned with its whole.
    let query = replay.query.as_deref().filter(|_| replay.parent.is_none())?;
    let mut words = vec!["dlo", "replay", "plan", query, "--reason", &replay.reason];
    words.extend(replay.cause.into_iter().flat_map(|cause| ["--cause", cause.as_str()]));
    let flags = flags(&replay.settings, usual)?;
    words.extend(flags.iter().map(String::as_str));
    Some(cli::line(words))
}

/// The flags of everything that is not as usual; `None`: something of it has no flag.
fn flags(is: &Settings, usual: &Settings) -> Option<Vec<String>> {
    let mut flags: Vec<String> = Vec::new();
    let mut flag = |name: &str, value: String| flags.extend([name.to_string(), value]);
    if is.canary != usual.canary {
        flag("--canary", is.canary.to_string());
    }
    // A plan has at least one step, whatever its source says.
    if is.ramp != usual.ramp.max(1) {
        flag("--ramp", is.ramp.to_string());
    }
    if is.window != usual.window {
        flag("--window", is.window.to_string());
    }
    if is.limit != usual.limit {
        flag("--limit", is.limit.to_string());
    }
    if is.doubts != usual.doubts {
        let word = match is.doubts {
            DoubtPolicy::Hold => "hold",
            DoubtPolicy::SendAgain => "send-again",
        };
        flag("--doubts", word.to_string());
    }
    match (&is.repair, &usual.repair) {
        (is, usual) if is == usual => {}
        (Some(repair), _) => flag("--jq", repair.expression.clone()),
        (None, _) => return None,
    }
    match (&is.target, &usual.target) {
        (is, usual) if is == usual => {}
        (Target::Queue(name), _) => flag("--to", name.clone()),
        (Target::FailedGroup, _) => flags.push("--failed-group".to_string()),
        (Target::Original | Target::Route(_), _) => return None,
    }
    match is.pace {
        pace if pace == usual.pace => {}
        Pace::Rate(rate) => flags.extend(["--rate".to_string(), rate.to_string()]),
        Pace::Share(share) => flags.extend(["--share".to_string(), share.to_string()]),
        Pace::Max => flags.push("--max".to_string()),
    }
    match (is.order, usual.order) {
        (true, false) => flags.push("--order".to_string()),
        (false, true) => return None,
        (true, true) | (false, false) => {}
    }
    (is.guards == usual.guards).then_some(flags)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlo_core::replay::{Guards, Repairing};
    use dlo_core::units::HumanDuration;

    use super::*;

    fn told(is: Settings) -> Option<String> {
        flags(&is, &Settings::default()).map(|flags| cli::line(flags.iter().map(String::as_str)))
    }

    #[test]
    fn a_plan_as_usual_needs_no_flag_and_any_other_says_what_differs() {
        assert_eq!(told(Settings::default()).as_deref(), Some(""));
        let other = Settings {
            pace: Pace::Rate(2.5),
            canary: 0,
            window: HumanDuration(Duration::from_secs(300)),
            ramp: 1,
            target: Target::Queue("orders retry".into()),
            doubts: DoubtPolicy::SendAgain,
            order: true,
            repair: Some(Repairing { expression: ".amount |= tonumber".into() }),
            limit: 9,
            ..Settings::default()
        };
        assert_eq!(
            told(other).as_deref(),
            Some(
                "--canary 0 --ramp 1 --window 5m --limit 9 --doubts send-again --jq '.amount |= tonumber' \
                 --to 'orders retry' --rate 2.5 --order"
            )
        );
        assert_eq!(told(Settings { pace: Pace::Max, ..Settings::default() }).as_deref(), Some("--max"));
        let failed = Settings { target: Target::FailedGroup, ..Settings::default() };
        assert_eq!(told(failed).as_deref(), Some("--failed-group"));
    }

    #[test]
    fn where_no_flag_can_say_it_there_is_no_command() {
        let guards = Guards { refill: false, ..Guards::default() };
        assert_eq!(told(Settings { guards, ..Settings::default() }), None);
        let usual = Settings {
            order: true,
            repair: Some(Repairing { expression: ".".into() }),
            target: Target::Queue("q".into()),
            ..Settings::default()
        };
        for is in [
            Settings { order: false, ..usual.clone() },
            Settings { repair: None, ..usual.clone() },
            Settings { target: Target::Original, ..usual.clone() },
        ] {
            assert_eq!(flags(&is, &usual), None, "{is:?}");
        }
    }
}
