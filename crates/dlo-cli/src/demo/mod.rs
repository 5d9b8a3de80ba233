//! The five-minute tour.

use crate::commands::demo::DemoOptions;
use crate::exit::{Failure, Outcome};

pub(crate) fn run(options: DemoOptions) -> Outcome {
    Err(Failure::failed(format!(
        "the tour is not in this build yet ({options:?}); `dlo serve` runs the office"
    )))
}
