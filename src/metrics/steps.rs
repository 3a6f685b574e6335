//! A histogram in steps of about an eighth: few enough numbers to send, with edges that are easy to read. Pure arithmetic.

/// The upper edges of a decade, starting from its lower end: the preferred numbers R20 of ISO 3, in two digits.
const DECADE: [u64; 20] = [10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 45, 50, 56, 63, 71, 80, 90];

/// All upper edges in ascending order: 10, 11, 12, 14 and so on. Each is ten times the edge twenty places before.
fn edges() -> impl Iterator<Item = u64> {
    let decades = (0..18).map(|power| 10_u64.pow(power));
    decades.flat_map(|scale| DECADE.iter().map(move |edge| edge.saturating_mul(scale))).chain([u64::MAX])
}

/// Sums up counts of values, which come in ascending order. Returns pairs of an upper edge and the number of values at most that large and
/// above the edge before. Pairs with no values are left out.
pub(super) fn coarse(counts: impl Iterator<Item = (u64, u64)>) -> Vec<(i64, u64)> {
    let mut edges = edges();
    let mut pairs: Vec<(i64, u64)> = Vec::new();
    let mut edge = None; // edge of the last pair
    for (value, count) in counts {
        if edge.is_none_or(|edge| value > edge) {
            edge = edges.by_ref().find(|edge| *edge >= value);
            pairs.push((edge.and_then(|edge| i64::try_from(edge).ok()).unwrap_or(i64::MAX), 0));
        }
        if let Some((_, sum)) = pairs.last_mut() {
            *sum = sum.saturating_add(count);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_counts_at_the_next_edge_and_that_is_near() {
        let values = || (0..2_000_000_u64).step_by(37).chain([10_000_000_000, u64::MAX]);
        let pairs = coarse(values().map(|value| (value, 1)));
        assert_eq!(pairs.iter().map(|(_, count)| count).sum::<u64>(), values().count() as u64);
        let mut before = -1;
        for (edge, count) in &pairs {
            let within = |value: &u64| i64::try_from(*value).unwrap_or(i64::MAX);
            let here = values().filter(|value| within(value) > before && within(value) <= *edge).count() as u64;
            assert_eq!((here, *count > 0), (*count, true), "up to {edge}");
            before = *edge;
        }
        let all: Vec<_> = edges().collect();
        let near = |pair: &[u64]| pair[0] < pair[1] && pair[1] <= pair[0] + pair[0] / 6;
        assert!(all[..all.len() - 1].windows(2).all(near), "{all:?}");
        for decimal in [1_000, 2_000, 5_000, 10_000, 1_000_000_000] {
            assert!(all.contains(&decimal), "metrics are counted up to {decimal}");
        }
    }
}
