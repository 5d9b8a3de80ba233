//! Peers in Java: a class each in `bench/peers/java/`, compiled into `target/`, with jars from Maven Central.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child::{self, Done};
use crate::interpreter::root;

/// Spring's heap, bounded so that the comparison of memory does not measure what a default leaves unused.
const HEAP: &str = "-Xmx256m";
/// The Parallel Consumer's: it holds much of a topic ahead, and with less its threads end while it waits for ever.
const LARGE_HEAP: &str = "-Xmx1g";

/// One of them, ready to be run.
pub(crate) struct Java {
    class: &'static str,
    path: String,
    heap: &'static str,
    /// Handlers of one process.
    threads: &'static str,
}

impl Java {
    /// Spring Kafka's listener, with the jars that `crates/dlo-testkit/servers/kafka/install` brought.
    pub(crate) fn spring() -> Self {
        Self::compiled("SpringConsumer", HEAP, "2", &root().join("target/servers/kafka/lib"))
    }

    /// Confluent's Parallel Consumer; nothing where its jars cannot be had, which was said.
    pub(crate) fn parallel() -> Option<Self> {
        let place = std::path::absolute(root().join("target/bench-java/parallel")).expect("a path");
        let pom = root().join("bench/peers/java/parallel/pom.xml");
        let wanted = std::fs::read_to_string(&pom).expect("the list of jars");
        let mark = place.join(".installed");
        if !std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            println!("  installing the peers' packages");
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "-f"]).arg(pom).arg("dependency:copy-dependencies");
            maven.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", place.display()));
            if !maven.status().is_ok_and(|status| status.success()) {
                println!("  SKIPPED: the jars of Confluent's Parallel Consumer could not be had");
                return None;
            }
            std::fs::write(mark, wanted).expect("mark the jars");
        }
        // As many as it has by default.
        Some(Self::compiled("ParallelConsumer", LARGE_HEAP, "16", &place))
    }

    fn compiled(class: &'static str, heap: &'static str, threads: &'static str, jars: &Path) -> Self {
        let jars = jars.join("*").display().to_string();
        let to: PathBuf = root().join("target/bench-java").join(class);
        std::fs::create_dir_all(&to).expect("a directory");
        let from = root().join("bench/peers/java");
        let mut compile = Command::new("javac");
        compile.args(["-nowarn", "-proc:none", "-cp", &jars, "-sourcepath"]).arg(&from).arg("-d").arg(&to);
        child::must(compile.arg(from.join(class).with_extension("java")));
        Self { class, path: format!("{}:{jars}", to.display()), heap, threads }
    }

    /// Consumes a topic as a group, and parks in `dead`.
    pub(crate) fn run(&self, bootstrap: &str, topic: &str, dead: &str, group: &str, count: &str) -> Done {
        let mut java = Command::new("java");
        java.args([self.heap, "-XX:+ExitOnOutOfMemoryError", "-cp", &self.path]);
        java.args([self.class, bootstrap, topic, dead, group, count, self.threads]);
        child::read(&mut java)
    }
}
