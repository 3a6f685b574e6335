//! The program: its kinds, where its configuration comes from, and how to read it.

use super::latency;
use crate::config::{Config, Facts, Kinds, Problems, base_folder};
use crate::program;
use crate::sys::host::{Host, cpu_set_size};
use clap::Args;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The configuration used if none is named.
pub(crate) const SYSTEM_CONFIG: &str = "/etc/hertzd/hertzd.toml";
const SYSTEM_DROPINS: &str = "/etc/hertzd/hertzd.d";
const STDIN_NAME: &str = "standard input";
const DEMO_NAME: &str = "the embedded demo";

/// The configuration that runs if there is no other.
pub(crate) const DEMO_CONFIG: &str = include_str!("../../../config/demo.toml");

/// A daemon: hertzd's full command line, with any kinds of task.
///
/// ```no_run
/// use hertzd::{App, Kinds};
///
/// fn main() -> std::process::ExitCode {
///     App::new(Kinds::builtin()).main()
/// }
/// ```
#[derive(Debug)]
pub struct App {
    pub(in crate::cli) kinds: Kinds,
    demo: &'static str,
    name: &'static str,
    version: Option<&'static str>,
}

impl App {
    /// hertzd's command line with these kinds of task.
    pub const fn new(kinds: Kinds) -> Self {
        Self { kinds, demo: DEMO_CONFIG, name: "hertzd", version: None }
    }

    /// Gives the program its own name in place of `hertzd`. The name is used for:
    /// - the command in help, messages and manual pages;
    /// - the service (`NAME.service`), its user, and its journal entries;
    /// - the folders `/run/NAME` and `/etc/NAME`, where `NAME.toml` is the default configuration.
    ///
    /// Names shared by all such daemons stay the same: the variable `HERTZD_LOG`, the journal's fields (`HERTZD_TASK`) and the metrics
    /// (`hertzd_up`).
    ///
    /// # Panics
    /// If the name does not suit a service and a user. A valid name has 2 to 31 lower-case letters, digits and hyphens and starts with a
    /// letter; each hyphen stands between two other characters.
    #[must_use]
    pub fn name(self, name: &'static str) -> Self {
        if let Some(wrong) = program::wrong(name) {
            panic!("{name:?} is no name for a daemon: {wrong}");
        }
        Self { name, ..self }
    }

    /// The program's own version, which `--version` prints beside hertzd's: usually `env!("CARGO_PKG_VERSION")`.
    #[must_use]
    pub fn version(self, version: &'static str) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Sets the process-wide program name.
    pub(in crate::cli) fn introduce(&self) {
        program::set_name(self.name);
    }

    /// What `--version` prints.
    pub(in crate::cli) fn version_line(&self) -> String {
        match (self.version, program::is_hertzd()) {
            (None, true) => concat!("hertzd ", env!("CARGO_PKG_VERSION")).to_owned(),
            (None, false) => format!("{} (hertzd {})", self.name, env!("CARGO_PKG_VERSION")),
            (Some(version), _) => format!("{} {version} (hertzd {})", self.name, env!("CARGO_PKG_VERSION")),
        }
    }

    /// Replaces hertzd's demo, the configuration that runs if the command line names none and `/etc/hertzd/hertzd.toml` does not exist. For
    /// a program with its own [name](Self::name) that file is `/etc/NAME/NAME.toml`. Where hertzd's package is installed, the file exists
    /// and is used instead of the demo.
    #[must_use]
    pub fn demo(self, text: &'static str) -> Self {
        Self { demo: text, ..self }
    }

    /// The same program for a shadow run: its tasks write nothing.
    pub(in crate::cli) fn in_shadow(self) -> Self {
        Self { kinds: self.kinds.in_shadow(), ..self }
    }

    pub(in crate::cli) fn demo_text(&self) -> &'static str {
        self.demo
    }

    /// Reads a configuration from named texts, resolving paths from the folder of `source`. The sections of the workers in `without` are
    /// left out.
    pub(in crate::cli) fn parse_beside(
        &self,
        source: &Source,
        texts: &[(String, &[u8])],
        without: &[String],
    ) -> Result<Config, Problems> {
        let folder = match source {
            Source::File(path) => base_folder(path),
            Source::StandardInput | Source::Demo => PathBuf::new(),
        };
        Config::parse_merged(&folder, texts, without, &self.kinds, &facts())
    }

    pub(in crate::cli) fn load(&self, source: &Source) -> Result<Config, Problems> {
        let facts = facts();
        let config = match source {
            Source::File(path) => Config::load(path, &self.kinds, &facts),
            Source::StandardInput => Config::read(std::io::stdin().lock(), STDIN_NAME, &self.kinds, &facts),
            Source::Demo => Config::parse(self.demo, DEMO_NAME, &self.kinds, &facts),
        }?;
        latency::refuse(&config)?;
        Ok(config)
    }
}

/// [`SYSTEM_CONFIG`], adapted to the program's own name.
pub(in crate::cli) fn system_config() -> String {
    program::own(SYSTEM_CONFIG).into_owned()
}

/// The facts about this machine that a configuration is checked against.
fn facts() -> Facts {
    Facts { online_cpus: Host::read().online_cpus, cpu_set_size: cpu_set_size() }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ConfigArg {
    /// The configuration, or - for standard input [default: /etc/hertzd/hertzd.toml, else the embedded demo]
    config: Option<PathBuf>,
    /// The same as CONFIG
    #[arg(short = 'c', long = "config", value_name = "FILE", conflicts_with = "config")]
    named: Option<PathBuf>,
}

impl ConfigArg {
    fn path(&self) -> Option<&Path> {
        self.config.as_deref().or(self.named.as_deref())
    }

    /// Whether the configuration comes from standard input and so can be read only once.
    pub(in crate::cli) fn is_standard_input(&self) -> bool {
        self.path() == Some(Path::new("-"))
    }
}

/// The source of the configuration. Decided once: if its file is removed, a daemon does not reload the demo instead.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Source {
    File(PathBuf),
    /// Can be read only once.
    StandardInput,
    Demo,
}

impl Source {
    /// The source that the command line names, or the default.
    pub(in crate::cli) fn of(arg: &ConfigArg) -> Self {
        // If the file cannot be accessed, assume it exists; if there is a folder of drop-ins, the file should exist. In both cases an error
        // is better than the demo.
        let is_there = |path: &String| Path::new(path).try_exists().unwrap_or(true);
        match arg.path() {
            Some(_) if arg.is_standard_input() => Self::StandardInput,
            Some(path) => Self::File(path.to_owned()),
            None if [system_config(), program::own(SYSTEM_DROPINS).into_owned()].iter().any(is_there) => {
                Self::File(system_config().into())
            }
            None => Self::Demo,
        }
    }

    /// The path of the configuration, if the service's unit names the same file.
    pub(in crate::cli) fn of_service(&self) -> Option<&Path> {
        let Self::File(path) = self else { return None };
        let named = [path, Path::new(&system_config())].map(fs::canonicalize);
        matches!(&named, [Ok(given), Ok(own)] if given == own).then_some(path)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::StandardInput => STDIN_NAME.fmt(f),
            Self::Demo => write!(f, "{DEMO_NAME} (there is no {})", system_config()),
        }
    }
}
