//! Formats shares, rates and CPUs. Pure.

#[expect(clippy::cast_precision_loss, reason = "a share, of which two digits are shown")]
pub(super) fn ratio(part: i64, of: i64) -> f64 {
    part as f64 / of.max(1) as f64
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent {
        percent if percent >= 10.0 => 0,
        percent if percent >= 1.0 => 1,
        _ => 2,
    };
    format!("{percent:.digits$} %")
}

pub(super) fn hertz(rate: &str) -> &str {
    rate.strip_suffix("/1").unwrap_or(rate)
}

pub(super) fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
