//! Recorded values from a CSV, for replay. Reading blocks; reads no clock.

use crate::channels::Column;
use crate::sys::{entry, limited};
use crate::time::{Instant, Span};
use std::io::Read;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The columns before the values: the index and the time of a tick or sample, and a tick's lateness.
const TIMES: [&str; 2] = ["release_utc", "sample_utc"];
const LATENESS: &str = "lateness_ns";

/// The first bytes of an MCAP file.
const MCAP: &[u8] = b"\x89MCAP0\r\n";

/// The largest file in bytes, all of which is kept in memory: half a day at 1 kHz.
const LARGEST: u64 = 2 << 30;

/// More columns than any task has.
const MOST_COLUMNS: usize = 1 << 16;

/// The rows of a CSV.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedValues {
    pub(crate) columns: Vec<Column>,
    times: Vec<Span>, // since the first row, ascending
    values: Vec<f64>, // row by row; NaN: missing
    end: Span,        // nothing was recorded from then on
}

impl RecordedValues {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = entry::open(path, libc::O_RDONLY).map_err(|error| failed(&error))?;
        // A pipe or a device may never end.
        if !file.metadata().map_err(|error| failed(&error))?.is_file() {
            return Err(failed(&"it is no regular file"));
        }
        let mut first = Vec::new();
        (&file).take(MCAP.len() as u64).read_to_end(&mut first).map_err(|error| failed(&error))?;
        if first == MCAP {
            return Err(failed(
                &"this is an MCAP recording, and only a CSV can be played: record = \"FILE.csv\" writes one",
            ));
        }
        let text = limited::text((&*first).chain(&file), LARGEST).map_err(|error| failed(&error))?;
        Self::parse(&text).map_err(|(line, reason)| format!("{}:{line}: {reason}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let wanted = || {
            let text = "this is no recording of values: its first line must be as hertzd writes it, tick,release_utc,lateness_ns and a \
                        column for each value";
            (1, text.to_owned())
        };
        let (_, header) = lines.next().ok_or_else(wanted)?;
        if header.bytes().filter(|byte| *byte == b',').nth(MOST_COLUMNS).is_some() {
            return Err((1, format!("this line has more than {MOST_COLUMNS} columns")));
        }
        let titles = cells(header);
        let own = match titles.get(..2) {
            Some([tick, time]) if tick == "tick" && TIMES.contains(&time.as_str()) => {
                2 + usize::from(titles.get(2).is_some_and(|title| title == LATENESS))
            }
            _ => return Err(wanted()),
        };
        let columns: Vec<Column> = titles[own..].iter().map(|title| column(title)).collect();
        let again = |(at, column): &(usize, &Column)| columns[..*at].iter().any(|other| other.name == column.name);
        if let Some((_, Column { name, .. })) = columns.iter().enumerate().find(again) {
            return Err((1, format!("several columns are named {name:?}")));
        }
        let (mut times, mut values) = (Vec::new(), Vec::new());
        let mut first = None;
        for (number, line) in lines {
            // A run that continues a file may write its header again.
            if line.is_empty() || line == header {
                continue;
            }
            let cells = cells(line);
            if cells.len() != titles.len() {
                let text = format!("this line has {} cells, and the first one {}", cells.len(), titles.len());
                return Err((number, text));
            }
            let time = nanos_since_1970(&cells[1])
                .ok_or_else(|| (number, format!("{:?} is no time such as 2026-11-21T03:13:18.5Z", cells[1])))?;
            let since = Span::from_wide(time - *first.get_or_insert(time));
            if times.last().is_some_and(|last| since < *last) {
                return Err((number, format!("{} is before the line above it", cells[1])));
            }
            times.push(since);
            for cell in &cells[own..] {
                values.push(match cell.as_str() {
                    "" => f64::NAN,
                    cell => {
                        finite(cell).ok_or_else(|| (number, format!("{cell:?} is no number that a float can hold")))?
                    }
                });
            }
        }
        let Some(last) = times.last() else { return Err((1, "there is no row of values in it".to_owned())) };
        let usual = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Span::MAX);
        let end = Span::from_wide(i128::from(last.nanos()) + i128::from(usual.nanos()));
        Ok(Self { columns, times, values, end })
    }

    /// The time from the first row to the end of the recording.
    pub(crate) fn length(&self) -> Span {
        self.end
    }

    /// The values of the last row at or before `since`, which counts from the first row; `None` after the end.
    pub(crate) fn at(&self, since: Span) -> Option<&[f64]> {
        let row = self.times.partition_point(|time| *time <= since).checked_sub(1)?;
        let width = self.columns.len();
        (since < self.end).then(|| &self.values[row * width..(row + 1) * width])
    }
}

/// The cells of a line. Quoted cells may contain commas.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut characters = line.chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        let Some(cell) = cells.last_mut() else { break };
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    cells
}

