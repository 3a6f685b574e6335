//! A daemon with its own kind of task: a simulated motor, with all of hertzd's commands. The README shows this file.
//!
//!     cargo run --release --example own_task -- run --for 5s

use hertzd::{App, Column, Kinds, Task, Tick, TickError};
use serde::Deserialize;
use std::process::ExitCode;

/// Its keys in the configuration, and its state.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Motor {
    setpoint: f64,
    gain: f64,
    #[serde(skip)]
    speed: f64,
}

impl Task for Motor {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "speed".into(), unit: "rad/s".into() }]
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        self.speed += self.gain * (self.setpoint - self.speed) * tick.period.seconds();
        values[0] = self.speed;
        Ok(())
    }
}

/// What runs when no file is named and /etc/hertzd/hertzd.toml does not exist.
const DEMO: &str = r#"
[task.wheel]
kind = "motor"
rate = "1 kHz"
setpoint = 120.0
gain = 5.0
"#;

fn main() -> ExitCode {
    let kinds = Kinds::builtin().with::<Motor>("motor", "A simulated motor under a proportional controller.");
    App::new(kinds).demo(DEMO).main()
}
