//! A daemon with a task that takes values of other tasks: the larger one of two. Where one of them is missing, so is the result.
//!
//!     cargo run --release --example own_input -- run --for 5s

use hertzd::config::{Blueprint, Key, Kind, Section, Value};
use hertzd::task::Input;
use hertzd::{App, Column, Kinds, Task, Tick, TickError};
use std::process::ExitCode;

const ONE: Key = Key::new("one", Value::Input, "A value.").required("name it, such as \"left.value\"");
const OTHER: Key = Key::new("other", Value::Input, "Another one.").required("name it, such as \"right.value\"");

struct Larger {
    one: Input,
    other: Input,
}

impl Task for Larger {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "value".into(), unit: String::new() }]
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let [one, other] = [self.one.get(), self.other.get()];
        if one.is_finite() && other.is_finite() {
            values[0] = one.max(other);
        }
        Ok(())
    }
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let (one, other) = (section.input(&ONE), section.input(&OTHER));
    Some(Blueprint::built(Larger { one: one?, other: other? }).computing())
}

/// What runs when no file is named and /etc/hertzd/hertzd.toml does not exist.
const DEMO: &str = r#"
[task.left]
kind = "profile"
rate = "100 Hz"
shape = "sine"
frequency = 1

[task.right]
kind = "profile"
rate = "100 Hz"
shape = "sine"
frequency = 3

[task.larger]
kind = "larger"
rate = "100 Hz"
one = "left.value"
other = "right.value"
"#;

fn main() -> ExitCode {
    let about = "The larger one of two values.";
    let kinds = Kinds::builtin().add(Kind::new("larger", about, vec![ONE, OTHER], parse));
    App::new(kinds).name("larger").version(env!("CARGO_PKG_VERSION")).demo(DEMO).main()
}
