//! An inverted pendulum to watch: a pole that a cart balances, and what it takes for it to fall. docs/tutorials/pendulum.md tells the story.
//!
//!     cargo run --release --example pendulum
//!
//! Three processes: the plant, stepped by `FixedStep` at 1 kHz; the daemon, with a controller at 200 Hz from TOML; and this one, which starts
//! both, draws at 60 Hz, and ends them. All three are this program: with the words of hertzd's command line it is hertzd.

mod desk;
mod parts;
mod physics;
mod plant;
mod row;
mod time;
mod view;
mod watch;

use clap::Parser;
use hertzd::{App, Kinds};
use parts::Busy;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

/// The configuration that holds.
const USUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/pendulum/pendulum.toml");

/// Balances a pole on a cart, and shows it. Keys: the arrows push the cart, r sets it up again, q quits.
#[derive(Debug, Parser)]
#[command(
    name = "pendulum",
    after_help = "Exit codes: 0 the pole stood to the end; 1 it did not; 64 wrong words; 70 it could not be run."
)]
pub(crate) struct Words {
    /// The configuration of the daemon
    #[arg(default_value = USUAL)]
    config: PathBuf,
    /// Print a line per second instead of drawing, as where standard output is no terminal
    #[arg(long)]
    headless: bool,
    /// End after this many seconds [default: 10 without a drawing, else never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
    /// After 3 s keep the worker's CPU busy with eight loops, and give the worker the lowest weight (nice 19)
    #[arg(long)]
    busy: bool,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let first = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let done = match (first, &words[..]) {
        ("plant", [_, folder]) => plant::run(folder.as_ref()).map_err(|error| format!("the plant: {error}")),
        ("busy", [_, cpu, loops]) => burn(cpu, loops),
        ("desk", [_, config]) => print_desk(config.as_ref()),
        ("" | "-h" | "--help", _) => return watch(),
        (word, _) if word.starts_with("--") || word.ends_with(".toml") => return watch(),
        _ => match parts::end_with_input() {
            Ok(()) => return App::new(Kinds::builtin().add(desk::kind())).main(),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pendulum: {why}");
            ExitCode::from(70)
        }
    }
}

fn watch() -> ExitCode {
    let words = match Words::try_parse() {
        Ok(words) => words,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    watch::watch(&words).unwrap_or_else(|why| {
        eprintln!("pendulum: {why}");
        ExitCode::from(70)
    })
}

fn burn(cpu: &OsStr, loops: &OsStr) -> Result<(), String> {
    let number = |word: &OsStr| word.to_str().and_then(|word| word.parse().ok());
    let busy =
        number(cpu).zip(number(loops)).and_then(|(cpu, loops)| Some(Busy { cpu, loops: loops.try_into().ok()? }));
    parts::keep_busy(busy.ok_or("busy takes the number of a CPU and a number of loops")?);
    Ok(())
}

fn print_desk(config: &std::path::Path) -> Result<(), String> {
    let text = std::fs::read_to_string(config).map_err(|error| format!("{}: {error}", config.display()))?;
    print!("{}", desk::desk(&text).map_err(|why| format!("{}: {why}", config.display()))?);
    Ok(())
}
