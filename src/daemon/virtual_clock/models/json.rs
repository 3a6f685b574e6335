//! How late sleeps end, read from JSON: values, counts, or the percentiles of a summary. Pure.

use crate::time::Span;
use serde_json::Value;

/// How late sleeps end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    /// For any worker.
    Any(Vec<Span>),
    /// For workers with these names.
    Workers(Vec<(String, Vec<Span>)>),
    /// For sleeps on these CPUs, from `hertzd measure`.
    Cpus(Vec<OnCpu>),
}

/// How late sleeps on a CPU ended, as counts per value, ascending.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnCpu {
    pub(super) cpu: usize,
    /// Measured under load.
    pub(super) load: bool,
    counts: Vec<(Span, u64)>,
}

/// A round of values with the combined distribution of these CPUs.
pub(super) fn together<'a>(cpus: impl IntoIterator<Item = &'a OnCpu>) -> Vec<Span> {
    let mut counts: Vec<_> = cpus.into_iter().flat_map(|on| on.counts.iter().copied()).collect();
    counts.sort_unstable();
    // Each was checked when it was read, so there is something to draw from.
    drawn(&counts).unwrap_or_default()
}

/// How many values represent a distribution: enough to include the 99.99th percentile.
const DRAWS: u64 = 10_000;

/// The step from one value to the next. It shares no factor with [`DRAWS`], so each value comes once per round, and large and small values
/// alternate.
const STRIDE: u64 = 6_181;

/// Reads oversleeps from a JSON file.
pub(super) fn from_json(value: &Value) -> Result<Written, String> {
    if let Some(workers) = value.get("workers").and_then(Value::as_array) {
        let one =
            |worker: &Value| Some((worker.get("worker")?.as_str()?.to_owned(), spans(worker.get("oversleep_ns")?)));
        let all = workers
            .iter()
            .filter_map(one)
            .map(|(name, spans)| Ok((name, spans?)))
            .collect::<Result<Vec<_>, String>>()?;
        return match all.is_empty() {
            true => Err("none of its workers has oversleep_ns".into()),
            false => Ok(Written::Workers(all)),
        };
    }
    if let Some(cpus) = value.get("cpus").and_then(Value::as_array) {
        return cpus.iter().map(on_cpu).collect::<Result<Vec<_>, _>>().and_then(|all| match all.is_empty() {
            true => Err("it has no CPU".into()),
            false => Ok(Written::Cpus(all)),
        });
    }
    spans(value.get("oversleep_ns").unwrap_or(value)).map(Written::Any)
}

/// Reads what `hertzd measure` found on a CPU, under load if that was measured.
fn on_cpu(value: &Value) -> Result<OnCpu, String> {
    let cpu = value.get("cpu").and_then(Value::as_u64).and_then(|cpu| usize::try_from(cpu).ok());
    let cpu = cpu.ok_or("one of its cpus has no number")?;
    let is_load = |condition: &&Value| condition.get("load").and_then(Value::as_bool).unwrap_or(false);
    let conditions = value.get("conditions").and_then(Value::as_array);
    let condition = conditions.into_iter().flatten().max_by_key(is_load);
    let counts = condition.and_then(|condition| condition.get("sleep")?.get("oversleep_ns")?.get("counts")?.as_array());
    let (Some(condition), Some(counts)) = (condition, counts) else {
        return Err(format!("it does not say how late sleeps on CPU {cpu} ended"));
    };
    let counts = pairs(counts)?;
    drawn(&counts).map_err(|reason| format!("CPU {cpu}: {reason}"))?;
    Ok(OnCpu { cpu, load: is_load(&condition), counts })
}

fn nanos(value: &Value) -> Result<Span, String> {
    value.as_i64().map(Span::from_nanos).ok_or_else(|| format!("{value} is no whole number of nanoseconds"))
}

/// Counts per value, ascending.
fn pairs(counts: &[Value]) -> Result<Vec<(Span, u64)>, String> {
    let pair = |pair: &Value| match pair.as_array().map(Vec::as_slice) {
        Some([at, count]) => Ok((nanos(at)?, count.as_u64().ok_or_else(|| format!("{count} is no count"))?)),
        _ => Err(format!("{pair} is no pair of nanoseconds and a count")),
    };
    let mut counts = counts.iter().map(pair).collect::<Result<Vec<_>, String>>()?;
    counts.sort_unstable();
    Ok(counts)
}

/// Reads values, counts of values, or the percentiles that summarise a histogram.
fn spans(value: &Value) -> Result<Vec<Span>, String> {
    if let Some(values) = value.as_array() {
        return match values.is_empty() {
            true => Err("its list of oversleeps is empty".into()),
            false => values.iter().map(nanos).collect(),
        };
    }
    if let Some(counts) = value.get("counts").and_then(Value::as_array) {
        return drawn(&pairs(counts)?);
    }
    if value.get("count").is_some_and(|count| count.as_u64() == Some(0)) {
        return Err("it contains no sleeps".into());
    }
    let names = [("p50", 5_000), ("p90", 4_000), ("p99", 900), ("p99_9", 90), ("p99_99", 9), ("max", 1)];
    let known = |(name, count)| match value.get(name) {
        Some(at) => Ok((nanos(at)?, count)),
        None => Err(format!(
            "it has no oversleep_ns with {name}; write a list of nanoseconds, {{\"counts\": [[ns, count], …]}}, or what `run --json` prints"
        )),
    };
    drawn(&names.into_iter().map(known).collect::<Result<Vec<_>, String>>()?)
}

