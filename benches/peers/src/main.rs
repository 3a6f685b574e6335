//! hertzd beside its peers: how late each starts its work, and what processor time it uses.
//!
//!     cargo run --release --manifest-path benches/peers/Cargo.toml
//!
//! Every contender runs as a process of its own, pinned to the same CPU with the same real-time priority, in short runs that take
//! turns, so that other load on the machine meets all of them alike. Each reads the clock first thing in its tick, hertzd in a task
//! that does the same: nobody marks his own work. One contender takes part twice; what its two columns differ by is noise.

mod contender;
mod cyclictest;
mod facts;
mod plot;
mod report;
mod rounds;

use clap::Parser;
use contender::Spec;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures hertzd beside its peers, and prints a page of results (Markdown) and a plot (SVG).
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each contender runs; the medians of the rounds are printed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each run takes.
    #[arg(long, default_value_t = 4, value_name = "SECONDS")]
    seconds: u32,
    /// Rates of one task, in Hz.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    rates: Vec<u32>,
    /// Numbers of tasks that share 20,000 ticks a second.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000")]
    tasks: Vec<u32>,
    /// Without the rounds beside stress-ng.
    #[arg(long)]
    idle_only: bool,
    /// The CPU that all run on [default: the last one].
    #[arg(long)]
    cpu: Option<usize>,
    /// Where `peers.md` and `peers.svg` are written, besides what is printed.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Runs one contender, for the program itself.
    #[arg(long, hide = true)]
    contender: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(spec) = &arguments.contender {
        let spec: Spec = serde_json::from_str(spec).expect("written by this program");
        let sample = spec.run();
        println!("{}", serde_json::to_string(&sample).expect("numbers"));
        return ExitCode::SUCCESS;
    }
    let cpu = arguments.cpu.or_else(|| facts::cpus().last().copied()).unwrap_or(0);
    let before = facts::Busy::read(cpu);
    let measured = rounds::run(&arguments, cpu);
    let facts = facts::text(cpu, &before);
    let page = report::page(&arguments, &measured, &facts);
    println!("{page}");
    let Some(folder) = &arguments.out else { return ExitCode::SUCCESS };
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("peers.md"), &page))
        .map_err(|error| error.to_string())
        .and_then(|()| plot::draw(&measured, &folder.join("peers.svg")));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the results cannot be written to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
