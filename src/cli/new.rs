//! `hertzd new`: a custom project, with a task, its test, a service and a package. It writes files, and reads only the Cargo.toml and
//! Cargo.lock of the hertzd checkout.

mod files;
mod folder;

use super::{Stop, print};
use crate::program;
use clap::Args;
use files::Project;
use folder::Target;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};

/// The source folder this program was built from, which may no longer exist.
const BUILT_FROM: &str = env!("CARGO_MANIFEST_DIR");
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd new flywheel                          a daemon, in a new folder\n  \
    hertzd new . --name flywheel                 in this folder, which is empty\n  \
    hertzd new flywheel --hertzd ~/src/hertzd    on this checkout of hertzd\n\n\
    The project is a daemon in Rust with a kind of task of its own and all of \
    hertzd's commands and kinds: a struct and a function, a configuration, a test \
    on the virtual clock, a service with its user, and a script that builds the \
    Debian package. It builds and passes its tests as it is. In DIR:\n\n  \
    cargo test                                the daemon's loop, exact\n  \
    cargo run --release -- run --for 5s       in real time\n\n\
    docs/own-daemon.md explains each file.")]
pub(super) struct NewArgs {
    /// The project's folder: it must be empty, or not be there yet
    dir: PathBuf,
    /// What the daemon, its package, service and user are called [default: the name of DIR]
    #[arg(long)]
    name: Option<String>,
    /// The checkout of hertzd that the project depends on [default: the one that this program was built from, if it is there still]
    #[arg(long, value_name = "PATH")]
    hertzd: Option<PathBuf>,
}

pub(super) fn new(args: &NewArgs) -> Result<(), Stop> {
    let dir = &args.dir;
    let name = name(args).map_err(Stop::Usage)?;
    let hertzd = Checkout::of(args.hertzd.as_deref()).map_err(Stop::Usage)?;
    let target = Target::at(dir).map_err(Stop::Usage)?;
    let lock = hertzd.lock().map_err(Stop::Usage)?;
    let project = Project { name: &name, dependency: hertzd.line(), on: hertzd.said(), lock };
    let count = target.fill(&project.files()).map_err(|(path, error)| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => Stop::Usage(format!(
            "{}: another program has written there meanwhile; nothing of this project was left behind",
            dir.display()
        )),
        _ => Stop::Fault(format!("writing {}: {error}; nothing was left behind in {}", path.display(), dir.display())),
    })?;
    let (at, on) = (dir.display(), hertzd.said());
    print(&format!(
        "wrote {count} files to {at}: the daemon {name} with a kind of task of its own, motor\n\
         it depends on {on}\n\n\
         next, in {at}:\n  \
         cargo test                             its loop on the virtual clock: exact\n  \
         cargo run --release -- run --for 5s    its configuration in real time\n"
    ))
}

/// The name of the project, or why there is none.
fn name(args: &NewArgs) -> Result<String, String> {
    let (name, whose) = match &args.name {
        Some(name) => (name.clone(), "--name "),
        None => {
            // This also works for "." and "..".
            let dir = fs::canonicalize(&args.dir).or_else(|_| absolute(&args.dir));
            let last = dir.ok().and_then(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()));
            (last.ok_or_else(|| format!("{}: this folder has no name; give one by --name", args.dir.display()))?, "")
        }
    };
    let wrong = program::wrong(&name).or_else(|| is_taken(&name));
    let Some(wrong) = wrong else { return Ok(name) };
    let valid = nearest(&name);
    let example = valid.map_or_else(String::new, |valid| format!(", such as --name {valid}"));
    Err(format!(
        "{whose}{name:?} cannot be the name of a crate, a package, a service and a user: {wrong}; a name has 2 to 31 lower-case letters, \
         digits and single hyphens and begins with a letter{example}"
    ))
}

/// The closest valid name.
fn nearest(name: &str) -> Option<String> {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(fits).collect();
    let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).collect();
    let name = words.join("-");
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
    if name.is_empty() {
        return None;
    }
    [name.to_owned(), format!("{name}-daemon"), format!("my-{name}")]
        .into_iter()
        .find(|name| program::wrong(name).or_else(|| is_taken(name)).is_none())
}

/// Why a well-formed name cannot be used.
fn is_taken(name: &str) -> Option<&'static str> {
    const WORDS: &str = "as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in let \
        loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized \
        use virtual where while yield abstract";
    const CRATES: &str = "alloc build core deps examples hertzd incremental proc-macro proc_macro serde std test";
    const USERS: &str = "adm avahi backup bin daemon dbus games gnats irc kmem list lp mail man messagebus news nobody operator polkitd proxy root \
        sshd sync sys syslog tape tty utmp uucp www-data audio video gpio i2c input render disk dialout cdrom floppy sudo staff users shadow wheel plugdev netdev \
        kvm tss nogroup systemd docker libvirt postgres mysql redis libc6 libc ssh";
    let is_in = |list: &str| list.split_whitespace().any(|word| word == name);
    match () {
        () if is_in(WORDS) => Some("it is a word of Rust"),
        () if is_in(CRATES) => Some("a crate of this name is in the way"),
        () if is_in(USERS) || name.starts_with("systemd-") => Some("it is a user or a group of the system"),
        () if name.starts_with("hertzd-") => Some("names that begin so are hertzd's own"),
        () if !is_own(name) && is_in_lists(name) => Some("this machine has a user or a group of this name"),
        () if !is_own(name) && is_program(name) => Some("this machine has a program of this name"),
        () => None,
    }
}

