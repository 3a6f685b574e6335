//! A daemon with an output to hardware of its own: a dimmer at a serial line, which takes a level in percent as a line of text. The lamp is off
//! wherever hertzd makes outputs safe: before the first tick, when the level is missing, when the worker hangs, and at each end.
//!
//!     cargo run --release --example own_output -- run --for 5s

use hertzd::config::{Blueprint, BuildError, Key, Kind, Section, Value};
use hertzd::task::Input;
use hertzd::time::Span;
use hertzd::{App, Built, Column, Kinds, SafeOutput, Site, Task, Tick, TickError};
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

const INPUT: Key =
    Key::new("input", Value::Input, "The level, from 0 to 1.").required("name it, such as \"evening.value\"");
const PORT: Key =
    Key::new("port", Value::Path, "The device file of the serial line.").required("name it, such as \"/dev/ttyUSB0\"");

struct Dimmer {
    input: Input,
    port: Option<Arc<File>>, // `None`: in a shadow run, which writes nothing
}

impl Task for Dimmer {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "level".into(), unit: String::new() }]
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let level = self.input.get();
        if level.is_nan() {
            return Err(TickError::new("the level is missing")); // the lamp goes off
        }
        if let Some(port) = &self.port {
            send(port, level).map_err(|error| TickError::from_io("cannot set the dimmer", &error))?;
        }
        values[0] = level.clamp(0.0, 1.0);
        Ok(())
    }
}

/// Sends a level. Allocates nothing.
fn send(mut port: &File, level: f64) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let percent = (level.clamp(0.0, 1.0) * 100.0).round() as u8;
    port.write_all(&[b'0' + percent / 100, b'0' + percent / 10 % 10, b'0' + percent % 10, b'\n'])
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    section.acts();
    let (input, port) = (section.input_that_ages(&INPUT), section.path(&PORT));
    let (task, period) = (section.name().to_owned(), section.period()?);
    let (input, port) = (input?, port?);
    if section.is_shadow() {
        return Some(Blueprint::built(Built::from(Dimmer { input, port: None }).measures_nothing()));
    }
    Some(Blueprint::new(move |site: &mut Site| {
        let name = port.display().to_string();
        let refuse = |error| BuildError { key: PORT.name, message: format!("cannot open {name}: {error}") };
        let port = Arc::new(File::options().append(true).open(&port).map_err(refuse)?);
        let its_port = port.clone();
        let after = Span::from_nanos(period.nanos() * 10).max(Span::from_millis(100));
        let safe = SafeOutput::new(&task, format!("the dimmer at {name}"), after, move || send(&its_port, 0.0));
        Built::from(Dimmer { input, port: Some(port) }).measures_nothing().guarded(site, safe)
    }))
}

pub(crate) fn kinds() -> Kinds {
    let about = "Sets a dimmer at a serial line.";
    Kinds::builtin().add(Kind::new("dimmer", about, vec![INPUT, PORT], parse))
}

/// What runs when no file is named and /etc/hertzd/hertzd.toml does not exist: /dev/null is no dimmer.
const DEMO: &str = r#"
[task.evening]
kind = "profile"
rate = "10 Hz"
shape = "ramp"
from = 1.0
to = 0.0
duration = "10s"

[task.lamp]
kind = "dimmer"
rate = "10 Hz"
input = "evening.value"
max-age = "1s"
port = "/dev/null"
"#;

fn main() -> ExitCode {
    App::new(kinds()).name("dimmer").version(env!("CARGO_PKG_VERSION")).demo(DEMO).main()
}
