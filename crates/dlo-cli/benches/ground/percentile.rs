//! Percentiles of what was timed, for workloads that ask one question many times.

/// The value below which the share `part` of some figures lies.
pub(crate) fn percentile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let index = ((figures.len() as f64 * part).ceil() as usize).clamp(1, figures.len()) - 1;
    figures[index]
}
