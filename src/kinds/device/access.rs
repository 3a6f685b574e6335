//! Opens device nodes, and explains what to do when the system refuses. For opening only; allocates, and may block.

use crate::program;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a node for reading and writing, without waiting for the device.
#[cfg_attr(not(feature = "i2c"), allow(dead_code, reason = "only the kind i2c opens nodes itself"))]
pub(crate) fn open(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.map_err(|error| refusal(path, &error))
}

/// Why a node could not be opened, with the remedy if one is known.
#[cfg_attr(not(any(feature = "i2c", feature = "gpio")), allow(dead_code, reason = "for kinds that open nodes"))]
pub(crate) fn refusal(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => format!("; {}", permission(path)),
        _ => String::new(),
    };
    format!("cannot open {}: {error}{remedy}", path.display())
}

/// How a user gets permission to open a node that the system refuses.
pub(crate) fn permission(path: &Path) -> String {
    match owner(path) {
        Some(Owner::Group(group)) => {
            let [user, unit] = group_lines(&group, "USER");
            format!("it belongs to the group {group}: `{user}` and a new login, or {unit} in the unit")
        }
        Some(Owner::Root) => format!("only root may: a udev rule such as {} gives it to a group", rule(path)),
        None => "hertzd's user needs to be allowed to".to_owned(),
    }
}

/// Who may open a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A group other than root's may open it.
    Group(String),
    /// Only root may.
    Root,
}

/// Who may open the file; `None`: its metadata cannot be read.
pub(crate) fn owner(path: &Path) -> Option<Owner> {
    let facts = fs::metadata(path).ok()?;
    if facts.mode() & 0o060 == 0 || facts.gid() == 0 {
        return Some(Owner::Root);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    Some(Owner::Group(group_name(&groups, facts.gid()).map_or_else(|| facts.gid().to_string(), str::to_owned)))
}

/// The lines that add a user to a group: for a shell, and for a unit.
pub(crate) fn group_lines(group: &str, user: &str) -> [String; 2] {
    [format!("usermod -aG {group} {user}"), format!("SupplementaryGroups={group}")]
}

/// The udev rule that gives nodes like this one to the service's group.
pub(crate) fn rule(node: &Path) -> String {
    format!("KERNEL==\"{}\", GROUP=\"{}\", MODE=\"0660\"", pattern(node), program::name())
}

/// `gpiochip*` for `/dev/gpiochip3`.
fn pattern(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{}*", name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn group_name(groups: &str, wanted: u32) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(wanted)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::emulation::{OTHER_OWNERS, cannot_be_emulated};

    #[test]
    fn refusals_name_the_remedy() {
        let error = open(Path::new("/nonexistent/i2c-1")).unwrap_err();
        assert_eq!(error, "cannot open /nonexistent/i2c-1: No such file or directory (os error 2)");
        assert_eq!(pattern(Path::new("/dev/gpiochip10")), "gpiochip*");
        assert_eq!(group_name("root:x:0:\ni2c:x:113:pi,me\n", 113), Some("i2c"));
        assert_eq!(group_name("root:x:0:\nodd\n", 1), None);
        if cannot_be_emulated(OTHER_OWNERS) {
            return;
        }
        let denied = refusal(Path::new("/dev/null"), &io::Error::from_raw_os_error(libc::EACCES));
        assert!(denied.contains("KERNEL==\"null*\""), "{denied}");
    }
}
