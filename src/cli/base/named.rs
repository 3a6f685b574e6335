//! Adapts the command line's texts to the program's own name: commands, help, texts in JSON. Pure.

use crate::program;
use clap::{Arg, Command};
use serde_json::Value;

/// hertzd's command line, renamed for this program.
pub(in crate::cli) fn called_by_its_name(command: Command) -> Command {
    if program::is_hertzd() {
        return command;
    }
    // Only hertzd creates projects.
    renamed(command.name(program::name())).mut_subcommand("new", |new| new.hide(true))
}

fn renamed(command: Command) -> Command {
    let (about, after) = (command.get_about().map(program::owned), command.get_after_help().map(ToString::to_string));
    let mut command = command;
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(after) = after {
        command = command.after_help(aligned(&after));
    }
    command.mut_args(with_own_help).mut_subcommands(renamed)
}

fn with_own_help(arg: Arg) -> Arg {
    match arg.get_help().map(program::owned) {
        Some(help) => arg.help(help),
        None => arg,
    }
}

/// The text below the options. Examples have two columns; the second stays in place, as far as there is room, when a name gets longer or
/// shorter.
fn aligned(help: &str) -> String {
    // hertzd's package has a unit for the exporter; a custom program might not.
    let lines = help.lines().filter(|line| !line.contains("hertzd-exporter"));
    lines.map(aligned_line).collect::<Vec<_>>().join("\n")
}

fn aligned_line(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let columns = line[indent..].find("  ").map(|at| line.split_at(indent + at));
    let Some((command, rest)) = columns.filter(|_| indent > 0) else { return program::owned(line) };
    let (said, note) = (program::owned(command), program::owned(rest.trim_start()));
    let column = line.chars().count() - rest.trim_start().chars().count();
    format!("{said}{}{note}", " ".repeat(column.saturating_sub(said.chars().count()).max(2)))
}

/// A document with its texts adapted to the program's name. Only texts under keys that are `meant` change, including those in lists.
pub(in crate::cli) fn with_texts(document: Value, meant: &dyn Fn(&str) -> bool) -> Value {
    if program::is_hertzd() {
        return document;
    }
    said(document, "", meant)
}

fn said(value: Value, key: &str, meant: &dyn Fn(&str) -> bool) -> Value {
    match value {
        Value::String(text) if meant(key) => program::owned(text).into(),
        Value::Array(list) => list.into_iter().map(|value| said(value, key, meant)).collect(),
        Value::Object(map) => {
            let of_key = |(key, value): (String, Value)| {
                let value = said(value, &key, meant);
                (key, value)
            };
            Value::Object(map.into_iter().map(of_key).collect())
        }
        other => other,
    }
}
