//! The pricing service: reads an order, asks the tax service for its table, works out the price.
//!
//! It has the bug of the story, a table that lacks a district, and knows nothing of dead letters: it returns an error,
//! and what becomes of the message is the runtime's business.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_runtime::{Context, Handler, IntoFailure, Unhandled};
use serde::Deserialize;

use super::shop::{CITIES, NEW_DISTRICTS};

/// The downstream that is down for a while.
const TAX_SERVICE: &str = "tax-service";
/// What the forgotten districts pay, in percent.
const NEW_RATE: u64 = 18;
/// The error class of a message that needed it.
pub(super) const TAX_SERVICE_AWAY: &str = "ConnectionRefusedError";

#[derive(Debug, Deserialize)]
struct Order {
    ship_to: Address,
    lines: Vec<Line>,
}

#[derive(Debug, Deserialize)]
struct Address {
    pin: String,
}

#[derive(Debug, Deserialize)]
struct Line {
    qty: u64,
    unit_cents: u64,
}

/// The consumer of `orders`.
#[derive(Debug)]
pub(super) struct Pricing {
    tax: TaxService,
    /// What was sold, tax included.
    revenue_cents: AtomicU64,
}

/// Rates in percent by PIN code, behind a wire that can be cut.
#[derive(Debug)]
struct TaxService {
    rates: HashMap<&'static str, u64>,
    /// Somebody has put the new districts into the table.
    fixed: AtomicBool,
    down: AtomicBool,
}

impl Pricing {
    pub(super) fn new() -> Self {
        let rates = CITIES.iter().enumerate().map(|(at, (_, pin))| (*pin, [5, 12, 18][at % 3])).collect();
        let tax = TaxService { rates, fixed: AtomicBool::new(false), down: AtomicBool::new(false) };
        Self { tax, revenue_cents: AtomicU64::new(0) }
    }

    /// Cuts the wire to the tax service, or mends it.
    pub(super) fn cut_off(&self, down: bool) {
        self.tax.down.store(down, Ordering::Relaxed);
    }

    /// Puts the districts that were forgotten into the tax table.
    pub(super) fn fix(&self) {
        self.tax.fixed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.tax.fixed.load(Ordering::Relaxed)
    }

    pub(super) fn revenue_cents(&self) -> u64 {
        self.revenue_cents.load(Ordering::Relaxed)
    }

    fn price(&self, message: &Message) -> Result<u64, PricingError> {
        let order: Order = serde_json::from_slice(&message.payload.0).map_err(PricingError::Unreadable)?;
        let rate = self.tax.rate(&order.ship_to.pin)?;
        let net: u64 = order.lines.iter().map(|line| line.qty.saturating_mul(line.unit_cents)).sum();
        Ok(net + net * rate / 100)
    }
}

impl TaxService {
    fn rate(&self, pin: &str) -> Result<u64, PricingError> {
        if self.down.load(Ordering::Relaxed) {
            return Err(PricingError::TaxServiceDown);
        }
        if self.fixed.load(Ordering::Relaxed) && NEW_DISTRICTS.contains(&pin) {
            return Ok(NEW_RATE);
        }
        self.rates.get(pin).copied().ok_or_else(|| PricingError::NoTaxRate { pin: pin.to_owned() })
    }
}

/// What can go wrong with a price.
#[derive(Debug)]
enum PricingError {
    Unreadable(serde_json::Error),
    TaxServiceDown,
    NoTaxRate { pin: String },
}

impl IntoFailure for PricingError {
    fn into_failure(self) -> Failure {
        match self {
            Self::Unreadable(error) => Failure::new("JSONDecodeError", error.to_string()),
            Self::TaxServiceDown => Failure {
                dependency: Some(TAX_SERVICE.to_owned()),
                ..Failure::new(TAX_SERVICE_AWAY, "tax-service:8443 refused the connection")
            },
            Self::NoTaxRate { pin } => Failure {
                stack: Some(NO_TAX_RATE_STACK.to_owned()),
                ..Failure::new("KeyError", format!("pin {pin} not in tax table"))
            },
        }
    }
}

/// Where the table is asked.
const NO_TAX_RATE_STACK: &str =
    "pricing::TaxService::rate\npricing::Pricing::price\npricing::Pricing::handle";

#[async_trait]
impl Handler for Pricing {
    async fn handle(&self, message: Message, _context: &Context) -> Result<(), Unhandled> {
        let cents = self.price(&message).map_err(IntoFailure::into_failure)?;
        self.revenue_cents.fetch_add(cents, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::shop::Shop;

    #[test]
    fn an_order_is_priced_unless_its_district_is_missing_or_its_event_is_broken() {
        let (pricing, shop) = (Pricing::new(), Shop { orders: 12_000 });
        assert!(pricing.price(&shop.order(1)).is_ok_and(|cents| cents > 0));
        let missing = pricing.price(&shop.order(5_000)).unwrap_err().into_failure();
        assert_eq!((&*missing.class, &*missing.message), ("KeyError", "pin 560001 not in tax table"));
        pricing.fix();
        assert!(pricing.price(&shop.order(5_000)).is_ok());
        assert_eq!(pricing.price(&shop.order(6_000)).unwrap_err().into_failure().class, "JSONDecodeError");
    }

    #[test]
    fn while_the_tax_service_is_down_its_name_is_on_the_failure() {
        let (pricing, shop) = (Pricing::new(), Shop { orders: 10 });
        pricing.cut_off(true);
        let refused = pricing.price(&shop.order(1)).unwrap_err().into_failure();
        assert_eq!(refused.dependency.as_deref(), Some(TAX_SERVICE));
        pricing.cut_off(false);
        assert!(pricing.price(&shop.order(1)).is_ok());
    }
}
