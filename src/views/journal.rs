//! Journal entries, as `journalctl -o json` prints them, formatted for people and for programs. Pure: JSON in, text out.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// The prefix of our own fields.
const PREFIX: &str = "HERTZD_";

/// Formats an instant, given in microseconds since 1970, as RFC 3339 in UTC.
pub(crate) type Utc = fn(u64) -> String;

/// The column widths so far. They only grow, because entries arrive one by one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Widths {
    task: usize,
    cause: usize,
}

/// Whether the entry counts this cause.
pub(crate) fn has_cause(entry: &Value, cause: &str) -> bool {
    let counted = text(entry, "HERTZD_CAUSES").unwrap_or_default();
    let mut causes = counted.split(' ').filter_map(|part| part.split('=').next());
    causes.any(|word| word == cause) || text(entry, "HERTZD_CAUSE").is_some_and(|word| word == cause)
}

/// An entry as one line: when, which task, the cause of most of its misses, and what happened. `emphasis` turns on colours, for a terminal.
pub(crate) fn entry_line(entry: &Value, widths: &mut Widths, utc: Utc, emphasis: bool) -> String {
    let field = |name| text(entry, name).unwrap_or_default();
    let (task, cause, message) = (field("HERTZD_TASK"), field("HERTZD_CAUSE"), field("MESSAGE"));
    let story = message.strip_prefix(&format!("{task}: ")).unwrap_or(&message);
    let shown = |word: &str| if word.is_empty() { "-".to_owned() } else { word.to_owned() };
    let (task, cause) = (shown(&task), shown(&cause));
    widths.task = widths.task.max(task.chars().count());
    widths.cause = widths.cause.max(cause.chars().count());
    let (on, off) = match (emphasis, field("PRIORITY").as_str()) {
        (true, "0" | "1" | "2" | "3") => ("\x1b[31m", "\x1b[0m"),
        (true, "4") => ("\x1b[33m", "\x1b[0m"),
        _ => ("", ""),
    };
    let time = time(entry, utc).replace('T', " ");
    let mut lines = story.trim_end().split('\n');
    let first = lines.next().unwrap_or_default();
    let mut line = format!("{time}  {task:<0$}  {cause:<1$}  {on}{first}{off}\n", widths.task, widths.cause);
    // Writing to a String cannot fail.
    lines.for_each(|rest| _ = writeln!(line, "  {on}{rest}{off}"));
    line
}

/// An entry as one line of JSON, with the same names as `run --log-format json`: `time`, `level`, `message`, then its fields.
pub(crate) fn entry_json(entry: &Value, utc: Utc) -> String {
    let level = match text(entry, "PRIORITY").as_deref() {
        Some("0" | "1" | "2" | "3") => "error",
        Some("4") => "warn",
        Some("7") => "debug",
        _ => "info",
    };
    let mut shown = Map::new();
    shown.insert("time".into(), time(entry, utc).into());
    shown.insert("level".into(), level.into());
    shown.insert("message".into(), text(entry, "MESSAGE").unwrap_or_default().into());
    if let Some(process) = text(entry, "_PID").and_then(|process| process.parse::<u64>().ok()) {
        shown.insert("process".into(), process.into());
    }
    for name in entry.as_object().into_iter().flat_map(Map::keys) {
        let Some(short) = name.strip_prefix(PREFIX).filter(|short| *short != "TIME") else { continue };
        let value = text(entry, name).unwrap_or_default();
        let number = value.parse::<i64>().map(Value::from);
        shown.insert(short.to_lowercase(), number.unwrap_or_else(|_| value.into()));
    }
    if let Some(id) = text(entry, "MESSAGE_ID") {
        shown.insert("message_id".into(), id.into());
    }
    Value::Object(shown).to_string() + "\n"
}

/// When it happened, in UTC. The journal's own timestamp is only when the entry arrived.
fn time(entry: &Value, utc: Utc) -> String {
    let arrived = || text(entry, "__REALTIME_TIMESTAMP").and_then(|micros| micros.parse().ok()).unwrap_or(0);
    text(entry, "HERTZD_TIME").unwrap_or_else(|| utc(arrived()))
}

/// A field as text. journalctl prints a field that is not UTF-8 as a list of bytes, and a repeated field as a list of its values.
fn text(entry: &Value, name: &str) -> Option<String> {
    match entry.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) if parts.iter().all(Value::is_u64) => {
            let bytes = parts.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
            Some(String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned())
        }
        Value::Array(parts) => Some(parts.last()?.as_str()?.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn utc(micros: u64) -> String {
        format!("at {micros}")
    }

    fn missed() -> Value {
        json!({"PRIORITY": "4", "HERTZD_TIME": "2026-11-22T17:41:03.123456Z", "__REALTIME_TIMESTAMP": "1", "_PID": "88",
            "HERTZD_TASK": "control", "HERTZD_CAUSE": "blocked", "HERTZD_CAUSES": "woken-late=1 blocked=50",
            "HERTZD_MISSED": "51", "MESSAGE": "control: missed 51 of 1002 in 1.00 s (51 skipped); 50 blocked by report"})
    }

    #[test]
    fn a_line_says_when_which_task_why_and_what_happened() {
        let mut widths = Widths::default();
        let line = entry_line(&missed(), &mut widths, utc, false);
        let wanted = "2026-11-22 17:41:03.123456Z  control  blocked  missed 51 of 1002 in 1.00 s (51 skipped); \
                      50 blocked by report\n";
        assert_eq!(line, wanted);
        let of_systemd =
            json!({"PRIORITY": "6", "__REALTIME_TIMESTAMP": "1500000", "MESSAGE": "Started\u{1b}[2J\nnow"});
        let line = entry_line(&of_systemd, &mut widths, utc, true);
        assert_eq!(line, "at 1500000  -        -        Started\u{1b}[2J\n  now\n");
        assert!(entry_line(&missed(), &mut widths, utc, true).contains("\x1b[33mmissed 51 "));
    }

    #[test]
    fn every_cause_that_was_counted_is_found() {
        for (cause, found) in [("blocked", true), ("woken-late", true), ("woken", false), ("unknown", false)] {
            assert_eq!(has_cause(&missed(), cause), found, "{cause}");
        }
    }

    #[test]
    fn programs_get_the_names_of_the_json_log() {
        let shown: Value = serde_json::from_str(&entry_json(&missed(), utc)).unwrap();
        assert_eq!((&shown["level"], &shown["missed"], &shown["process"]), (&json!("warn"), &json!(51), &json!(88)));
        assert_eq!((&shown["task"], &shown["time"]), (&json!("control"), &json!("2026-11-22T17:41:03.123456Z")));
        let bytes = json!({"MESSAGE": [104, 105, 255], "HERTZD_TASK": ["a", "b"]});
        let shown: Value = serde_json::from_str(&entry_json(&bytes, utc)).unwrap();
        assert_eq!((&shown["message"], &shown["task"]), (&json!("hi\u{fffd}"), &json!("b")));
    }
}
