//! Whether an office answers, and is ready.

use serde_json::Value;

use super::Finding;
use crate::client::Client;
use crate::exit::Exit;
use crate::output::{count, letters};

pub(super) fn look(client: &Client) -> Finding {
    let address = client.address();
    if let Err(failure) = client.get_raw("/healthz", &[]) {
        return match failure.exit {
            // Not a failure: everything above can be checked before the first start.
            Exit::Unreachable => Finding::weak(
                "office",
                format!("nothing answers at {address}\nstart it by `dlo serve`, or name another by --server"),
            ),
            Exit::Failed | Exit::Usage | Exit::NotFound | Exit::Refused => {
                Finding::missing("office", format!("{address} answers, but not as an office: {failure}"))
            }
        };
    }
    if let Err(failure) = client.get_raw("/readyz", &[]) {
        return Finding::missing("office", format!("{address} runs and is not ready: {failure}"));
    }
    match client.get("/api/v1/stats", &[]) {
        Ok(stats) => {
            let number = |path| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
            let (total, open) = (letters(number("/letters/total")), count(number("/letters/open")));
            Finding::fine("office", format!("{address} is ready: {total}, {open} open"))
        }
        Err(failure) => Finding::missing("office", format!("{address} is ready and refuses us: {failure}")),
    }
}
