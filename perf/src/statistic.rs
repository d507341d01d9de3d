//! The few numbers that sum up bursts. A shared machine disturbs upwards: the minimum says what
//! the work costs, the median what it cost here, and ratios are taken burst by burst, because
//! neighbours in time were disturbed alike.

/// The middle value, or the mean of the two; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The smallest value; `None` of nothing.
pub fn minimum(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// The median of the ratios `values[n] / references[n]`; `None` without one pair.
pub fn paired_ratio(values: &[f64], references: &[f64]) -> Option<f64> {
    let pairs = values.iter().zip(references);
    let ratios: Vec<f64> = pairs.map(|(value, reference)| value / reference).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_order_and_one_outlier() {
        assert_eq!(median(&[3.0, 100.0, 1.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_minimum_is_the_smallest() {
        assert_eq!(minimum(&[3.0, 1.5, 2.0]), Some(1.5));
        assert_eq!(minimum(&[]), None);
    }

    #[test]
    fn a_disturbance_of_both_neighbours_leaves_the_ratio() {
        let ours = [9.0, 18.0, 9.0];
        let theirs = [10.0, 20.0, 10.0];
        assert_eq!(paired_ratio(&ours, &theirs), Some(0.9));
        assert_eq!(paired_ratio(&[], &[]), None);
    }
}
