//! `hertzd generate`: the manual pages and shell completions, made from the command line and the key tables, so that they cannot contradict
//! them. Hidden; used to build packages.

use super::{App, Stop};
use crate::program as own;
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};

mod keys;
mod page;
mod program;

#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// Where to put them; it is made if it is not there
    dir: PathBuf,
}

pub(super) fn generate(app: &App, line: &Command, args: &GenerateArgs) -> Result<(), Stop> {
    write(app, line, &args.dir).map_err(|error| Stop::Fault(format!("writing to {}: {error}", args.dir.display())))
}

fn write(app: &App, line: &Command, dir: &Path) -> std::io::Result<()> {
    let mut command = visible(line);
    fs::create_dir_all(dir)?;
    let name = own::name();
    fs::write(dir.join(format!("{name}.8")), program::page(command.clone(), &app.version_line()))?;
    fs::write(dir.join(format!("{name}.toml.5")), keys::page(&app.kinds, &app.version_line()))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, name, dir)?;
    }
    Ok(())
}

/// The command line without hidden parts, which completions would otherwise offer.
fn visible(line: &Command) -> Command {
    let shown = line.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    Command::new(own::name())
        .version(env!("CARGO_PKG_VERSION"))
        .about(line.get_about().cloned().unwrap_or_default())
        .subcommands(shown)
        .disable_help_subcommand(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CommandLine;
    use crate::config::Kinds;
    use crate::config::{PLANT_KEYS, TASK_KEYS, TASK_SIMULATE_KEYS, WORKER_KEYS, WORKER_SIMULATE_KEYS};
    use clap::CommandFactory;
    use std::process;

    mod pages;

    /// The generated files, in a folder of their own.
    fn made() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(&App::new(Kinds::builtin()), &CommandLine::command(), dir.path()).unwrap();
        dir
    }

    fn read(dir: &tempfile::TempDir, name: &str) -> String {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        // How roff writes a hyphen and an apostrophe that can be copied.
        text.replace("\\-", "-").replace("\\*(Aq", "'")
    }

    #[test]
    fn every_command_and_option_is_in_the_page_and_the_completions() {
        let dir = made();
        let page = read(&dir, "hertzd.8");
        let completions = ["hertzd.bash", "_hertzd", "hertzd.fish"].map(|name| read(&dir, name));
        for command in CommandLine::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(page.contains(&format!(".SS \"hertzd {name}\"")), "{name}");
            assert!(completions.iter().all(|text| text.contains(name)), "{name}");
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(|argument| argument.get_long()) {
                assert!(page.contains(&format!("--{option}")), "{name} --{option}");
                assert!(completions.iter().all(|text| text.contains(option)), "{name} --{option}");
            }
        }
        for section in ["FILES", "EXIT STATUS", "ENVIRONMENT", "SIGNALS", "SEE ALSO"] {
            assert!(page.contains(section), "{section}");
        }
        assert!(!page.contains("hertzd generate"));
        assert!(completions.iter().all(|text| !text.contains("generate")));
    }

    #[test]
    fn every_key_is_in_the_page() {
        let page = read(&made(), "hertzd.toml.5");
        let kinds = Kinds::builtin();
        let own = kinds.iter().flat_map(|kind| kind.keys.iter());
        let tables = [WORKER_KEYS, WORKER_SIMULATE_KEYS, TASK_KEYS, TASK_SIMULATE_KEYS, PLANT_KEYS];
        for key in tables.into_iter().flatten().chain(own) {
            let head = format!(".TP\n\\fB{}\\fR", key.name);
            assert!(page.contains(&head), "{}", key.name);
            let first = key.about.split('`').next().unwrap_or_default();
            assert!(page.contains(first), "{}", key.name);
        }
        for kind in kinds.iter() {
            assert!(page.contains(kind.about), "{}", kind.name);
        }
    }

    #[test]
    fn the_formatter_has_no_complaint() {
        let dir = made();
        for page in ["hertzd.8", "hertzd.toml.5"] {
            let formatted = process::Command::new("man")
                .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
                .arg(dir.path().join(page))
                .env("LC_ALL", "C.UTF-8")
                .env("MANROFFSEQ", "")
                .env("MANWIDTH", "80")
                .output();
            let Ok(formatted) = formatted else {
                crate::sys::emulation::say_skipped("there is no man here");
                return;
            };
            let said = String::from_utf8_lossy(&formatted.stderr);
            assert!(formatted.status.success() && said.is_empty(), "{page}: {said}");
        }
    }
}
