//! hertzd beside its peers: how late each starts its work, and what processor time it uses.
//!
//!     cargo run --release --manifest-path benches/peers/Cargo.toml
//!
//! Every contender runs as a process of its own, pinned to the same CPU with the same real-time priority, in short runs that take
//! turns, so that other load on the machine meets all of them alike. Each reads the clock first thing in its tick, hertzd in a task
//! that does the same: nobody marks his own work. One contender takes part twice; what its two columns differ by is noise.

mod arguments;
mod contender;
mod cyclictest;
mod facts;
mod plot;
mod report;
mod rounds;
mod spec;

use arguments::Arguments;
use clap::Parser;
use spec::Spec;
use std::process::ExitCode;

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
