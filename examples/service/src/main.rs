//! A service with a handler of its own: an order without a price becomes a dead letter. `service.toml` says on which broker.

use std::sync::Arc;

use dlo_runtime::{Consumer, Failure, Message, SystemClock};

#[derive(serde::Deserialize)]
struct Settings {
    queue: String,
    broker: dlo_brokers::BrokerConfig,
    consumer: dlo_runtime::ConsumerConfig,
}

async fn price(message: Message) -> Result<(), Failure> {
    let order: serde_json::Value = serde_json::from_slice(&message.payload.0)
        .map_err(|bad| Failure::new("DeserializationError", bad.to_string()))?;
    if order["price"].is_number() { Ok(()) } else { Err(Failure::new("ValidationError", "no price")) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings: Settings = toml::from_str(&std::fs::read_to_string("service.toml")?)?;
    let broker = dlo_brokers::connect(&settings.broker, Arc::new(SystemClock)).await?;
    let source = broker.source(&settings.queue, &settings.consumer.group).await?;
    let builder = Consumer::builder(source, broker.publisher()).config(settings.consumer);
    let shutdown = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    Ok(builder.handler(price).build()?.run(shutdown).await?)
}
