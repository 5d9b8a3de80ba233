//! The table of tiers, in the order of `./test --help`.

use super::{Load, Set, Tests, Tier, Work};
use crate::needs::Need::{
    self, ActiveMq, Artemis, Browser, CargoMutants, Curl, Java, Kafka, Languages, Nats, Postgres, Prometheus,
    Python, Rabbitmq, Redis, Sqs, Valgrind, Valkey,
};

/// Brokers that most stories run on.
const STORY_BROKERS: &[Need] = &[Kafka, Rabbitmq, Redis, Nats, Sqs, Postgres];
/// Kills of a replay that wait for a lease to run out, or for a slow server. `chaos` runs them all, fifty times.
const SLOW_KILLS: &[&str] = &[
    "replay::kill::killed_on_a_fifo",
    "replay::kill::stopped_on_kafka",
    "replay::kill::stopped_on_nats",
    "replay::kill::stopped_on_sqs",
    "replay::kill::stopped_on_a_fifo",
];

pub(crate) static ALL: &[Tier] = &[
    Tier::new("format", "cargo fmt --check", &[Work::Command(&["cargo", "fmt", "--all", "--check"])])
        .set(Set::Quick)
        .budget(10),
    Tier::new("clippy", "no warning of compiler or clippy in any target", &[Work::Lints]).set(Set::Quick).budget(5),
    Tier::new(
        "tidy",
        "the house rules: arrows, map, licences, lengths, leftovers",
        &[Work::Tests(Tests::of("dlo-testkit").target("tidy")), Work::Tests(Tests::of("dlo-test"))],
    )
    .set(Set::Quick)
    .budget(20),
    Tier::new(
        "core",
        "unit, property and golden tests of dlo-core",
        &[Work::Tests(Tests::of("dlo-core").env(&[("PROPTEST_CASES", "2000")]))],
    )
    .set(Set::Quick),
    Tier::new(
        "brokers",
        "the memory broker's conformance, the runtime, the test kit, what the benches share",
        &[
            Work::Tests(Tests::of("dlo-brokers").target("dlo_brokers")),
            Work::Tests(Tests::of("dlo-brokers").target("it").only(&["memory::"])),
            Work::Tests(Tests::of("dlo-runtime")),
            Work::Tests(Tests::of("dlo-testkit").target("dlo_testkit")),
            Work::Tests(Tests::of("dlo-bench")),
            Work::Tests(Tests::of("dlo-gate")),
        ],
    )
    .budget(120),
    Tier::new(
        "store",
        "both stores against one conformance suite: SQLite and PostgreSQL",
        &[Work::Tests(Tests::of("dlo-store"))],
    )
    .needs(&[Postgres])
    .budget(120),
    Tier::new("server", "HTTP in, HTTP out, on a real listener", &[Work::Tests(Tests::of("dlo-server"))])
        .needs(&[Postgres])
        .budget(120),
    Tier::new(
        "cli",
        "the dlo command: help, config, output, demo, promtool",
        &[
            Work::Tests(Tests::of("dlo-cli").target("dlo")),
            Work::Tests(Tests::of("dlo-cli").target("it").skip(&[
                "kill::",
                "drain::",
                "disk::",
                "trouble::",
                "dead_wires::",
                "clock_jumps::",
                "log_lines::",
                "guard::",
                "consume::",
                "stories::",
                "replay::",
            ])),
        ],
    )
    .needs(&[Postgres, Prometheus, Curl, Redis])
    .budget(120),
    waits("kafka", "Kafka: the suite on a real Apache Kafka, Kafka Connect and Spring Kafka", &[broker(&["kafka::"])])
        .needs(&[Kafka]),
    waits("rabbitmq", "RabbitMQ: the suite on a real server", &[broker(&["rabbitmq::"])]).needs(&[Rabbitmq]),
    waits("sqs", "SQS: the suite on two servers that speak it", &[broker(&["sqs::"])]).needs(&[Sqs]),
    waits("nats", "NATS JetStream: the suite on a real server", &[broker(&["nats::"])]).needs(&[Nats]),
    waits("redis", "Redis Streams: the suite on real Redis and Valkey servers", &[broker(&["redis::"])])
        .needs(&[Redis, Valkey]),
    waits("amqp1", "AMQP 1.0: the suite on a real ActiveMQ Artemis", &[broker(&["amqp1::"])]).needs(&[Artemis]),
    waits("stomp", "STOMP: the suite on a real ActiveMQ Classic", &[broker(&["stomp::"])]).needs(&[ActiveMq]),
    waits("pubsub", "Google Pub/Sub: the suite on Google's emulator", &[broker(&["pubsub::"])]).needs(&[Java]),
    waits("sql", "a database table as dead-letter queue, on a real PostgreSQL", &[broker(&["sql::"])])
        .needs(&[Postgres]),
    waits("page", "the page in a real Chromium: screens, actions, keyboard, axe; pictures in target/page", &[Work::Page])
        .needs(&[Browser]),
    waits(
        "consume",
        "the sidecar and the examples: handlers in five languages on real brokers",
        &[
            Work::Tests(Tests::of("dlo-cli").target("it").only(&["consume::"]).threads(4)),
            Work::Tests(Tests::of("dlo-example-service")),
        ],
    )
    .needs(&[Kafka, Rabbitmq, Redis, Nats, Sqs, Prometheus, Curl, Languages]),
    waits(
        "stories",
        "the worked stories of the runtime on real brokers",
        &[Work::Tests(
            Tests::of("dlo-cli")
                .target("it")
                .only(&["stories::"])
                .skip(&["stories::orders", "stories::overload"])
                .threads(3),
        )],
    )
    .needs(STORY_BROKERS),
    Tier::new(
        "measured",
        "stories that measure time: a shop's day (DLO_STORY_ORDERS=100000 for all of it), an overload",
        &[Work::Tests(Tests::of("dlo-cli").target("it").only(&["stories::orders", "stories::overload"]).threads(1))],
    )
    .load(Load::Measures)
    .needs(STORY_BROKERS)
    .budget(120),
    waits(
        "replay",
        "the worked stories of replay on real brokers: canary, pace, repair, approval, kills",
        &[Work::Tests(Tests::of("dlo-cli").target("it").only(&["replay::"]).skip(SLOW_KILLS).threads(4))],
    )
    .needs(&[Kafka, Rabbitmq, Redis, Nats, Sqs, Postgres, Python]),
    waits(
        "faults",
        "kills, restarts, full disks, silent connections, clocks that jump: nothing is lost, duplicated, held up or hidden",
        &[Work::Tests(
            Tests::of("dlo-cli")
                .target("it")
                .only(&["kill::", "drain::", "disk::", "trouble::", "dead_wires::", "clock_jumps::", "log_lines::"])
                .skip(&["replay::", "disk::a_full_ext4"])
                .threads(4),
        )],
    )
    .needs(&[Kafka, Rabbitmq, Redis, Nats, Sqs, Postgres, Artemis, ActiveMq])
    .budget(330),
    waits(
        "guard",
        "what an intruder tries: bodies, streams, origins, paths, downloads, masked values on every route, the sidecar's port",
        &[Work::Tests(Tests::of("dlo-cli").target("it").only(&["guard::"]).threads(2))],
    ),
    Tier::new("docs", "rustdoc without warnings, and the examples in it", &[Work::Docs]).budget(90),
    full(
        "chaos",
        "replays whose server is killed, or stopped and taken over from: 50 times on each broker (DLO_REPLAY_ROUNDS), 100 kills for doubts",
        &[Work::Tests(
            Tests::of("dlo-cli")
                .target("it")
                .only(&["replay::kill::", "replay::doubts::"])
                .threads(2)
                .env(&[("DLO_REPLAY_ROUNDS", "50"), ("DLO_DOUBT_ROUNDS", "100")]),
        )],
    )
    .needs(STORY_BROKERS)
    .in_shards(),
    full(
        "sidecar-kills",
        "dlo consume is killed 100 times on each broker while its handler lives on (DLO_SIDECAR_ROUNDS)",
        &[Work::Tests(
            Tests::of("dlo-cli").target("it").only(&["kill::sidecar::"]).threads(1).env(&[("DLO_SIDECAR_ROUNDS", "100")]),
        )],
    )
    .needs(&[Rabbitmq, Redis]),
    full(
        "full-disk",
        "small file systems in memory and on a loop device are filled 20 times (DLO_DISK_ROUNDS)",
        &[Work::Tests(
            Tests::of("dlo-cli").target("it").only(&["disk::"]).threads(2).env(&[("DLO_DISK_ROUNDS", "20")]),
        )],
    )
    .needs(&[Kafka, Rabbitmq]),
    full(
        "long-faults",
        "silent connections and clocks that jump, 10 rounds each (DLO_DEAD_WIRE_ROUNDS, DLO_CLOCK_ROUNDS)",
        &[Work::Tests(
            Tests::of("dlo-cli")
                .target("it")
                .only(&["dead_wires::", "clock_jumps::"])
                .threads(3)
                .env(&[("DLO_DEAD_WIRE_ROUNDS", "10"), ("DLO_CLOCK_ROUNDS", "10")]),
        )],
    )
    .needs(&[Redis, Postgres]),
    full("features", "every feature of dlo compiles alone, and none", &[Work::Features]),
    full("mutants", "unit tests of dlo-core catch 97 % of the mutants of the files that decide", &[Work::Mutants])
        .needs(&[CargoMutants])
        .in_shards(),
    full("bench-gate", "instructions of the hot loops, beside bench/baseline.toml or another commit", &[Work::Gate])
        .needs(&[Valgrind])
        .budget(900),
];

const fn waits(name: &'static str, about: &'static str, work: &'static [Work]) -> Tier {
    Tier::new(name, about, work).load(Load::Waits).budget(240)
}

const fn full(name: &'static str, about: &'static str, work: &'static [Work]) -> Tier {
    Tier::new(name, about, work).set(Set::Full).budget(2400)
}

/// The tests of one broker. They wait for the server more than they compute.
const fn broker(prefixes: &'static [&'static str]) -> Work {
    Work::Tests(Tests::of("dlo-brokers").target("it").only(prefixes).threads(4))
}
