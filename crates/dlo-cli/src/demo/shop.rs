//! The shop: its orders, the same ones in the same order at every start.
//!
//! An order is a function of its number, so nothing needs to be kept to tell the story again, and the office knows every
//! letter of a former telling by its place in the queue. One order in 8,000 goes to a district that is newer than the
//! tax table; one event is cut off in the middle, as happens when a producer dies.

use dlo_core::message::{Message, Payload};
use serde_json::json;

/// One order in so many meets the bad tax rule.
pub(super) const ONE_IN: u64 = 8_000;
/// The first of them.
const FIRST_BAD: u64 = 5_000;
/// Which telling of the story this is: a change of the orders makes another one.
pub(super) const INCARNATION: &str = "demo-shop-1";

/// A day of orders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shop {
    pub(super) orders: u64,
}

/// Cities, with a PIN code that the tax table knows.
pub(super) const CITIES: [(&str, &str); 8] = [
    ("Pune", "411001"),
    ("Mumbai", "400001"),
    ("Delhi", "110001"),
    ("Chennai", "600001"),
    ("Kolkata", "700001"),
    ("Hyderabad", "500001"),
    ("Jaipur", "302001"),
    ("Kochi", "682001"),
];
/// Districts of Bengaluru that nobody has put into the tax table.
pub(super) const NEW_DISTRICTS: [&str; 6] = ["560001", "560034", "560066", "560095", "560102", "560117"];
const GOODS: [(&str, u64); 6] = [
    ("TEA-250", 45_000),
    ("CUP-BLUE", 29_900),
    ("KETTLE-1L", 189_900),
    ("FILTER-100", 9_900),
    ("HONEY-500", 54_900),
    ("TRAY-OAK", 129_900),
];

impl Shop {
    /// Orders whose district the tax table does not know.
    pub(super) const fn untaxed(self) -> u64 {
        if self.orders <= FIRST_BAD { 0 } else { 1 + (self.orders - FIRST_BAD - 1) / ONE_IN }
    }

    /// Orders of which nothing can be read: one, in the middle of the day.
    pub(super) const fn malformed(self) -> u64 {
        1
    }

    const fn is_malformed(self, number: u64) -> bool {
        number == self.orders / 2
    }

    /// The event of an order, as the shop publishes it.
    pub(super) fn order(self, number: u64) -> Message {
        let draw = spread(number);
        let customer = format!("C-{}", draw % 9_973);
        let (city, pin) = place(number, draw);
        let lines: Vec<_> = (0..1 + draw % 3)
            .map(|line| {
                let (sku, cents) = GOODS[pick(draw >> (8 * line), GOODS.len())];
                json!({"sku": sku, "qty": 1 + (draw >> (4 * line)) % 3, "unit_cents": cents})
            })
            .collect();
        let order = json!({
            "order_id": format!("ORD-{number:07}"),
            "customer": {"id": customer, "tier": if draw.is_multiple_of(10) { "gold" } else { "standard" }},
            "ship_to": {"city": city, "pin": pin},
            "currency": "INR",
            "lines": lines,
        });
        let mut body = order.to_string();
        if self.is_malformed(number) {
            body.truncate(body.len() / 2);
        }
        let mut message = Message {
            key: Some(Payload::from(customer)),
            payload: Payload::from(body),
            ..Message::default()
        };
        message.headers.push_text("content-type", "application/json");
        message.headers.push_text("event-type", "order.placed");
        message.headers.push_text("event-version", "1");
        message.headers.push_text("correlation-id", format!("req_{:08x}", draw as u32));
        message
    }
}

fn place(number: u64, draw: u64) -> (&'static str, &'static str) {
    if number % ONE_IN == FIRST_BAD {
        return ("Bengaluru", NEW_DISTRICTS[pick(number / ONE_IN, NEW_DISTRICTS.len())]);
    }
    CITIES[pick(draw >> 16, CITIES.len())]
}

fn pick(draw: u64, of: usize) -> usize {
    (draw % of as u64) as usize
}

/// A number that looks drawn and is not (SplitMix64).
const fn spread(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_orders_hold_twelve_bad_ones_and_a_malformed_one() {
        let shop = Shop { orders: 100_000 };
        let new = |message: &Message| String::from_utf8_lossy(&message.payload.0).contains("Bengaluru");
        let bad = (0..shop.orders).filter(|number| new(&shop.order(*number))).count() as u64;
        assert_eq!((bad, shop.untaxed()), (12, 12));
        let broken = (0..shop.orders).filter(|number| {
            serde_json::from_slice::<serde_json::Value>(&shop.order(*number).payload.0).is_err()
        });
        assert_eq!(broken.count() as u64, shop.malformed());
    }

    #[test]
    fn the_same_order_is_the_same_at_every_start() {
        let shop = Shop { orders: 1_000 };
        assert!((0..1_000).all(|number| shop.order(number) == shop.order(number)));
        assert_ne!(shop.order(1), shop.order(2));
    }

    #[test]
    fn a_short_day_may_have_no_bad_order() {
        assert_eq!(Shop { orders: 5_000 }.untaxed(), 0);
        assert_eq!(Shop { orders: 5_001 }.untaxed(), 1);
        assert_eq!(Shop { orders: 13_001 }.untaxed(), 2);
    }
}