/// The number in a cell. A recording may contain `inf`, but no other number may overflow to it.
fn finite(cell: &str) -> Option<f64> {
    let number: f64 = cell.parse().ok()?;
    (number.is_finite() || !cell.contains(|c: char| c.is_ascii_digit())).then_some(number)
}

/// `NAME [UNIT]`, or only a name.
fn column(title: &str) -> Column {
    let with_unit = title.strip_suffix(']').and_then(|title| title.rsplit_once(" ["));
    let (name, unit) = with_unit.unwrap_or((title, ""));
    Column { name: name.into(), unit: unit.into() }
}

fn nanos_since_1970(text: &str) -> Option<i128> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i128::try_from(since.as_nanos()).ok()
}

/// Which row to play at `release`, for a task whose first tick is at `zero`. The clock may have been adjusted during the recording, so a
/// row up to a tenth of a period later still belongs to this tick.
pub(crate) fn played_at(release: Instant, zero: Instant, period: Span) -> Span {
    release - zero + Span::from_nanos(period.nanos() / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const TEXT: &str = "tick,release_utc,lateness_ns,temp1 [°C],\"a,\"\"b\"\"\"\n\
        0,2026-11-21T03:13:18.600000000Z,10,20.5,1\n\
        1,2026-11-21T03:13:18.700000100Z,10,,2\n\
        3,2026-11-21T03:13:19.000000000Z,10,22,-3e2\n";

    fn at(values: &RecordedValues, millis: i64) -> Option<Vec<Option<f64>>> {
        let number = |value: &f64| (!value.is_nan()).then_some(*value);
        values.at(Span::from_millis(millis)).map(|row| row.iter().map(number).collect())
    }

    #[test]
    fn the_latest_row_is_played_until_the_recording_ends() {
        let values = RecordedValues::parse(TEXT).unwrap();
        let names: Vec<_> = values.columns.iter().map(|column| (column.name.as_str(), column.unit.as_str())).collect();
        assert_eq!(names, [("temp1", "°C"), ("a,\"b\"", "")]);
        assert_eq!(at(&values, 0), Some(vec![Some(20.5), Some(1.0)]));
        assert_eq!(at(&values, 100), Some(vec![Some(20.5), Some(1.0)]), "the next row is 100 ns later");
        assert_eq!(at(&values, 101), Some(vec![None, Some(2.0)]));
        assert_eq!(at(&values, 399), Some(vec![None, Some(2.0)]));
        assert_eq!(at(&values, 400), Some(vec![Some(22.0), Some(-300.0)]));
        // The longest time between two rows was 299.9999 ms.
        assert_eq!(at(&values, 699), Some(vec![Some(22.0), Some(-300.0)]));
        assert_eq!(at(&values, 700), None);
        let zero = Instant::ZERO + Span::from_millis(7);
        let played = played_at(zero + Span::from_millis(100), zero, Span::from_millis(100));
        assert_eq!(values.at(played).map(|row| row[1]), Some(2.0), "the row of this tick, though its clock was set");
    }

    #[test]
    fn a_first_line_without_end_is_refused() {
        let text = "tick,release_utc".to_owned() + &",".repeat(MOST_COLUMNS);
        let refused = RecordedValues::parse(&text).unwrap_err();
        assert_eq!(refused, (1, "this line has more than 65536 columns".to_owned()));
    }

    #[test]
    fn a_file_that_is_no_recording_is_refused_at_its_line() {
        let wrong = |from: &str, to: &str| RecordedValues::parse(&TEXT.replace(from, to)).unwrap_err();
        assert_eq!(wrong("tick,", "time,").0, 1);
        assert_eq!(wrong("20.5,1", "20.5"), (2, "this line has 4 cells, and the first one 5".into()));
        assert_eq!(wrong(",,2", ",warm,2"), (3, "\"warm\" is no number that a float can hold".into()));
        assert_eq!(wrong(",,2", ",1e400,2").0, 3);
        let text = "several columns are named \"temp1\"";
        assert_eq!(wrong("\"a,\"\"b\"\"\"", "temp1"), (1, text.into()));
        assert!(RecordedValues::parse(&TEXT.replace("22,", "-inf,")).is_ok(), "as a recording has it");
        assert_eq!(wrong("19.000000000Z", "17Z").0, 4);
        assert_eq!(wrong("2026-11-21T03:13:18.6", "yesterday").0, 2);
        assert_eq!(RecordedValues::parse("").unwrap_err().0, 1);
        let header = TEXT.lines().next().unwrap();
        assert_eq!(RecordedValues::parse(header).unwrap_err(), (1, "there is no row of values in it".into()));
    }

    #[test]
    fn an_mcap_recording_is_refused_with_what_to_record_instead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.mcap");
        fs::write(&path, [MCAP, &[0xff; 64]].concat()).unwrap();
        let refused = RecordedValues::read(&path).unwrap_err();
        assert!(refused.ends_with("only a CSV can be played: record = \"FILE.csv\" writes one"), "{refused}");
    }
}