/// Whether this project's daemon is installed here: what exists under the name is then its own.
fn is_own(name: &str) -> bool {
    Path::new("/etc").join(name).join(format!("{name}.toml")).exists()
}

fn is_in_lists(name: &str) -> bool {
    let has = |file: &str| {
        let lists = fs::read_to_string(file).unwrap_or_default();
        lists.lines().any(|line| line.split(':').next() == Some(name))
    };
    has("/etc/passwd") || has("/etc/group")
}

fn is_program(name: &str) -> bool {
    ["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(name).exists())
}

/// The hertzd checkout that a project is built on.
#[derive(Debug)]
struct Checkout {
    path: String,
    version: String,
}

impl Checkout {
    /// The named checkout, otherwise the one this program was built from; or why there is none.
    fn of(named: Option<&Path>) -> Result<Self, String> {
        if let Some(path) = named {
            return Self::at(path).map_err(|why| {
                let path = path.display();
                format!("--hertzd {path}: {why}; name the folder of hertzd's source, which has its Cargo.toml")
            });
        }
        let wanted = "the project needs hertzd's source: --hertzd PATH names a checkout of it";
        match Self::at(Path::new(BUILT_FROM)) {
            Ok(found) if found.version != OWN_VERSION => Err(format!(
                "what this program, of hertzd {OWN_VERSION}, was built from is version {} by now, in {BUILT_FROM}; {wanted}",
                found.version
            )),
            Ok(found) => Ok(found),
            Err(_) => Err(format!("what this program was built from, {BUILT_FROM}, is not there; {wanted}")),
        }
    }

    /// The checkout in this folder, or why it is not one.
    fn at(folder: &Path) -> Result<Self, String> {
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
        let table: toml::Table =
            toml::from_str(&text).map_err(|error| format!("{}: {}", manifest.display(), error.message()))?;
        let of_package = |key: &str| table.get("package")?.get(key)?.as_str().map(str::to_owned);
        match (of_package("name").as_deref(), of_package("version")) {
            (Some("hertzd"), Some(version)) => {
                let path = fs::canonicalize(folder).map_err(|error| error.to_string())?;
                let path = path.into_os_string().into_string();
                Ok(Self { path: path.map_err(|_| "its path is not valid UTF-8")?, version })
            }
            (Some(other), _) => Err(format!("this is the crate {other}, not hertzd")),
            (None, _) => Err(format!("{} names no crate", manifest.display())),
        }
    }

    /// The dependency line for Cargo.toml. JSON has the same quotes and escapes for text.
    fn line(&self) -> String {
        format!("hertzd = {{ path = {} }}", serde_json::Value::from(self.path.as_str()))
    }

    /// A description for people.
    fn said(&self) -> String {
        let Self { path, version } = self;
        if version == OWN_VERSION {
            return format!("hertzd {version} in {path}, with its Cargo.lock");
        }
        format!(
            "hertzd {version} in {path}, with its Cargo.lock; this program is of hertzd {OWN_VERSION}, so the code may not fit"
        )
    }

    /// The lock file, so that the versions of all other crates are not resolved again.
    fn lock(&self) -> Result<String, String> {
        let lock = Path::new(&self.path).join("Cargo.lock");
        fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_checkout_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |folder: &Path| Checkout::of(Some(folder)).unwrap_err();
        assert!(refused(folder.path()).contains("Cargo.toml: No such file"), "{}", refused(folder.path()));
        fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"other\"\nversion = \"1.0.0\"\n").unwrap();
        assert!(refused(folder.path()).contains("the crate other, not hertzd; name the folder"));
        fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"hertzd\"\nversion = \"9.1.0\"\n").unwrap();
        let found = Checkout::of(Some(folder.path())).unwrap();
        assert!(found.said().starts_with("hertzd 9.1.0 in /") && found.said().ends_with("the code may not fit"));
        assert!(found.lock().unwrap_err().contains("Cargo.lock: No such file"));
    }

    #[test]
    fn a_name_that_does_not_fit_is_answered_with_one_that_does() {
        for (name, valid) in [
            ("My_Daemon", Some("my-daemon")),
            ("2 wheels", Some("wheels")),
            ("fn", Some("fn-daemon")),
            ("hertzd", Some("my-hertzd")),
            ("root", Some("root-daemon")),
            ("\u{e4}", None),
            ("", None),
        ] {
            let found = nearest(name);
            if let Some(found) = &found {
                assert!(program::wrong(found).or_else(|| is_taken(found)).is_none(), "{found}");
            }
            assert_eq!(found.as_deref(), valid, "{name}");
        }
    }
}
