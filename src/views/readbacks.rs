//! Results of reading outputs back, formatted for people. Pure.

use crate::snapshot::ReadbackSummary;

/// A line for each target that at some time differed from what was written, or could not be read.
pub(super) fn readback_lines(readbacks: &[ReadbackSummary]) -> Vec<String> {
    let is_worth = |readback: &&ReadbackSummary| readback.differences + readback.unreadable > 0;
    readbacks.iter().filter(is_worth).map(line).collect()
}

fn line(ReadbackSummary { task, compared, differences, unreadable, .. }: &ReadbackSummary) -> String {
    let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let began = match differences {
        0 => String::new(),
        _ => format!("; what was read began to differ from what was written {}", times(*differences)),
    };
    let failed = match unreadable {
        0 => String::new(),
        _ => format!("; it could not be read {}", times(*unreadable)),
    };
    format!("{task}: its target was read back and compared {}{began}{failed}", times(*compared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_targets_that_were_not_as_written_have_a_line() {
        let readback = |differences, unreadable| ReadbackSummary {
            task: "fan".into(),
            compared: 20,
            differences,
            unreadable,
            ..ReadbackSummary::default()
        };
        assert_eq!(
            readback_lines(&[readback(0, 0), readback(1, 0), readback(2, 3)]),
            [
                "fan: its target was read back and compared 20 times; what was read began to differ from what was written once",
                "fan: its target was read back and compared 20 times; what was read began to differ from what was written 2 \
                 times; it could not be read 3 times"
            ]
        );
    }
}
