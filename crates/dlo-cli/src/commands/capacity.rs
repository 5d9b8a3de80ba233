//! `dlo capacity estimate`: arithmetic of the core, as a table.

use dlo_core::capacity::{Estimate, Load, estimate as work_out};
use dlo_core::units::{ByteSize, HumanDuration};
use serde_json::json;

use crate::args::EstimateArgs;
use crate::exit::{Failure, Outcome};
use crate::output::{Align, Out, Table, count};

pub(super) fn estimate(args: &EstimateArgs) -> Outcome {
    let load = Load {
        replication: args.replication,
        ..Load::new(args.rate, ByteSize(args.size), args.failures, HumanDuration(args.retention))
    };
    let estimate = work_out(&load).map_err(|bad| Failure::usage(bad.to_string()))?;
    let out = Out::new(args.json);
    if out.json {
        return out.value(&json!({ "load": load, "estimate": estimate }));
    }
    out.table(&table(&load, &estimate))
}

fn table(load: &Load, estimate: &Estimate) -> Table {
    let mut table = Table::new(&[("WHAT", Align::Left), ("HOW MUCH", Align::Right), ("WHY", Align::Left)]);
    let rate = format!("{}/s × {}%", load.rate, trimmed(load.failure_rate * 100.0));
    table.row(["letters a day", &count(estimate.letters_per_day), &rate]);
    let kept = format!("{} of them", load.retention);
    table.row(["letters kept", &count(estimate.letters_kept), &kept]);
    let room = format!(
        "{} each, bodies at {}%, {}% room on top",
        load.size.rounded(),
        trimmed(load.compression * 100.0),
        trimmed(load.overhead * 100.0)
    );
    table.row(["the office's store", &estimate.store_bytes.rounded(), &room]);
    let copies = format!("{} copies, if the queue keeps letters as long", load.replication);
    table.row(["the dead-letter queue", &estimate.broker_bytes.rounded(), &copies]);
    let outage = format!("sized for an outage in which {}% fail", trimmed(load.outage_failure_rate * 100.0));
    table.row(["its partitions", &count(estimate.partitions), &outage]);
    table
}

/// At most four digits behind the point, none that say nothing.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::trimmed;

    #[test]
    fn a_percentage_has_the_digits_that_say_something() {
        assert_eq!([trimmed(0.1), trimmed(100.0), trimmed(0.0125)], ["0.1", "100", "0.0125"]);
    }
}
