//! Translators between Dead Letter Office and the brokers. Only here are broker SDKs named.
//!
//! Every broker is one module with the same rooms, behind the one port of [`dlo_core::broker`], and passes the same
//! conformance suite. [`connect`] is the door: configuration in, a connected [`Broker`] out. [`memory`] is the
//! reference: the broker that needs no server, for `dlo demo`, tests and trying things out.

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};
use dlo_core::time::Clock;

pub mod config;
pub mod memory;

pub use config::BrokerConfig;

/// Connects to the broker that `config` describes. `clock` is read where the broker has no clock of its own.
pub async fn connect(config: &BrokerConfig, clock: Arc<dyn Clock>) -> Result<Arc<dyn Broker>, BrokerError> {
    match config {
        BrokerConfig::Memory(memory) => Ok(Arc::new(memory::MemoryBroker::new(memory.clone(), clock))),
    }
}
