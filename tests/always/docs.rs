//! Compares the documentation with the code: examples, simulated ticks, links, source files, and the README's commands.
//! `src/cli/generate/tests/pages.rs` compares what is generated from the source.

use hertzd::App;
use hertzd::config::Kinds;
use hertzd::pacing::{Excess, FixedStep, Rate};
use hertzd::time::{Instant, Span};
use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README.md, CHANGELOG.md, CONTRIBUTING.md, docs/*.md and docs/tutorials/*.md, each with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let in_docs = ["docs", "docs/tutorials"].into_iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let in_docs = in_docs.map(|entry| entry.unwrap().path());
    let top = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let mut paths: Vec<_> = top
        .into_iter()
        .chain(in_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// The fenced blocks of a page, in order: their language and their text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let (mut blocks, mut open) = (Vec::new(), None::<(String, String)>);
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (None, Some((_, block))) => *block += &format!("{line}\n"),
            (None, None) => (),
        }
    }
    assert!(open.is_none(), "a block is left open");
    blocks
}

/// A page without its blocks.
fn prose(text: &str) -> String {
    let mut inside = false;
    let outside = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// The anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn every_example_configuration_is_valid() {
    let mut count = 0;
    for (path, text) in pages() {
        for (language, block) in blocks(&text) {
            if language == "toml" && block.contains("[task.") {
                let name = path.display().to_string();
                let kinds = Kinds::builtin();
                if block.contains("kind = \"motor\"") {
                    continue; // for a user's own daemon; tests/black_box/new.rs checks it with that
                }
                if let Some(kind) = kinds.left_out().find(|kind| block.contains(&format!("kind = \"{kind}\""))) {
                    crate::program::emulation::say_skipped(&format!(
                        "{name} has an example for {kind}, which this build was made without"
                    ));
                    continue;
                }
                // For the shortest possible time: it reads the whole configuration first.
                if let Err(problems) = App::new(kinds).simulate(&block, Span::from_nanos(1)) {
                    panic!("{name}: {problems}");
                }
                count += 1;
            }
        }
    }
    assert!(count > 0);
}

/// A `console` block that begins with `$ hertzd simulate NAME …` shows the first lines of its output for the
/// `toml` block whose first line is `# NAME`.
#[test]
fn simulated_ticks_are_what_simulate_prints() {
    let mut count = 0;
    for (path, text) in pages() {
        let mut configs = HashMap::new();
        for (language, block) in blocks(&text) {
            let (first, rest) = block.split_once('\n').unwrap_or_default();
            if language == "toml" && first.starts_with("# ") {
                configs.insert(first.trim_start_matches("# ").to_owned(), block.clone());
            }
            let Some(command) = first.strip_prefix("$ hertzd simulate ") else {
                continue;
            };
            if path.parent().is_some_and(|folder| folder.ends_with("tutorials")) {
                continue; // these are run as written
            }
            let (name, options) = command.split_once(' ').unwrap();
            let folder = tempfile::tempdir().unwrap();
            let config = folder.path().join(name);
            fs::write(&config, &configs[name]).unwrap();
            let output = Command::new(env!("CARGO_BIN_EXE_hertzd"))
                .arg("simulate")
                .arg(&config)
                .args(options.split(' '))
                .output()
                .unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            assert!(printed.starts_with(rest), "{}: {first}\n{printed}", path.display());
            // The block shows all ticks; the rest of the output is the summary.
            let after = &printed[rest.len()..];
            assert!(
                after.starts_with('\n') || after.starts_with("{\"version\""),
                "{}: {first}\n{after}",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count > 0);
}

/// A `console` block of a tutorial that begins with `$` shows all the output of its command, run in the root of the source. A line
/// continues if it ends in a backslash or inside quotes.
#[test]
fn commands_of_tutorials_print_what_is_shown() {
    let folder = Path::new(env!("CARGO_BIN_EXE_hertzd")).parent().unwrap();
    let path = std::env::join_paths(
        [folder.into()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let path = path.unwrap();
    let mut count = 0;
    for (page, text) in pages() {
        if !page.parent().is_some_and(|folder| folder.ends_with("tutorials")) {
            continue;
        }
        for (_, block) in blocks(&text).into_iter().filter(|(language, _)| language == "console") {
            let mut command = String::new();
            let mut lines = block.strip_prefix("$ ").unwrap().split_inclusive('\n');
            for line in lines.by_ref() {
                command += line;
                if !line.ends_with("\\\n") && command.matches('\'').count().is_multiple_of(2) {
                    break;
                }
            }
            let config = command.split_whitespace().find(|word| word.starts_with("examples/"));
            let config = config.map(|path| fs::read_to_string(root().join(path)).unwrap()).unwrap_or_default();
            if let Some(kind) = Kinds::builtin().left_out().find(|kind| config.contains(&format!("kind = \"{kind}\"")))
            {
                crate::program::emulation::say_skipped(&format!(
                    "{} uses {kind}, which this build was made without",
                    page.display()
                ));
                continue;
            }
            let output =
                Command::new("sh").args(["-c", &command]).current_dir(root()).env("PATH", &path).output().unwrap();
            let (shown, printed) = (lines.collect::<String>(), String::from_utf8(output.stdout).unwrap());
            assert!(
                printed == shown,
                "{}: {command}{printed}{}",
                page.display(),
                String::from_utf8_lossy(&output.stderr)
            );
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn the_drawing_of_fixed_step_holds() {
    let calls = [0, 7, 13, 26, 50];
    for (excess, pending, discarded, factor) in [(Excess::Keep, 1, 0, 1.0), (Excess::Discard, 0, 1, 0.0)] {
        let mut steps =
            FixedStep::new(Rate::new(100, 1).unwrap()).max_updates(NonZeroU32::new(2).unwrap()).excess(excess);
        let frames = calls.map(|at| steps.advance(Instant::ZERO + Span::from_millis(at)));
        assert_eq!(frames.map(|frame| frame.updates), [0, 0, 1, 1, 2]);
        assert_eq!(frames.map(|frame| frame.render), [true; 5]);
        assert_eq!(frames.map(|frame| frame.interpolation), [0.0, 0.7, 0.3, 0.6, factor]);
        assert_eq!((frames[4].pending, frames[4].discarded), (pending, discarded));
    }
}

#[test]
fn the_readme_gives_the_two_commands() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let (language, block) = blocks(&text).swap_remove(0);
    let commands: Vec<_> = block.lines().filter_map(|line| line.split('#').next()).map(str::trim).collect();
    assert_eq!(language, "sh");
    assert_eq!(commands, ["cargo run --release -- run --for 10s", "cargo test"]);
}

#[test]
fn every_relative_link_resolves() {
    let mut count = 0;
    for (path, text) in pages() {
        let prose = prose(&text);
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            assert!(file.exists(), "{}: {target} leads nowhere", path.display());
            if !fragment.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                assert!(
                    anchors(&text).iter().any(|anchor| anchor == fragment),
                    "{}: no heading for {target}",
                    path.display()
                );
            }
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn every_source_file_named_in_the_docs_exists() {
    let mut count = 0;
    for (path, text) in pages() {
        if path.ends_with("own-daemon.md") {
            continue; // its files belong to another project; tests/black_box/new.rs compares them
        }
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/_-.*{},".contains(c);
        for (at, _) in text.match_indices("src/") {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| is_path(c) || c == ':') {
                continue; // /usr/src, a URL
            }
            let named: String = text[at..].chars().take_while(|c| is_path(*c)).collect();
            let named = named.trim_end_matches(['.', ',', '*']);
            assert!(root().join(named).exists(), "{}: {named} does not exist", path.display());
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn the_unit_that_holds_lines_is_the_one_that_is_shipped_but_for_its_sandbox() {
    let shipped = fs::read_to_string(root().join("systemd/hertzd-hold.service")).unwrap();
    let page = fs::read_to_string(root().join("docs/control.md")).unwrap();
    let units: Vec<_> = blocks(&page).into_iter().filter(|(language, _)| language == "ini").collect();
    let [(_, unit)] = &units[..] else { panic!("{units:?}") };
    assert!(
        shipped.strip_prefix(unit).is_some_and(|rest| rest.starts_with("\n# The sandbox of hertzd.service")),
        "{unit}"
    );
}
