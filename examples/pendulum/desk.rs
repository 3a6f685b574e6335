//! The same loop at the desk: the plant as a task of its own kind on the virtual clock, in place of the sensor that reads its file.
//!
//! `pendulum desk CONFIG` prints such a configuration, and `pendulum simulate` runs it. Nothing here reads a clock.

use crate::physics::{World, shove};
use crate::row::seconds;
use hertzd::config::{Blueprint, Key, Kind, Preview, Section, Value};
use hertzd::task::Input;
use hertzd::{Column, Task, Tick, TickError};
use toml_edit::{DocumentMut, Item};

const FORCE: Key = Key::new("force", Value::Input, "The force on the cart, in newtons.").required("name what pushes");

/// The values, in the order in which the task gives them.
const VALUES: [(&str, &str); 6] =
    [("step", ""), ("moving", "steps/s"), ("position", "m"), ("speed", "m/s"), ("angle", "rad"), ("rate", "rad/s")];

/// What stands in for the sensor `pole`: the plant, and a task that looks at it as often as the sensor does.
const STAND_INS: &str = r#"
[task.plant]
kind = "cart-pole"
worker = "main"
rate = "1 kHz"
force = { previous = "motor.applied", initial = 0 }

[task.pole]
kind = "expr"
worker = "main"
inputs = { n = "plant.step", a = "plant.moving", b = "plant.position", c = "plant.speed", d = "plant.angle", e = "plant.rate" }
value = [
    { name = "step", expression = "n" },
    { name = "check", expression = "n" },
    { name = "moving", expression = "a" },
    { name = "position", expression = "b" },
    { name = "speed", expression = "c" },
    { name = "angle", expression = "d" },
    { name = "rate", expression = "e" },
]
"#;

/// The kind of the plant.
pub(crate) fn kind() -> Kind {
    Kind::new("cart-pole", "A pole on a cart, for `simulate`.", &[FORCE][..], parse)
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let plant = Plant { force: section.input(&FORCE)?, world: World::new(), steps: 0, free: 0 };
    let preview = Preview { columns: Some(plant.columns()), ..Preview::default() };
    Some(Blueprint::new(move |_| Ok(plant.into())).looking(move |_| Ok(preview)).computing())
}

/// The plant as a task: a step for each of its periods.
struct Plant {
    force: Input,
    world: World,
    steps: u64,
    free: u64, // steps since the pole was let go
}

impl Task for Plant {
    fn columns(&self) -> Vec<Column> {
        VALUES.iter().map(|(name, unit)| Column { name: (*name).into(), unit: (*unit).into() }).collect()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let force = self.force.get();
        for _ in self.steps..tick.n {
            if self.free > 0 || force != 0.0 {
                self.free += 1;
                self.world.step(force + shove(seconds(self.free)), tick.period.seconds());
            }
        }
        self.steps = tick.n;
        let state = self.world.state;
        let numbers = [seconds(tick.n) * 1_000.0, 1_000.0, state.position, state.speed, state.angle, state.rate];
        values.copy_from_slice(&numbers);
        Ok(())
    }
}

/// The configuration `text` with the plant in it. The rate of the sensor stays.
pub(crate) fn desk(text: &str) -> Result<String, String> {
    let mut config: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let stand_ins: DocumentMut = STAND_INS.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let pole = config.get("task").and_then(|tasks| tasks.get("pole")).ok_or("there is no [task.pole]")?;
    let rate = pole.get("rate").ok_or("[task.pole] has no rate")?.clone();
    for name in ["plant", "pole"] {
        config["task"][name] = stand_ins["task"][name].clone();
    }
    config["task"]["pole"]["rate"] = rate;
    // Another task that keeps the plant's worker busy is not run here.
    if let Some(worker) =
        config.get_mut("worker").and_then(|workers| workers.get_mut("main")).and_then(Item::as_table_mut)
    {
        worker.remove("cpu");
    }
    Ok(config.to_string())
}