/// A round of values with this distribution, including the largest. Always the same, in a mixed order.
fn drawn(counts: &[(Span, u64)]) -> Result<Vec<Span>, String> {
    let total = counts.iter().fold(0_u64, |total, (_, count)| total.saturating_add(*count));
    if total == 0 {
        return Err("it contains no sleeps".into());
    }
    let draws = total.min(DRAWS);
    let at_rank = |rank: u64| {
        let mut left = rank;
        let found = counts.iter().find(|(_, count)| {
            let here = left <= *count;
            left = left.saturating_sub(*count);
            here
        });
        found.map_or(Span::ZERO, |(at, _)| *at)
    };
    // The last value of each of `draws` equal parts, so that the largest is among them.
    let rank =
        |draw: u64| u64::try_from((u128::from(draw) + 1) * u128::from(total) / u128::from(draws)).unwrap_or(total);
    let stride = if draws == DRAWS { STRIDE } else { 1 };
    Ok((0..draws).map(|nth| at_rank(rank(nth * stride % draws))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(value: &Value) -> Result<Vec<i64>, String> {
        match from_json(value)? {
            Written::Any(spans) => Ok(spans.iter().map(|span| span.nanos()).collect()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_is_played_as_it_is() {
        assert_eq!(parsed(&json!([12_000, -5])), Ok(vec![12_000, -5]));
        assert_eq!(parsed(&json!({"version": 1, "oversleep_ns": [7]})), Ok(vec![7]));
    }

    #[test]
    fn counts_and_percentiles_become_values_with_that_distribution() {
        let counts = json!({"oversleep_ns": {"counts": [[90_000, 1], [10_000, 98], [20_000, 1]]}});
        let mut values = parsed(&counts).unwrap();
        values.sort_unstable();
        assert_eq!((values.len(), values[97], values[98], values[99]), (100, 10_000, 20_000, 90_000));

        let summary = json!({"count": 5_000_000, "min": 1, "p50": 10, "p90": 20, "p99": 30, "p99_9": 40, "p99_99": 50, "max": 60});
        let mut values = parsed(&json!({"oversleep_ns": summary})).unwrap();
        let first = values.clone();
        assert_eq!(first, parsed(&json!({"oversleep_ns": summary})).unwrap());
        let late = |part: &[i64]| part.iter().filter(|value| **value > 10).count();
        assert!((4_900..5_100).contains(&(2 * late(&first[..5_000]))), "large ones are spread");
        values.sort_unstable();
        let ranks = [4_999, 5_000, 8_999, 9_000, 9_899, 9_900, 9_990, 9_999];
        assert_eq!(ranks.map(|rank| values[rank]), [10, 20, 20, 30, 30, 40, 50, 60]);
    }

    #[test]
    fn each_cpu_of_a_measurement_has_its_own_and_under_load_counts_more_than_idle() {
        let sleep = |load: bool, late: i64| json!({"load": load, "sleep": {"oversleep_ns": {"counts": [[late, 2]]}}});
        let file = json!({"cpus": [
            {"cpu": 0, "conditions": [sleep(false, 10), sleep(true, 70)]},
            {"cpu": 5, "conditions": [sleep(false, 20)]},
        ]});
        let Ok(Written::Cpus(all)) = from_json(&file) else { panic!("{file}") };
        assert_eq!(all.iter().map(|on| (on.cpu, on.load)).collect::<Vec<_>>(), [(0, true), (5, false)]);
        let nanos = |cpus: &[OnCpu]| together(cpus).iter().map(|span| span.nanos()).collect::<Vec<_>>();
        assert_eq!([nanos(&all[..1]), nanos(&all[1..])], [vec![70; 2], vec![20; 2]]);
        let mut both = nanos(&all);
        both.sort_unstable();
        assert_eq!(both, [20, 20, 70, 70]);
        for (cpus, reason) in [
            (json!([]), "it has no CPU"),
            (json!([{"cpu": -1}]), "no number"),
            (json!([{"cpu": 1}]), "how late sleeps on CPU 1 ended"),
            (json!([{"cpu": 1, "conditions": [sleep(false, 1), {"load": true}]}]), "how late sleeps on CPU 1 ended"),
            (
                json!([{"cpu": 1, "conditions": [{"sleep": {"oversleep_ns": {"counts": []}}}]}]),
                "CPU 1: it contains no sleeps",
            ),
        ] {
            let error = from_json(&json!({"cpus": cpus})).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        for (value, reason) in [
            (json!([]), "its list of oversleeps is empty"),
            (json!(["12us"]), "\"12us\" is no whole number of nanoseconds"),
            (json!({"counts": [[1]]}), "[1] is no pair"),
            (json!({"counts": []}), "it contains no sleeps"),
            (json!({"oversleep_ns": {"count": 0, "p50": 0}}), "it contains no sleeps"),
            (json!({"tasks": []}), "it has no oversleep_ns with p50"),
            (json!({"workers": [{"worker": "a"}]}), "none of its workers has oversleep_ns"),
        ] {
            let error = from_json(&value).unwrap_err();
            assert!(error.starts_with(reason), "{value}: {error}");
        }
    }
}
