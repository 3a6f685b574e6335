//! Runs `hertzd simulate` in a folder with a configuration, and reads the table of all values that `--csv` writes. It is the built binary
//! on the virtual clock, so nothing here depends on how busy the machine is.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with `loop.toml`, and any other files a test adds.
pub(crate) struct Desk(pub(crate) TempDir);

impl Desk {
    pub(crate) fn with(config: &str) -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.put("loop.toml", config);
        desk
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    pub(crate) fn simulate(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hertzd"));
        command.current_dir(&self.0).args(["simulate", "loop.toml"]).args(args).output().unwrap()
    }

    /// The table from a run that succeeded without any message.
    pub(crate) fn table(&self, length: &str) -> Table {
        let output = self.simulate(&["--for", length, "--csv", "-"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && error.is_empty(), "{}: {error}", output.status);
        Table::read(&String::from_utf8(output.stdout).unwrap())
    }

    /// The message of a refused run, and its exit code.
    pub(crate) fn refusal(&self, args: &[&str]) -> (String, Option<i32>) {
        let output = self.simulate(args);
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        (String::from_utf8(output.stderr).unwrap(), output.status.code())
    }
}

/// The table that `--csv` writes.
pub(crate) struct Table {
    columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn read(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let columns = lines.next().unwrap();
        let rows: Vec<_> = lines.collect();
        assert!(rows.iter().all(|row| row.len() == columns.len()), "a line has other cells than the first");
        Self { columns, rows }
    }

    /// The index of a column, named with or without its unit.
    pub(crate) fn column(&self, name: &str) -> usize {
        self.columns
            .iter()
            .position(|column| column == name || column.split(" [").next() == Some(name))
            .unwrap_or_else(|| panic!("no {name} in {:?}", self.columns))
    }

    /// The ticks of a task, each with its value of this name.
    pub(crate) fn of(&self, task: &str, value: &str) -> Vec<(u64, Option<f64>)> {
        let column = self.column(&format!("{task}.{value}"));
        let own = self.rows.iter().filter(|row| row[0] == task);
        own.map(|row| (row[1].parse().unwrap(), (!row[column].is_empty()).then(|| row[column].parse().unwrap())))
            .collect()
    }

    /// The same for a value that every tick has.
    pub(crate) fn values(&self, task: &str, value: &str) -> Vec<f64> {
        self.of(task, value)
            .into_iter()
            .map(|(n, value)| value.unwrap_or_else(|| panic!("tick {n} of {task} has none")))
            .collect()
    }
}
