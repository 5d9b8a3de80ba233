//! `dlo demo`: flags in, the tour of `crate::demo` out.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::args::DemoArgs;
use crate::exit::Outcome;

/// How the tour is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DemoOptions {
    /// Forget what a former demo left in `data`.
    pub(crate) fresh: bool,
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    /// How many orders the shop takes.
    pub(crate) orders: u64,
    /// Stop when the story is over instead of leaving the office running.
    pub(crate) exit: bool,
}

pub(super) fn run(args: DemoArgs) -> Outcome {
    let DemoArgs { fresh, listen, data, orders, exit } = args;
    crate::demo::run(DemoOptions { fresh, listen, data, orders, exit })
}
