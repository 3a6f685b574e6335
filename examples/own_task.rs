//! A daemon of one's own: a simulated motor under a controller at 1 kHz, with the full command line of hertzd.
//!
//!     cargo run --release --example own_task -- run --for 5s

use hertzd::{App, Column, Kinds, Task, Tick, TickError};
use serde::Deserialize;

/// Its fields are the keys of its section; what is skipped is its state.
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
        let drive = self.gain * (self.setpoint - self.speed);
        self.speed += drive * tick.period.seconds();
        values[0] = self.speed;
        Ok(())
    }
}

const CONFIG: &str = "[task.wheel]\nkind = \"motor\"\nrate = \"1 kHz\"\nsetpoint = 120.0\ngain = 5.0\n";

fn main() -> std::process::ExitCode {
    let kinds = Kinds::builtin().with::<Motor>("motor", "A simulated motor under a proportional controller.");
    App::new(kinds).demo(CONFIG).main()
}
