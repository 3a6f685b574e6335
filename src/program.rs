//! The program's name: `hertzd`, or the name of a daemon built with this library.
//!
//! Texts in this crate say `hertzd`. Where they leave the process, [`own`] puts the program's own name in its place, so `mydaemon` gives
//! advice about `mydaemon check`. Folders, unit and user carry the program's name from the start. The name is set once, before anything
//! else runs; without one nothing is replaced. No clock is read, and nothing blocks.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::OnceLock;

const HERTZD: &str = "hertzd";

static NAME: OnceLock<&'static str> = OnceLock::new();

/// Sets the program's name. Only the first call counts.
pub(crate) fn set_name(name: &'static str) {
    NAME.get_or_init(|| name);
}

/// The name of the program, of its service and of the service's user.
pub(crate) fn name() -> &'static str {
    NAME.get().copied().unwrap_or(HERTZD)
}

/// Whether the program is hertzd itself.
pub(crate) fn is_hertzd() -> bool {
    name() == HERTZD
}

/// The name of its systemd unit.
pub(crate) fn unit() -> String {
    format!("{}.service", name())
}

/// The runtime directory of its service.
pub(crate) fn runtime_directory() -> PathBuf {
    PathBuf::from(format!("/run/{}", name()))
}

/// The parent of the directories of root's foreground processes. Not below the service's directory, whose user could replace them.
pub(crate) fn root_directory() -> PathBuf {
    PathBuf::from(format!("/run/{}-root", name()))
}

/// The group that may read its service's status.
pub(crate) fn status_group() -> String {
    format!("{}-status", name())
}

/// A text of this crate with the program's own name.
pub(crate) fn own(text: &str) -> Cow<'_, str> {
    called(name(), text)
}

/// Like [`own`], for a text assembled from parts.
pub(crate) fn owned(text: impl Display) -> String {
    own(&text.to_string()).into_owned()
}

/// Replaces the word `hertzd` in a text: as a word in a sentence or command, and in the program's system paths, pages and files. Not as a
/// part of longer words such as `hertzd_up`, nor in other paths.
pub(crate) fn called<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    if name == HERTZD || !text.contains(HERTZD) {
        return Cow::Borrowed(text);
    }
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(HERTZD) {
        let (before, after) = (&rest[..at], &rest[at + HERTZD.len()..]);
        said += before;
        said += if is_the_program(&said, after) { name } else { HERTZD };
        rest = after;
    }
    Cow::Owned(said + rest)
}

/// The system folders, or prefixes, in which the program has its own folder or file.
const FOLDERS: [&str; 7] =
    ["/etc/", "/run/", "/var/lib/", "/usr/bin/", "/usr/lib/systemd/system/", "/usr/lib/udev/rules.d/60-", "60-"];

/// Whether the word between these two texts is the program's name.
fn is_the_program(before: &str, after: &str) -> bool {
    let is_own = |folder: &&str| {
        let folder = before.strip_suffix(*folder);
        folder
            .is_some_and(|before| before.chars().next_back().is_none_or(|last| !last.is_alphanumeric() && last != '/'))
    };
    // /etc/hertzd/hertzd.toml
    let within = before
        .strip_suffix('/')
        .and_then(|before| before.rsplit_once("/etc/"))
        .is_some_and(|(_, own)| !own.contains(|c: char| c.is_whitespace() || c == '/'));
    if within || FOLDERS.iter().any(is_own) {
        return !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    }
    let begins = before.chars().next_back().is_none_or(|last| last.is_whitespace() || "`'\"(=:".contains(last));
    let mut next = after.chars();
    let ends = match next.next() {
        None => true,
        Some('.') => match next.next() {
            Some(c) => {
                !c.is_alphanumeric()
                    || ["toml", "d/", "d ", "service", "sysusers"].iter().any(|end| after[1..].starts_with(end))
            }
            None => true,
        },
        Some('/') => after.starts_with("/PID"),
        // The group that may read its status.
        Some('-') => after
            .strip_prefix("-status")
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || "_-".contains(c))),
        Some(c) => !c.is_alphanumeric() && !"_-".contains(c),
    };
    begins && ends
}

/// What is wrong with a name that serves as program, package, service and system user; `None`: nothing.
pub(crate) fn wrong(name: &str) -> Option<&'static str> {
    let is_letter = |c: char| c.is_ascii_lowercase();
    let fits = |c: char| is_letter(c) || c.is_ascii_digit() || c == '-';
    match name {
        _ if !(2..=31).contains(&name.len()) => Some("it must have 2 to 31 characters"),
        _ if !name.chars().all(fits) => Some("it must have lower-case letters, digits and hyphens only"),
        _ if !name.starts_with(is_letter) => Some("it must begin with a letter"),
        _ if name.ends_with('-') || name.contains("--") => Some("each hyphen must stand between two other characters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_takes_the_place_of_hertzd_where_the_program_is_meant() {
        for (text, said) in [
            ("hertzd: no daemon answers", "wheel: no daemon answers"),
            ("`hertzd run --for 10s` runs", "`wheel run --for 10s` runs"),
            ("`sudo systemctl start hertzd` starts it", "`sudo systemctl start wheel` starts it"),
            ("restart hertzd, or reload", "restart wheel, or reload"),
            ("hertzd's user; end with hertzd.", "wheel's user; end with wheel."),
            ("see hertzd(8) and hertzd.toml(5)", "see wheel(8) and wheel.toml(5)"),
            (
                "/etc/hertzd/hertzd.toml, /etc/hertzd/hertzd.d/*.toml",
                "/etc/wheel/wheel.toml, /etc/wheel/wheel.d/*.toml",
            ),
            ("/run/hertzd/status.sock in hertzd/PID", "/run/wheel/status.sock in wheel/PID"),
            ("/run/hertzd-root/PID", "/run/wheel-root/PID"),
            ("g hertzd-status -", "g wheel-status -"),
            ("/usr/lib/udev/rules.d/60-hertzd.rules", "/usr/lib/udev/rules.d/60-wheel.rules"),
            ("GROUP=\"hertzd\"", "GROUP=\"wheel\""),
            ("/usr/lib/systemd/system/hertzd.service", "/usr/lib/systemd/system/wheel.service"),
        ] {
            assert_eq!(called("wheel", text), said);
            assert_eq!(called(HERTZD, text), text);
        }
        for text in [
            "hertzd_up",
            "/home/me/hertzd/my.toml",
            "myhertzd",
            "hertzd-exporter",
            "hertzd.pftrace",
            "/srv/run/hertzdata",
        ] {
            assert_eq!(called("wheel", text), text);
        }
    }

    #[test]
    fn a_name_fits_a_package_a_service_and_a_user() {
        for name in ["wheel", "my-daemon", "a1"] {
            assert_eq!(wrong(name), None, "{name}");
        }
        for name in ["", "a", "Wheel", "my_daemon", "1st", "-a", "a-", "a--b", "a.b", "gr\u{fc}n", &"a".repeat(32)] {
            assert!(wrong(name).is_some(), "{name}");
        }
    }
}
