//! `examples/pendulum`, built like the test that uses it.

use crate::program::emulation::is_emulated;
use crate::program::{HERTZD, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The example `pendulum`, built like this test. `None`, with a message, if there is neither cargo nor a previously built example.
pub(crate) fn example() -> Option<&'static Path> {
    static EXAMPLE: OnceLock<Option<PathBuf>> = OnceLock::new();
    EXAMPLE.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let folder = Path::new(HERTZD).parent().unwrap();
    let path = folder.join("examples/pendulum");
    // Under emulation there is no compiler for this machine; tests/user-emulation has built the example.
    if let Some(cargo) = std::env::var_os("CARGO").filter(|_| !is_emulated()) {
        let all = [
            ("daemon", cfg!(feature = "daemon")),
            ("video", cfg!(feature = "video")),
            ("i2c", cfg!(feature = "i2c")),
            ("gpio", cfg!(feature = "gpio")),
            ("mcap", cfg!(feature = "mcap")),
            ("exporter", cfg!(feature = "exporter")),
            ("audio", cfg!(feature = "audio")),
            ("top", cfg!(feature = "top")),
            ("plugin", cfg!(feature = "plugin")),
            ("default", cfg!(feature = "default")),
        ];
        let features: Vec<_> = all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
        let mut command = Command::new(cargo);
        command.args(["build", "--offline", "--example", "pendulum", "--no-default-features", "--features"]);
        command
            .arg(features.join(","))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("CARGO_TARGET_DIR", folder.parent().unwrap());
        if folder.ends_with("release") {
            command.arg("--release");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    if !path.exists() {
        assert!(
            !is_emulated(),
            "tests/user-emulation builds it for the profile `dev` only: there is no {}",
            path.display()
        );
        skip("there is no cargo here to build the example with");
        return None;
    }
    Some(path)
}
