//! Alarms, formatted for people. Pure.

use super::layout::short;
use crate::snapshot::AlarmSummary;
use crate::time::{Age, Span};

/// A line for each active alarm. If none is active, a line that says so; no line if no alarms are configured.
pub(crate) fn alarm_lines(alarms: Option<&[AlarmSummary]>) -> Vec<String> {
    let Some(alarms) = alarms else { return Vec::new() };
    let lines: Vec<_> = alarms.iter().filter(|alarm| alarm.active).map(line).collect();
    if lines.is_empty() { vec!["no alarm is active".into()] } else { lines }
}

fn line(AlarmSummary { task, level, severity, value, latched, since_ns, .. }: &AlarmSummary) -> String {
    let at = value.map(|value| format!(" at {}", short(value))).unwrap_or_default();
    let what = match level.as_str() {
        "bad" if *latched => "had no good value".into(),
        "bad" => "no good value".into(),
        "on" if *latched => "its condition held".into(),
        "on" => "its condition holds".into(),
        level if *latched => format!("was {level}"),
        level => format!("{level}{at}"),
    };
    let latched = if *latched { format!(", now{at}, latched until its reset") } else { String::new() };
    let since = since_ns.map(|since| format!("; active for {}", Age(Span::from_nanos(since)))).unwrap_or_default();
    format!("ALARM {task} ({severity}): {what}{latched}{since}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarm(level: &str, value: Option<f64>, latched: bool) -> AlarmSummary {
        AlarmSummary {
            task: "hot".into(),
            active: level != "normal",
            level: level.into(),
            severity: "error".into(),
            value,
            latched,
            since_ns: (level != "normal").then_some(3_200_000_000),
        }
    }

    #[test]
    fn an_alarm_that_is_active_has_a_line() {
        assert_eq!(alarm_lines(None), Vec::<String>::new());
        assert_eq!(alarm_lines(Some(&[alarm("normal", Some(1.0), false)])), ["no alarm is active"]);
        let alarms = [
            alarm("hihi", Some(231.4), false),
            alarm("normal", Some(1.0), false),
            alarm("bad", None, false),
            alarm("on", Some(1.0), false),
            alarm("high", Some(180.0), true),
            alarm("bad", Some(20.0), true),
        ];
        let wanted = [
            "ALARM hot (error): hihi at 231.4; active for 3.20 s",
            "ALARM hot (error): no good value; active for 3.20 s",
            "ALARM hot (error): its condition holds; active for 3.20 s",
            "ALARM hot (error): was high, now at 180, latched until its reset; active for 3.20 s",
            "ALARM hot (error): had no good value, now at 20, latched until its reset; active for 3.20 s",
        ];
        assert_eq!(alarm_lines(Some(&alarms)), wanted);
    }
}
