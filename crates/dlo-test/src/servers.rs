//! Servers that several tiers use are started once per run.
//!
//! The program `servers` of the test kit starts them and prints a variable for each, which the harness reads instead of
//! starting its own. Tests that stop or kill a server still start one for themselves.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::build::Binary;
use crate::needs::Need;
use crate::scratch;
use crate::tiers::Tier;

/// What the program knows to start.
const SHARED: [Need; 6] = [Need::Postgres, Need::Kafka, Need::Rabbitmq, Need::Redis, Need::Nats, Need::Sqs];

/// The running servers. They end when their program's input closes.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    program: Option<(Child, ChildStdin)>,
    variables: Vec<(String, String)>,
}

impl Servers {
    /// Starts what more than one of `tiers` needs, and PostgreSQL for any.
    pub(crate) fn start(binaries: &[Binary], tiers: &[&Tier]) -> Result<Self, String> {
        let uses = |need: Need| tiers.iter().filter(|tier| tier.needs.contains(&need)).count();
        let wanted: Vec<String> = SHARED.into_iter().filter(|need| uses(*need) > 1).map(Need::name).collect();
        let program = binaries
            .iter()
            .find(|binary| !binary.is_test && binary.package == "dlo-testkit" && binary.target == "servers");
        let Some(program) = program.filter(|_| !wanted.is_empty()) else { return Ok(Self::default()) };
        let mut child = Command::new(&program.path)
            .args(&wanted)
            .env("TMPDIR", scratch::make("shared")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("cannot start the shared servers: {why}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the shared servers have no input and output".to_owned());
        };
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let mut servers = Self { program: Some((child, input)), variables: Vec::new() };
        for line in lines {
            match line.split_once('=') {
                Some((name, value)) => servers.variables.push((name.to_owned(), value.to_owned())),
                None if line == "ready" => return Ok(servers),
                None => {}
            }
        }
        servers.stop();
        Err(format!("the shared servers ({}) did not start; see above", wanted.join(" ")))
    }

    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Ends them, and waits for their end.
    pub(crate) fn stop(self) {
        if let Some((mut child, input)) = self.program {
            drop(input);
            let _ = child.wait();
        }
    }
}
