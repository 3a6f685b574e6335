//! The only way to the terminal, except for the log and the live view. Text for people never contains characters that a terminal would
//! interpret as a command, wherever the text came from. `tests/always/rooms.rs` keeps other files from printing.

use super::Stop;
use crate::escape::{styled, visible, visible_json};
use crate::program;
use crate::sys::fd::{PAGE, write_within};
use crate::time::Span;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

/// How long output waits for a stalled reader of stdout, and an error message for one of stderr.
const STDOUT_PATIENCE: Span = Span::from_seconds(10);
const STDERR_PATIENCE: Span = Span::from_seconds(1);

/// Whether stdout is a terminal.
pub(in crate::cli) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether stderr is a terminal.
pub(in crate::cli) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether stdout gets colours: it is a terminal, and `NO_COLOR` is not set (no-color.org).
pub(in crate::cli) fn is_coloured() -> bool {
    stdout_is_terminal() && colours_are_wanted()
}

/// Whether stderr gets colours.
pub(in crate::cli) fn stderr_is_coloured() -> bool {
    stderr_is_terminal() && colours_are_wanted()
}

fn colours_are_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|asked| asked.is_empty())
}

/// Text that is ready to be written to stdout.
pub(in crate::cli) struct Shown(String);

impl Shown {
    /// Text for people: characters that would command a terminal are escaped.
    pub(in crate::cli) fn text(text: &str) -> Self {
        Self(visible(text).into_owned())
    }

    /// The same, coloured if stdout has colours. `text` makes it with or without.
    pub(in crate::cli) fn styled(text: impl FnMut(bool) -> String) -> Self {
        Self(styled(is_coloured(), text))
    }

    /// JSON for programs: the same values, encoded so that a terminal can show them safely.
    pub(in crate::cli) fn json(text: String) -> Self {
        match visible_json(&text) {
            Cow::Owned(shown) => Self(shown),
            Cow::Borrowed(_) => Self(text),
        }
    }

    /// A file's content, which must stay unchanged. Escaped like [`text`](Self::text) only if stdout is a terminal.
    pub(in crate::cli) fn document(text: &str) -> Self {
        if stdout_is_terminal() { Self::text(text) } else { Self(text.to_owned()) }
    }

    #[cfg(test)]
    pub(in crate::cli) fn as_str(&self) -> &str {
        &self.0
    }

    /// Writes it to stdout. Gives up if the reader takes nothing for [`STDOUT_PATIENCE`].
    pub(in crate::cli) fn print(&self) -> Result<(), Stop> {
        Ok(Stdout.write_all(self.0.as_bytes())?)
    }

    /// Like [`print`](Self::print), for a command whose exit code says more: a closed stdout does not change it.
    pub(in crate::cli) fn print_beside_verdict(&self) -> Result<(), Stop> {
        match self.print() {
            Err(Stop::StdoutClosed) => Ok(()),
            printed => printed,
        }
    }

    /// Like [`print_beside_verdict`](Self::print_beside_verdict), for a command that may take at most `limit`. Gives up if the reader has
    /// not taken everything when `left` reaches zero.
    pub(in crate::cli) fn print_while_time_is_left(&self, limit: Span, left: impl Fn() -> Span) -> Result<(), Stop> {
        for part in self.0.as_bytes().chunks(PAGE) {
            match write_within(io::stdout().lock(), part, left()) {
                Ok(true) => {}
                Ok(false) => {
                    return Err(Stop::Fault(format!(
                        "stdout was not read within {limit}, so the output is incomplete"
                    )));
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Writes a text for people to stdout.
pub(in crate::cli) fn print(text: &str) -> Result<(), Stop> {
    Shown::text(text).print()
}

/// Writes JSON to stdout, on one line. The text is never in memory as a whole: for ten thousand tasks it is 20 MB.
pub(in crate::cli) fn print_json(value: &impl Serialize) -> Result<(), Stop> {
    let mut stdout = BufWriter::with_capacity(1 << 16, Stdout);
    write_json(&mut stdout, value)?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}

/// Writes JSON like [`Shown::json`].
pub(in crate::cli) fn write_json(to: impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(to, VisibleJson))
}

/// Formats JSON so that it cannot command a terminal.
struct VisibleJson;

impl Formatter for VisibleJson {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        writer.write_all(visible_json(fragment).as_bytes())
    }
}

/// stdout for output written piece by piece. `is_text`: each write is complete text; a terminal gets it like [`Shown::document`].
pub(in crate::cli) fn stdout(is_text: bool) -> impl Write {
    BufWriter::with_capacity(1 << 16, Document { is_shown: is_text && stdout_is_terminal() })
}

struct Document {
    is_shown: bool,
}

impl Write for Document {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stdout = io::stdout().lock();
        match self.is_shown {
            true => stdout.write_all(visible(&String::from_utf8_lossy(bytes)).as_bytes()).map(|()| bytes.len()),
            false => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Waits a limited time for the reader of stdout.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match write_within(io::stdout().lock(), bytes, STDOUT_PATIENCE)? {
            true => Ok(bytes.len()),
            false => {
                let text = format!("it was not read for {STDOUT_PATIENCE}, so the output is incomplete");
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a message to stderr, prefixed with the program's name.
pub(in crate::cli) fn note(text: &str) {
    say(&format!("{}: {}", program::name(), program::own(text)));
}

/// Writes a message to stderr, on lines of its own.
pub(in crate::cli) fn say(text: &str) {
    write_stderr(visible(text).into_owned() + "\n");
}

/// Reports how a command ended, and returns the exit status.
pub(in crate::cli) fn report(stop: &Stop) -> ExitCode {
    if let Some((text, _)) = stop.text(stderr_is_coloured()) {
        write_stderr(text + "\n");
    }
    stop.code().map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// Reports what was wrong with the command line, or prints the help or version text.
pub(in crate::cli) fn report_usage(error: &clap::Error) {
    let plain = error.to_string();
    match visible(&plain) {
        Cow::Borrowed(_) => drop(error.print()), // with clap's own colours
        Cow::Owned(text) => write_stderr(text),
    }
}

fn write_stderr(text: String) {
    // If stderr is not read, there is nowhere else to write it.
    let _ = write_within(io::stderr().lock(), text.as_bytes(), STDERR_PATIENCE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_command_for_a_terminal_however_it_is_written() {
        let value = ["fan\u{9b}2J\u{202e}\u{7f}\u{1b}", "a\"b\\\n"];
        let mut written = Vec::new();
        write_json(&mut written, &value).unwrap();
        let expected = r#"["fan\u009b2J\u202e\u007f\u001b","a\"b\\\n"]"#;
        assert_eq!(String::from_utf8(written).unwrap(), expected);
        assert_eq!(Shown::json(serde_json::to_string(&value).unwrap()).as_str(), expected);
    }
}
