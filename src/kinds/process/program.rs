//! Finds the file of a program, and prepares its environment. May block; no clock is read.

use super::settings::ProgramSettings;
use crate::sys::process::{SOCKET, may_run};
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Variables that the service manager intends for this process only: `man systemd.exec`, `sd_notify` and `sd_listen_fds`.
const NOT_HANDED_ON: [&str; 21] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "FDSTORE",
    "MAINPID",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "CACHE_DIRECTORY",
    "LOGS_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
];

/// Tells a program the descriptor of its socket.
const HERTZD_FD: &str = "HERTZD_FD";

/// The environment of a program.
pub(super) fn environment(settings: &ProgramSettings) -> BTreeMap<OsString, OsString> {
    let own = env::vars_os().filter(|(name, _)| !NOT_HANDED_ON.iter().any(|other| name == other));
    let mut all: BTreeMap<OsString, OsString> = own.collect();
    // A program's output is a pipe here, so buffered output would appear only after some kilobytes.
    all.entry("PYTHONUNBUFFERED".into()).or_insert_with(|| "1".into());
    all.extend(settings.environment.iter().map(|(name, value)| (name.into(), value.into())));
    all.insert(HERTZD_FD.into(), SOCKET.to_string().into());
    all
}

/// The program's file: the given path, or the file found in the folders of PATH.
///
/// # Errors
/// The reason why no file was found, and what to do.
pub(super) fn find(settings: &ProgramSettings, environment: &BTreeMap<OsString, OsString>) -> Result<PathBuf, String> {
    let program = &settings.command[0];
    if let Some(folder) = &settings.folder
        && !folder.is_dir()
    {
        return Err(format!("cannot run {program:?} in {}: there is no such folder", folder.display()));
    }
    if program.contains('/') {
        let path = settings.folder.as_deref().unwrap_or(Path::new("")).join(program);
        may_run(&path).map_err(|error| refused(&path, &error))?;
        return has_interpreter(path);
    }
    let folders = environment.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| "/usr/bin:/bin".into());
    let (mut passed_over, mut closed) = (None, String::new());
    for folder in env::split_paths(&folders) {
        let path = folder.join(program);
        match may_run(&path) {
            Ok(()) => return has_interpreter(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Whether the file exists is unknown: PATH may be that of another user.
            Err(_) if path.symlink_metadata().is_err() => {
                closed += &format!("; {} cannot be searched by this user", folder.display());
            }
            Err(error) => passed_over = passed_over.or(Some(refused(&path, &error))),
        }
    }
    Err(passed_over.unwrap_or_else(|| {
        let folders = folders.to_string_lossy();
        format!(
            "there is no program {program:?} in PATH ({folders}): install it, or write the path of its file{closed}"
        )
    }))
}

/// Returns the path, unless the file is a script whose interpreter is missing.
fn has_interpreter(path: PathBuf) -> Result<PathBuf, String> {
    // The kernel reads no further either. A file that cannot be read may still be executable.
    let mut first = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(256).read_to_end(&mut first));
    let line = first.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next());
    let (Ok(_), Some(line)) = (read, line) else { return Ok(path) };
    let line = String::from_utf8_lossy(line);
    match line.split_ascii_whitespace().next() {
        Some(interpreter) if interpreter.starts_with('/') && !Path::new(interpreter).exists() => Err(format!(
            "cannot run {}: its first line names the interpreter {interpreter}, which is not there: install it, or change that line",
            path.display()
        )),
        _ => Ok(path),
    }
}

fn refused(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "; write the path of a file that is there",
        io::ErrorKind::PermissionDenied if path.is_dir() => "; it is a folder: write the path of a program",
        io::ErrorKind::PermissionDenied => {
            "; make it executable with chmod +x, name its interpreter before it, or let the daemon's user reach it"
        }
        _ => "",
    };
    format!("cannot run {}: {error}{remedy}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn settings(program: &str, folder: Option<&Path>, path: Option<&Path>) -> ProgramSettings {
        let path = path.map(|path| ("PATH".to_owned(), path.to_str().unwrap().to_owned()));
        ProgramSettings {
            task: "brain".into(),
            command: vec![program.into()],
            folder: folder.map(Into::into),
            environment: path.into_iter().collect(),
            memory: None,
            cpu: None,
            period: Span::from_millis(5),
            max_missed: 0.01,
            inputs: Vec::new(),
            values: Vec::new(),
        }
    }

    #[test]
    fn a_program_is_found_or_it_is_said_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        for (name, mode) in [("good", 0o755), ("plain", 0o644)] {
            fs::write(here.join(name), "").unwrap();
            fs::set_permissions(here.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let found = |settings: ProgramSettings| find(&settings, &environment(&settings));
        assert_eq!(found(settings("good", None, Some(here))), Ok(here.join("good")));
        assert_eq!(found(settings("./good", Some(here), None)), Ok(here.join("./good")));
        let refusal = |settings| found(settings).unwrap_err();
        let shown = here.display();
        assert_eq!(
            refusal(settings("plain", None, Some(here))),
            format!(
                "cannot run {shown}/plain: Permission denied (os error 13); make it executable with chmod +x, name its interpreter before it, \
                 or let the daemon's user reach it"
            )
        );
        assert_eq!(
            refusal(settings("absent", None, Some(here))),
            format!("there is no program \"absent\" in PATH ({shown}): install it, or write the path of its file")
        );
        let folder_instead = refusal(settings("/", None, None));
        assert!(folder_instead.ends_with("it is a folder: write the path of a program"), "{folder_instead}");
        assert_eq!(
            refusal(settings("good", Some(&here.join("none")), None)),
            format!("cannot run \"good\" in {shown}/none: there is no such folder")
        );
    }

    #[test]
    fn the_section_has_the_last_word_on_the_environment_but_for_the_socket() {
        let mut settings = settings("x", None, None);
        settings.environment = vec![("PYTHONUNBUFFERED".into(), String::new()), ("HERTZD_FD".into(), "9".into())];
        let all = environment(&settings);
        assert_eq!(all[OsStr::new("PYTHONUNBUFFERED")], "");
        assert_eq!(all[OsStr::new("HERTZD_FD")], "3");
    }
}
