//! Trends stacked by error class: the most frequent classes one by one, the others together.

use std::collections::BTreeMap;

use super::ClassTrend;

/// Rows of counts by class, as a stack.
pub(crate) fn stacked(by_class: BTreeMap<Option<String>, Vec<u64>>, buckets: usize) -> Vec<ClassTrend> {
    let mut stack: Vec<ClassTrend> = by_class
        .into_iter()
        .map(|(error_class, counts)| {
            let total = counts.iter().sum();
            ClassTrend { error_class, others: 0, counts, total }
        })
        .filter(|class| class.total > 0)
        .collect();
    stack.sort_by(|one, other| other.total.cmp(&one.total).then(one.error_class.cmp(&other.error_class)));
    if stack.len() <= ClassTrend::SHOWN {
        return stack;
    }
    let rest = stack.split_off(ClassTrend::SHOWN - 1);
    let mut counts = vec![0; buckets];
    for class in &rest {
        for (sum, count) in counts.iter_mut().zip(&class.counts) {
            *sum += count;
        }
    }
    let total = rest.iter().map(|class| class.total).sum();
    stack.push(ClassTrend { error_class: None, others: rest.len(), counts, total });
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_classes_come_first_and_the_rest_is_one() {
        let classes = (1..=20_u64).map(|n| (Some(format!("C{n:02}")), vec![n, 0])).collect();
        let stack = stacked(classes, 2);
        assert_eq!(stack.len(), ClassTrend::SHOWN);
        assert_eq!((stack[0].error_class.as_deref(), stack[0].total), (Some("C20"), 20));
        let rest = &stack[ClassTrend::SHOWN - 1];
        assert_eq!((rest.others, rest.total), (9, (1..=9).sum()));
        assert_eq!(stack.iter().map(|class| class.total).sum::<u64>(), 210);
        assert_eq!(stacked(BTreeMap::from([(None, vec![0, 0])]), 2), []);
    }
}
