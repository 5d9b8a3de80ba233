//! The `dlo` binary that benches start. `bench/run` builds it and names it in `DLO_BIN`.

use std::path::PathBuf;

/// The variable that holds the path of the binary.
pub const BIN: &str = "DLO_BIN";

/// The path of `dlo`. Without it the bench stops and says how to get it.
pub fn program() -> PathBuf {
    let program = std::env::var_os(BIN).map(PathBuf::from);
    program.filter(|path| path.is_absolute() && path.is_file()).unwrap_or_else(|| {
        panic!(
            "{BIN} must be the absolute path of a built `dlo`; `bench/run` sets it, by hand: \
             cargo build --release -p dlo-cli && {BIN}=$PWD/target/release/dlo cargo bench -p dlo-bench …"
        )
    })
}
