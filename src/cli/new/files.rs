//! The files of a new project, from templates. Files that hertzd's own package also has, such as its unit, are derived from those. Pure.

use crate::program;

/// The parameters of a project.
pub(super) struct Project<'a> {
    pub(super) name: &'a str,
    /// The line of Cargo.toml for the dependency on hertzd.
    pub(super) dependency: String,
    /// The same, described for people.
    pub(super) on: String,
    /// The checkout's Cargo.lock.
    pub(super) lock: String,
}

/// A file to write, with its path inside the project.
pub(super) struct NewFile {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) is_program: bool,
}

impl NewFile {
    fn new(path: impl Into<String>, text: String) -> Self {
        Self { path: path.into(), text, is_program: false }
    }
}

impl Project<'_> {
    pub(super) fn files(&self) -> Vec<NewFile> {
        let name = self.name;
        let mut files: Vec<_> = [
            ("Cargo.toml", include_str!("Cargo.toml.in")),
            (".gitignore", include_str!("gitignore.in")),
            ("README.md", include_str!("README.md.in")),
            ("src/main.rs", include_str!("main.rs.in")),
            ("src/lib.rs", include_str!("lib.rs.in")),
            ("src/motor.rs", include_str!("motor.rs.in")),
            ("tests/virtual_clock.rs", include_str!("virtual_clock.rs.in")),
            ("debian/control", include_str!("control.in")),
            ("debian/copyright", include_str!("copyright.in")),
            ("debian/postinst", include_str!("postinst.in")),
            ("debian/prerm", include_str!("prerm.in")),
            ("debian/postrm", include_str!("postrm.in")),
        ]
        .into_iter()
        .map(|(path, template)| NewFile::new(path, self.filled(template)))
        .collect();
        files.push(NewFile { is_program: true, ..NewFile::new("package", self.filled(include_str!("package.in"))) });
        files.push(NewFile::new(format!("config/{name}.toml"), self.filled(include_str!("config.toml.in"))));
        for (path, shipped) in [
            (format!("systemd/{name}.service"), include_str!("../../../systemd/hertzd.service")),
            (format!("systemd/{name}.sysusers"), include_str!("../../../systemd/hertzd.sysusers")),
            (format!("systemd/60-{name}.rules"), include_str!("../../../systemd/60-hertzd.rules")),
        ] {
            files.push(NewFile::new(path, program::called(name, shipped).replace("docs/", "hertzd's docs/")));
        }
        files.push(NewFile::new("Cargo.lock", self.lock.clone()));
        files
    }

    fn filled(&self, template: &str) -> String {
        [
            ("@NAME@", self.name),
            ("@CRATE@", &self.name.replace('-', "_")),
            ("@RUST@", env!("CARGO_PKG_RUST_VERSION")),
            ("@HERTZD@", &self.dependency),
            ("@HERTZD_IS@", &self.on),
        ]
        .into_iter()
        .fold(template.to_owned(), |text, (mark, value)| text.replace(mark, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mark_is_left_and_the_service_is_the_programs_own() {
        let project = Project {
            name: "my-wheel",
            dependency: "hertzd = \"1\"".into(),
            on: "hertzd 1".into(),
            lock: String::new(),
        };
        for file in project.files() {
            let of_package = ["@VERSION@", "@ARCHITECTURE@", "@NEEDS@", "@SIZE@"];
            let text = of_package.iter().fold(file.text.clone(), |text, mark| text.replace(mark, ""));
            let mark = text.split('@').skip(1).find(|word| {
                !word.is_empty()
                    && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                    && text.contains(&format!("@{word}@"))
            });
            assert_eq!(mark, None, "{}", file.path);
            if file.path.starts_with("systemd/") {
                let of_hertzd = text.lines().find(|line| line.contains("hertzd") && !line.contains("hertzd's docs/"));
                assert_eq!(of_hertzd, None, "{}", file.path);
                assert!(text.contains("my-wheel"), "{}", file.path);
            }
        }
    }
}
