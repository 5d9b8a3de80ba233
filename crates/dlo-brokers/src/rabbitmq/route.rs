//! Publishing through an exchange, with the copies that a producer asked for by `CC`.
//!
//! The server closes the channel on an exchange that does not exist, and with it all that was under way. So the exchange
//! is looked for before the first message goes through it, and again after one that was not confirmed.

use std::sync::PoisonError;

use bytes::Bytes;
use dlo_core::broker::{BrokerError, PublishError, Route};
use lapin::options::ExchangeDeclareOptions;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use lapin::{BasicProperties, ExchangeKind};

use super::Shared;
use super::connection::answered;
use super::publisher::{Letter, not_sent};
use super::seat::short;
use super::table::long_string;

/// Exchanges that are known at once; past that all are looked for again.
const KNOWN: usize = 1_000;

impl Shared {
    /// A message on its way through an exchange, or why it is not sent.
    pub(super) async fn routed(
        &self,
        route: Route,
        properties: BasicProperties,
        payload: Bytes,
    ) -> Result<Letter, PublishError> {
        let Route { exchange, routing_key, copies } = route;
        if !exchange.is_empty() {
            self.look_for_exchange(&exchange).await?;
        }
        let properties = if copies.is_empty() { properties } else { with_copies(properties, &copies) };
        let (exchange, queue) = (short(&exchange).map_err(not_sent)?, short(&routing_key).map_err(not_sent)?);
        Ok(Letter { exchange, queue, properties, payload })
    }

    async fn look_for_exchange(&self, exchange: &str) -> Result<(), PublishError> {
        let known = |name: &str| self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).contains(name);
        if known(exchange) {
            return Ok(());
        }
        let look = async {
            let channel = self.consuming.channel().await?;
            let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            let name = short(exchange)?;
            answered(channel.exchange_declare(name, ExchangeKind::Direct, passive, FieldTable::default()))
                .await
        };
        match look.await {
            Ok(()) => {
                let mut known = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
                if known.len() >= KNOWN {
                    known.clear();
                }
                known.insert(exchange.to_owned());
                Ok(())
            }
            Err(BrokerError::Unavailable(why)) if why.contains("no exchange") => {
                Err(PublishError::Refused(format!("there is no exchange `{exchange}`")))
            }
            Err(error) => Err(not_sent(error)),
        }
    }

    pub(super) fn forget_exchange(&self, name: &str) {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// The properties with a `CC`, by which the server sends copies.
fn with_copies(properties: BasicProperties, copies: &[String]) -> BasicProperties {
    let mut table = properties.headers().clone().unwrap_or_default();
    let keys: Vec<AMQPValue> = copies.iter().map(|key| long_string(key.as_bytes())).collect();
    table.insert(ShortString::from("CC"), AMQPValue::FieldArray(FieldArray::from(keys)));
    properties.with_headers(table)
}
