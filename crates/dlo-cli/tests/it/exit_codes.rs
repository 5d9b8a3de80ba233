//! Typos and their directions, and the stable exit codes. Nothing here needs an office that runs.

use std::net::TcpListener;

use crate::office::{Office, dlo, run};

#[test]
fn a_typo_in_a_command_or_flag_names_the_near_one() {
    let command = run(&["leters", "list"]);
    assert_eq!(command.code, 2);
    assert!(command.err.contains("'letters'"), "{command:?}");
    let flag = run(&["letters", "list", "--limt", "3"]);
    assert_eq!(flag.code, 2);
    assert!(flag.err.contains("'--limit'"), "{flag:?}");
    let value = run(&["serve", "--log-format", "jsno"]);
    assert_eq!(value.code, 2);
    assert!(value.err.contains("json"), "{value:?}");
}

#[test]
fn a_typo_in_a_query_is_shown_at_its_place_before_anything_is_asked() {
    let said = run(&["letters", "list", "status:open", "stauts:open", "--server", "http://127.0.0.1:1"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("status:open stauts:open\n"), "{said:?}");
    let caret = said.err.lines().find(|line| line.trim_start().starts_with('^')).unwrap();
    assert!(caret.contains("^^^^^^") && caret.contains("status"), "{said:?}");
    assert_eq!(caret.find('^'), Some(2 + "status:open ".len()), "{said:?}");
}

#[test]
fn a_typo_in_the_config_names_file_line_path_and_the_near_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, "[server]\n\nlsiten = \"127.0.0.1:0\"\n").unwrap();
    // Found by itself in the working directory.
    let said = crate::office::Said::new(&dlo().arg("serve").current_dir(dir.path()).output().unwrap());
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: dlo.toml, line 3: `server.lsiten` is not a setting; did you mean `listen`?\n"
    );
    // Named by a flag, or by the environment.
    let path = file.to_str().unwrap();
    let named = run(&["export", "prometheus-rules", "--config", path]);
    assert_eq!(named.code, 2);
    assert!(named.err.starts_with(&format!("error: {path}, line 3: ")), "{named:?}");
    let by_env = dlo().args(["serve"]).env("DLO_CONFIG", path).output().unwrap();
    assert_eq!(by_env.status.code(), Some(2));
}

#[test]
fn an_office_that_does_not_answer_is_unreachable_and_the_way_out_is_said() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for args in [&["letters", "list"][..], &["groups", "list"], &["audit", "verify"], &["letters", "export"]]
    {
        let said = run(&[args, &["--server", &format!("http://{free}")]].concat());
        assert_eq!(said.code, 5, "{said:?}");
        assert!(said.err.contains("is out of reach") && said.err.contains("`dlo serve`"), "{said:?}");
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let office = Office::start();
    let id = "0193b2c0-0000-7000-8000-000000000000";
    for args in [["letters", "show", id], ["letters", "payload", id], ["groups", "show", id]] {
        let said = office.dlo(&args);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("there is no"), "{said:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body.bin");
    assert_eq!(office.dlo(&["letters", "payload", id, "--to", file.to_str().unwrap()]).code, 3);
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is left of what was not found");
    assert_eq!(office.dlo(&["letters", "import", "no-such-file.ndjson"]).code, 3);
    assert_eq!(office.dlo(&["restore", "no-such-file.backup"]).code, 3);
}

#[test]
fn a_reason_is_demanded_for_what_closes_a_letter() {
    let said = run(&["letters", "discard", "status:open", "--yes"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("--reason"), "{said:?}");
    assert_eq!(run(&["letters", "discard", "--reason", "x"]).code, 2);
}

#[test]
fn numbers_that_make_no_sense_are_refused_with_what_was_expected() {
    let said = run(&[
        "capacity",
        "estimate",
        "--rate",
        "10",
        "--size",
        "1kb",
        "--failures",
        "200%",
        "--retention",
        "7d",
    ]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("0% to 100%"), "{said:?}");
}

#[test]
fn a_capacity_estimate_is_a_table_for_people_and_json_for_machines() {
    let args = [
        "capacity",
        "estimate",
        "--rate",
        "1000",
        "--size",
        "2kb",
        "--failures",
        "0.1%",
        "--retention",
        "30d",
    ];
    let table = run(&args).ok();
    assert!(table.contains("letters a day") && table.contains("86,400"), "{table}");
    let json = run(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(json["estimate"]["letters_kept"], 2_592_000);
}

#[test]
fn the_short_version_is_one_line_and_the_long_one_lists_the_features() {
    let short = run(&["-V"]).ok();
    assert_eq!(short, format!("dlo {}\n", env!("CARGO_PKG_VERSION")));
    let long = run(&["--version"]).ok();
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, short.trim_end()), "{long}");
    let (built, left_out) =
        (lines[1].strip_prefix("features: ").unwrap(), lines[2].strip_prefix("left out: ").unwrap());
    for name in ["kafka", "sql", "postgres", "jemalloc"] {
        let is_in = |list: &str| list.split(' ').any(|word| word == name);
        assert!(is_in(built) != is_in(left_out), "{name} in\n{long}");
    }
}
