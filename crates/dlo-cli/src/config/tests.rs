//! What a config says when it is right, and word for word what is said when it is wrong.

use std::time::Duration;

use dlo_core::origin::BrokerKind;

use super::*;
use crate::features;

fn env(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("9000".into()),
        "TOKEN" => Some("0123456789abcdef-secret".into()),
        "EVIL" => Some("x\"\n[server]\nlisten = \"0.0.0.0:1".into()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("dlo.toml", text, &env).map_err(|problems| problems.to_string())
}

const WHOLE: &str = r#"
[server]
listen = "127.0.0.1:${PORT}"
data = "/var/lib/dlo"
token = "${TOKEN}"
hosts = ["dlo.example.com"]

[server.limits]
body = "8MiB"
grace = "20s"
groups_per_source = 100

[brokers.shop]
kind = "memory"

[[sources]]
name = "orders"
broker = "shop"
dlq = "orders.dlq"
owner = "payments"
critical = true
retention = "30d"

[[sources]]
name = "mail"

[[rules.classify]]
name = "tax"
when = { class = "KeyError" }
verdict = "dead_letter"

[[rules.owners]]
when = { consumer = "mail*" }
owner = "crm"

[log]
format = "json"
level = "dlo_server=debug,warn"
"#;

#[test]
fn a_whole_config_is_read() {
    let config = parse(WHOLE).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:9000");
    assert_eq!(config.server.storage, Storage::Embedded("/var/lib/dlo".into()));
    assert_eq!(config.server.limits.body, 8 * 1024 * 1024);
    assert_eq!(config.server.limits.grace, Duration::from_secs(20));
    assert_eq!(config.server.limits.connections, Limits::default().connections);
    let orders = &config.sources[0];
    assert_eq!((orders.queue.as_str(), orders.dlq.as_deref()), ("orders", Some("orders.dlq")));
    assert_eq!((orders.critical, orders.retention), (true, Some(Duration::from_secs(30 * 86_400))));
    assert_eq!(config.sources[1].broker, None);
    assert_eq!((config.rules.classify.len(), config.rules.owners_written.len()), (1, 2));
    assert_eq!((config.log.style, config.log.filter.as_str()), (LogStyle::Json, "dlo_server=debug,warn"));
}

#[test]
fn an_empty_config_is_valid_and_safe() {
    let config = parse("").unwrap();
    assert!(config.server.listen.ip().is_loopback());
    assert_eq!(config.server.storage, Storage::Embedded("dlo-data".into()));
    assert_eq!(config.server.token, None);
}

#[test]
fn a_secret_is_never_shown() {
    let shown = format!("{:?}", parse(WHOLE).unwrap());
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
    let text = "[server]\ndatabase = \"mysql://dlo:hunter2@db/office\"";
    assert!(!parse(text).unwrap_err().contains("hunter2"));
    let weak = parse("[server]\ntoken = \"hunter2\"").unwrap_err();
    assert!(
        weak.starts_with("dlo.toml, line 2: `server.token` is too weak: ") && !weak.contains("hunter2"),
        "{weak}"
    );
}

#[test]
fn the_value_of_a_variable_cannot_become_syntax() {
    let config = parse("[[sources]]\nname = \"${EVIL}\"").unwrap();
    assert_eq!(config.sources[0].name, env("EVIL").unwrap());
    assert!(config.server.listen.ip().is_loopback());
}

/// Each wrong text, and the words a person gets.
const TYPOS: &[(&str, &str)] = &[
    (
        "[server]\nlsiten = \"127.0.0.1:1\"",
        "dlo.toml, line 2: `server.lsiten` is not a setting; did you mean `listen`?",
    ),
    (
        "[sever]\nlisten = \"127.0.0.1:1\"",
        "dlo.toml, line 1: `sever` is not a setting; did you mean `server`?",
    ),
    (
        "colour = 1",
        "dlo.toml, line 1: `colour` is not a setting; known here: server, brokers, sources, rules, redact, teams, replay, log, consume, consumers",
    ),
    ("\n\n[server]\nlisten = 8404", "dlo.toml, line 4: `server.listen` expected text in quotes, found 8404"),
    (
        "[server]\nlisten = \"everywhere\"",
        "dlo.toml, line 2: `server.listen` expected an address such as \"127.0.0.1:8404\", found \"everywhere\"",
    ),
    (
        "[server]\nlisten = \"127.0.0.1:${NO_SUCH}\"",
        "dlo.toml, line 2: `server.listen`: the environment variable NO_SUCH is not set; set it, or write ${NO_SUCH:-a default}",
    ),
    (
        "[server]\ndata = \"a\"\ndatabase = \"postgres://b/c\"",
        "dlo.toml, line 3: `server.database` and `server.data` exclude each other: keep one of the two",
    ),
    (
        "[server.limits]\nconnections = 0",
        "dlo.toml, line 2: `server.limits.connections` expected a whole number from 1 to 100000, found 0",
    ),
    (
        "[server.limits]\ngrace = \"1 fortnight\"",
        "dlo.toml, line 2: `server.limits.grace` expected a span of time from 1s to 10m, such as \"30s\" or \"7d\", found \"1 fortnight\"",
    ),
    (
        "[server.limits]\nbody = \"much\"",
        "dlo.toml, line 2: `server.limits.body` expected a size from 1kb to 1gb, such as \"16mb\", found \"much\"",
    ),
    (
        "[server]\nlimits = 3",
        "dlo.toml, line 2: `server.limits` is a section; write `[server.limits]` and its settings below",
    ),
    (
        "[sources]\nname = \"orders\"",
        "dlo.toml, line 1: `sources` is a list; write `[[sources]]` before each of its entries",
    ),
    (
        "[[sources]]\nqueue = \"orders\"",
        "dlo.toml, line 1: `sources[1].name` is missing; give the source the name that people call it by",
    ),
    (
        "[[sources]]\nname = \"a\"\n[[sources]]\nname = \"a\"",
        "dlo.toml, line 4: `sources[2].name` \"a\" is taken by another source; names are unique",
    ),
    (
        "[brokers.shop]\nkind = \"memory\"\n[[sources]]\nname = \"a\"\nbroker = \"shpo\"",
        "dlo.toml, line 5: `sources[1].broker` \"shpo\" is not under [brokers]; did you mean \"shop\"?",
    ),
    (
        "[brokers.shop]\nkind = \"kafka\"\nbootstap = \"localhost:9092\"",
        "dlo.toml, line 3: `brokers.shop.bootstap` is not a setting; did you mean `bootstrap`?",
    ),
    (
        "[brokers.shop]\nkind = \"pigeon\"",
        "dlo.toml, line 2: `brokers.shop.kind` expected one of kafka, rabbitmq, sqs, nats, redis, amqp1, stomp, pubsub, sql, http, memory, found \"pigeon\"",
    ),
    (
        "[brokers.shop]\nkind = \"memory\"\npartitons = 3",
        "dlo.toml, line 3: `brokers.shop.partitons` is not a setting; did you mean `partitions`?",
    ),
    (
        "[[rules.classify]]\nwhen = { clas = \"KeyError\" }\nverdict = \"retry\"",
        "dlo.toml, line 2: `rules.classify[1].clas` is not a setting; did you mean `class`?",
    ),
    (
        "[[rules.classify]]\nwhen = { class = \"KeyError\" }\n\nverdict = \"retyr\"",
        "dlo.toml, line 4: `rules.classify[1]`: unknown verdict `retyr`, expected one of retry, dead_letter, discard",
    ),
    (
        "[redact]\nfeilds = [\"card\"]",
        "dlo.toml, line 2: `redact.feilds` is not a setting; did you mean `fields`?",
    ),
    (
        "[redact]\n\npatterns = [\"(\"]",
        "dlo.toml, line 3: `redact.patterns` expected a regular expression (RE2 style): unclosed group",
    ),
    (
        "[log]\nformat = \"xml\"",
        "dlo.toml, line 2: `log.format` expected one of auto, text, json, found \"xml\"",
    ),
];

#[test]
fn a_typo_gives_directions() {
    for (text, words) in TYPOS {
        assert_eq!(parse(text).map(|_| ()).unwrap_err(), *words, "in:\n{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once_in_the_order_of_lines() {
    let text = "[log]\nformat = \"xml\"\n[server]\ndaat = \"x\"\nlisten = 1";
    let lines: Vec<String> =
        parse(text).unwrap_err().lines().map(|line| line.split(':').next().unwrap().to_string()).collect();
    assert_eq!(lines, ["dlo.toml, line 2", "dlo.toml, line 4", "dlo.toml, line 5"]);
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let words = parse("[server]\nlisten = \n").unwrap_err();
    assert!(words.starts_with("dlo.toml, line 2: this is not TOML: "), "{words}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let words = Config::load(Some(std::path::Path::new("no-such.toml"))).unwrap_err().to_string();
    assert!(words.starts_with("no-such.toml: cannot be read: "), "{words}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in "(\\PC|\n){0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_value_under_a_known_key_makes_reading_panic(
        key in proptest::sample::select(vec![
            "server", "server.listen", "server.limits", "server.limits.body", "server.token", "brokers", "brokers.x",
            "brokers.x.kind", "sources", "sources.name", "rules.classify", "rules.owners", "redact", "log.level", "consumers",
            "consume.listen", "consumers.handler",
        ]),
        value in proptest::sample::select(vec![
            "1", "-1", "\"\"", "\"${\"", "\"${X:-}\"", "[]", "[[]]", "{}", "[{}]", "[{name=1}]", "{kind=\"memory\"}", "1979-05-27",
            "[{when={},verdict=\"retry\"}]", "[{when={class=[]},verdict=\"retry\"}]", "nan", "true", "\"9999999999999999999999d\"",
        ]),
    ) {
        let _ = parse(&format!("{key} = {value}"));
    }
}

#[test]
fn a_dead_letter_queue_is_named_by_the_template_of_its_broker() {
    let config = parse(
        r#"
[brokers.plain]
kind = "memory"

[brokers.hidden]
kind = "memory"
dlq = "office.{queue}.dead"

[[sources]]
name = "orders"
broker = "plain"

[[sources]]
name = "mail"
queue = "mail.out"
broker = "hidden"

[[sources]]
name = "own"
broker = "hidden"
dlq = "elsewhere"
"#,
    )
    .unwrap();
    let names: Vec<_> = config.sources.iter().map(|source| source.dlq.as_deref().unwrap()).collect();
    assert_eq!(names, ["orders.dlq", "office.mail.out.dead", "elsewhere"]);
    let wrong = parse("[brokers.shop]\nkind = \"memory\"\ndlq = \"graveyard\"").unwrap_err();
    assert!(wrong.contains("line 3") && wrong.contains("needs `{queue}` in it"), "{wrong}");
}

#[test]
fn the_dead_letter_queue_of_service_bus_is_the_one_inside_the_queue() {
    let name = |flavour: &str| {
        let text = format!(
            "[brokers.bus]\nkind = \"amqp1\"\nurl = \"amqps://x.servicebus.windows.net\"\n{flavour}\n\
             [[sources]]\nname = \"orders\"\nbroker = \"bus\""
        );
        parse(&text).unwrap().sources[0].dlq.clone().unwrap()
    };
    assert_eq!(name("flavour = \"servicebus\""), "orders/$deadletterqueue");
    assert_eq!(name("flavour = \"servicebus\"\ndlq = \"{queue}-dead\""), "orders-dead");
    assert_eq!(name("flavour = \"artemis\""), "orders.dlq");
}

#[test]
fn how_a_source_is_captured_is_read() {
    let config = parse(
        r#"
[brokers.shop]
kind = "memory"

[[sources]]
name = "orders"
broker = "shop"
mode = "mirror"
mapper = { headers = { error_message = "x-why" } }
limits = { rate = 500, waiting = "4MiB" }
"#,
    )
    .unwrap();
    let orders = &config.sources[0];
    assert_eq!(orders.mode, dlo_server::Mode::Mirror);
    assert_ne!(orders.mapper, dlo_core::conventions::Mapper::default());
    assert_eq!((orders.limits.rate.map(u32::from), orders.limits.waiting), (Some(500), 4 * 1024 * 1024));
}

#[test]
fn what_is_wrong_with_a_capture_is_said_with_its_line() {
    let broker = "[brokers.shop]\nkind = \"memory\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\n";
    for (line, expected) in [
        ("mode = \"copy\"", "expected \"drain\" or \"mirror\", found \"copy\""),
        ("limits = { rate = 0 }", "a whole number from 1 to 1000000"),
        ("limits = { rates = 5 }", "did you mean `rate`?"),
        ("mapper = { header = {} }", "did you mean `headers`?"),
    ] {
        let wrong = parse(&format!("{broker}{line}")).unwrap_err();
        assert!(wrong.contains("line 6") && wrong.contains(expected), "{wrong}");
    }
    let wrong = parse("[[sources]]\nname = \"orders\"\nmode = \"mirror\"").unwrap_err();
    assert!(wrong.contains("`sources[1].mode` needs a `broker`"), "{wrong}");
}

#[test]
fn what_sources_say_of_replays_becomes_settings_approvals_and_rules() {
    let config = parse(
        "[server.tokens]\nalice = \"alice-token-0123456789\"\n[brokers.shop]\nkind = \"memory\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\ncritical = true\nreplay = { pace = { rate = 5 }, limit = 4 }\npermanent = \"orders.failed\"\ndiscard_after = \"90d\"\n[[sources]]\nname = \"mail\"\nbroker = \"shop\"\nautomatic = { reasons = [\"timeout\"], after = \"1m\" }\n[[rules.automation]]\nname = \"mine\"\nquery = \"source:mail\"\naction = \"hold\"\n[replay]\nlarge = 7",
    )
    .unwrap();
    let [orders, mail] = config.sources.as_slice() else { panic!() };
    assert_eq!((orders.replay.approvals, orders.replay.settings.limit), (1, 4));
    assert_eq!((mail.replay.approvals, config.replay.large), (0, 7));
    assert_eq!(config.server.tokens[0].0, "alice");
    let rules: Vec<(&str, &str)> =
        config.rules.automation.iter().map(|rule| (rule.name.as_str(), rule.query.as_str())).collect();
    assert_eq!(
        rules,
        [
            ("mine", "source:mail"),
            ("orders: discard_after", "source:\"orders\" age:>90d"),
            ("orders: permanent", "source:\"orders\" replays:>=4"),
            ("mail: automatic, timeout", "source:\"mail\" reason:timeout"),
        ]
    );
    assert!(config.rules.automation.iter().all(|rule| rule.check().is_ok()));
}

#[test]
fn a_critical_source_leaves_nothing_to_automatisms_and_tokens_are_each_their_own() {
    let refused = |text: &str| parse(text).unwrap_err();
    let source = "[brokers.shop]\nkind = \"memory\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\ncritical = true\n";
    assert!(
        refused(&format!("{source}replay = {{ doubts = \"send_again\" }}"))
            .contains("a person decides there")
    );
    assert!(refused(&format!("{source}approvals = 0")).contains("cannot be 0 for a critical source"));
    assert!(
        refused(&format!("{source}automatic = {{ reasons = [\"timeout\"] }}"))
            .contains("a person decides there")
    );
    let same = "[server.tokens]\nalice = \"alice-token-0123456789\"\nbob = \"alice-token-0123456789\"";
    assert!(refused(same).contains("somebody else as well"));
    let weak = refused("[server.tokens]\nalice = \"hunter2\"");
    assert!(weak.contains("too weak") && !weak.contains("hunter2"));
}

#[test]
fn a_broker_or_database_that_this_binary_lacks_is_refused_with_the_feature_to_build() {
    for kind in BrokerKind::WORDS {
        let said = parse(&format!("[brokers.shop]\nkind = \"{kind}\"\n")).err().unwrap_or_default();
        match features::lacking(kind) {
            Some(lacking) => {
                assert_eq!(said, format!("dlo.toml, line 2: `brokers.shop.kind` \"{kind}\": {lacking}"))
            }
            None => assert!(!said.contains("built without"), "{said}"),
        }
    }
    let said = parse("[server]\ndatabase = \"postgres://u:p@h/d\"\n").err();
    let lacking = features::lacking(features::POSTGRES);
    let expected = lacking
        .map(|lacking| format!("dlo.toml, line 2: `server.database` is a PostgreSQL address: {lacking}"));
    assert_eq!(said, expected);
}
