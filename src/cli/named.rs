//! The command line by the name of the program: commands, help and defaults. Pure.

use crate::program;
use clap::{Arg, Command};

/// The definition of hertzd's command line as that of this program.
pub(super) fn called_by_its_name(command: Command) -> Command {
    if program::is_hertzd() {
        return command;
    }
    // A project is made by hertzd.
    renamed(command.name(program::name())).mut_subcommand("new", |new| new.hide(true))
}

fn renamed(command: Command) -> Command {
    let (about, after) = (command.get_about().map(program::owned), command.get_after_help().map(program::owned));
    let mut command = command;
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(after) = after {
        command = command.after_help(without_other_units(&after));
    }
    command.mut_args(with_own_help).mut_subcommands(renamed)
}

fn with_own_help(arg: Arg) -> Arg {
    match arg.get_help().map(program::owned) {
        Some(help) => arg.help(help),
        None => arg,
    }
}

/// The package of hertzd has a unit for the exporter; a program of one's own need not.
fn without_other_units(help: &str) -> String {
    help.split_inclusive('\n').filter(|line| !line.contains("hertzd-exporter")).collect()
}
