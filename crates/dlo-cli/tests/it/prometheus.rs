//! The alert rules, judged by Prometheus' own tool: they load, and they fire when they should.

use std::path::Path;
use std::process::Command;

use crate::office::run;

const CONFIG: &str = r#"
[[sources]]
name = "orders"
owner = "payments"
critical = true

[[sources]]
name = "we\"ird {{ name }} \\ #'"
"#;

/// Letters of `orders` rise from 0 to 600; the oldest failed more than a day ago; metrics end at minute 60.
const TEST: &str = r#"
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'dlo_letters{source="orders",status="open"}'
        values: '0 0 1x8 150x19 600x30'
      - series: 'dlo_letters{source="orders",status="discarded"}'
        values: '9999x60'
      - series: 'dlo_letters{source="other",status="open"}'
        values: '9999x60'
      - series: 'dlo_letters_captured_total{source="orders"}'
        values: '0+20x60'
      - series: 'dlo_oldest_open_age_seconds{source="orders"}'
        values: '0x29 90000x30'
      - series: 'dlo_letters_unowned'
        values: '0x9 3x50'
      - series: 'dlo_troubles{kind="source_refused"}'
        values: '0x9 2x10 0x40'
    alert_rule_test:
      - {eval_time: 1m, alertname: DeadLetterArrived, exp_alerts: []}
      - eval_time: 3m
        alertname: DeadLetterArrived
        exp_alerts:
          - exp_labels: {severity: warning, source: orders, owner: payments}
            exp_annotations:
              summary: orders has dead letters
              description: 1 letters of orders are open. See `dlo groups list`.
      - {eval_time: 12m, alertname: DeadLettersDeep, exp_alerts: []}
      - eval_time: 20m
        alertname: DeadLettersDeep
        exp_alerts:
          - exp_labels: {severity: warning, source: orders, owner: payments}
            exp_annotations:
              summary: orders has too many dead letters
              description: 150 letters of orders are open; the limit is 100.
      - {eval_time: 20m, alertname: DeadLettersVeryDeep, exp_alerts: []}
      - eval_time: 40m
        alertname: DeadLettersVeryDeep
        exp_alerts:
          - exp_labels: {severity: critical, source: orders, owner: payments}
            exp_annotations:
              summary: orders has far too many dead letters
              description: 600 letters of orders are open, five times the limit of 100.
      - eval_time: 20m
        alertname: DeadLettersGrowing
        exp_alerts:
          - exp_labels: {severity: warning, source: orders, owner: payments}
            exp_annotations:
              summary: orders gains dead letters fast
              description: orders gained 20 letters a minute over five minutes.
      - {eval_time: 25m, alertname: DeadLetterOld, exp_alerts: []}
      - eval_time: 40m
        alertname: DeadLetterOld
        exp_alerts:
          - exp_labels: {severity: critical, source: orders, owner: payments}
            exp_annotations:
              summary: orders has a dead letter that waits too long
              description: The oldest open letter of orders failed 1d 1h 0m 0s ago; the limit is 1d.
      - {eval_time: 20m, alertname: DeadLettersUnowned, exp_alerts: []}
      - eval_time: 30m
        alertname: DeadLettersUnowned
        exp_alerts:
          - exp_labels: {severity: warning}
            exp_annotations:
              summary: dead letters have no owner
              description: 3 open letters belong to nobody. Add a rule to `[[rules.owners]]`; see `dlo groups list --owner none`.
      - {eval_time: 11m, alertname: DeadLetterOfficeTrouble, exp_alerts: []}
      - eval_time: 15m
        alertname: DeadLetterOfficeTrouble
        exp_alerts:
          - exp_labels: {severity: warning, kind: source_refused}
            exp_annotations:
              summary: the dead letter office reports source_refused
              description: 2 things of the kind source_refused do not work. `dlo status` says which, why, and what to do.
      - {eval_time: 30m, alertname: DeadLetterOfficeTrouble, exp_alerts: []}
      - {eval_time: 50m, alertname: DeadLetterOfficeAbsent, exp_alerts: []}
      - eval_time: 75m
        alertname: DeadLetterOfficeAbsent
        exp_alerts:
          - exp_labels: {severity: critical}
            exp_annotations:
              summary: the dead letter office is out of reach
              description: 'No metrics came from `dlo serve` for five minutes: dead letters may be waiting unseen.'
"#;

/// Demands that promtool finds nothing to say of a page of metrics.
pub(crate) fn promtool_reads(page: &Path) {
    let script = format!("{} check metrics < {}", tool(), page.display());
    let ran = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    if ran.status.code() == Some(127) {
        assert!(std::env::var_os("CI").is_none(), "{} is not installed", tool());
        eprintln!("SKIPPED: promtool is not installed");
        return;
    }
    assert!(ran.status.success() && said.trim().is_empty(), "promtool: {said}");
}

fn tool() -> String {
    std::env::var("PROMTOOL").unwrap_or_else(|_| "promtool".to_string())
}

/// Runs promtool in `dir`; `None`, said loudly, where it is not installed and nobody demands it.
fn promtool(dir: &Path, args: &[&str]) -> Option<()> {
    let tool = tool();
    let ran = Command::new(&tool).args(args).current_dir(dir).output();
    let Ok(ran) = ran else {
        assert!(
            std::env::var_os("CI").is_none(),
            "{tool} is not installed; `apt-get install prometheus` has it, or name it by PROMTOOL"
        );
        eprintln!("SKIPPED: promtool is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "promtool {args:?}: {said}");
    Some(())
}

fn written(config: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, config).unwrap();
    let rules = run(&["export", "prometheus-rules", "--config", file.to_str().unwrap()]).ok();
    std::fs::write(dir.path().join("rules.yml"), rules).unwrap();
    dir
}

#[test]
fn the_alert_rules_of_configured_sources_load_and_fire_when_they_should() {
    let dir = written(CONFIG);
    std::fs::write(dir.path().join("test.yml"), TEST).unwrap();
    if promtool(dir.path(), &["check", "rules", "rules.yml"]).is_some() {
        promtool(dir.path(), &["test", "rules", "test.yml"]);
    }
}

#[test]
fn without_sources_one_set_of_rules_serves_every_source() {
    let dir = written("");
    let rules = std::fs::read_to_string(dir.path().join("rules.yml")).unwrap();
    assert!(rules.contains("sum by (source) (dlo_letters{status=\\\"open\\\"}) > 0"), "{rules}");
    promtool(dir.path(), &["check", "rules", "rules.yml"]);
}
