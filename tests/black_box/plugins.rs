//! Plugins in C and in Rust, built here: the data a tick receives, the checks of a section, reloads, the virtual clock, the header and the
//! examples.

use crate::plugin;
use crate::program;
use crate::program::{Ended, HERE, HERTZD, Running, count, run_in, task};
use crate::recorded::{by_topic, messages};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The section of a probe, with these keys.
fn probe(name: &str, library: &str, keys: &str) -> String {
    format!("[task.{name}]\nkind = \"plugin\"\nlibrary = \"{HERE}/{library}\"\nrate = \"1 kHz\"\n{keys}\n")
}

fn started(folder: TempDir, config: &str, args: &[&str]) -> Running {
    run_in(folder, Command::new(HERTZD), config, args)
}

/// `hertzd COMMAND test.toml ARGS` with the configuration in `folder`.
fn hertzd(command: &str, folder: &Path, config: &str, args: &[&str]) -> Output {
    let path = folder.join("test.toml");
    fs::write(&path, config.replace(HERE, folder.to_str().unwrap())).unwrap();
    Command::new(HERTZD).arg(command).arg(path).args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What the daemon and the probe report of each tick, by its index.
fn told(ended: &Ended, name: &str) -> [BTreeMap<u64, Value>; 2] {
    let messages = messages(&ended.folder.path().join("x.mcap"));
    let topics = by_topic(&messages);
    ["ticks", "values"].map(|kind| {
        let messages = topics[format!("{name}/{kind}").as_str()].iter();
        messages
            .map(|message| (u64::from(message.sequence), serde_json::from_slice::<Value>(&message.data).unwrap()))
            .collect()
    })
}

/// Asserts that the probe's reports agree with the daemon's own recording. Returns the number of given-up releases that the probe was told
/// of.
fn agree(ended: &Ended, name: &str) -> u64 {
    let summary = ended.summary();
    let ([ticks, all_values], of) = (told(ended, name), task(&summary, name));
    // On a machine too busy to record everything, the loss is counted.
    let (ran, lost) = (count(of, "ran"), count(&of["recorded"], "lost"));
    assert_eq!((ticks.len() + all_values.len()) as u64 + lost, 2 * ran, "{of}");
    let is_whole = all_values.len() as u64 == ran;
    let (mut before, mut skipped) = (None, 0);
    for (n, values) in &all_values {
        let value = |key: &str| values[key].as_f64().unwrap_or_else(|| panic!("{key}: {values}"));
        assert_eq!(value("n"), *n as f64);
        assert_eq!(value("after"), value("lateness"), "started - release");
        assert!(value("lateness") >= 0.0, "never early");
        if let Some(tick) = ticks.get(n) {
            assert_eq!(tick["n"].as_u64(), Some(*n));
            assert_eq!(Some(value("lateness")), tick["lateness_ns"].as_f64(), "{tick} {values}");
        }
        // Exact: both are integers far below 2^53.
        let whole = |key: &str| value(key).to_string().parse::<i64>().unwrap();
        let release = whole("release-s") * 1_000_000_000 + whole("release-ns");
        if let Some((n_before, release_before)) = before {
            assert!(!is_whole || value("skipped") == (n - n_before - 1) as f64, "{values}");
            assert_eq!(release - release_before, ((n - n_before) * 1_000_000) as i64, "on the grid");
        } else {
            assert!(!is_whole || value("skipped") == *n as f64, "{values}");
        }
        skipped += u64::try_from(whole("skipped")).unwrap();
        before = Some((*n, release));
    }
    if is_whole {
        let last = *all_values.last_key_value().unwrap().0;
        assert_eq!(count(of, "skipped"), skipped + count(of, "due") - last - 1);
    }
    if ticks.len() as u64 == ran {
        // The last tick does not include releases given up at the end of the run.
        let recorded: u64 = ticks.values().map(|tick| tick["skipped"].as_u64().unwrap()).sum();
        let at_the_end = count(of, "due") - ticks.last_key_value().unwrap().0 - 1;
        assert!((recorded..=recorded + at_the_end).contains(&count(of, "skipped")), "{recorded}: {of}");
    }
    skipped
}

#[test]
fn each_tick_is_told_what_the_daemon_records_of_it() {
    for rust in [false, true] {
        if rust && !program::has_rust(plugin::rustc()) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let library = if rust { plugin::rust_probe(folder.path()) } else { plugin::probe(folder.path()) };
        let library = library.file_name().unwrap().to_str().unwrap();
        let patient = "overrun = \"credit\"\nmax-debt = \"1h\"\n";
        let config = probe("p", library, &format!("gain = 2\nrecord = \"{HERE}/x.mcap\"\n{patient}"));
        let ended =
            started(folder, &format!("[worker.main]\npolicy = \"other\"\n{config}"), &["--for", "5s", "--json"]).wait();
        ended.assert_no_fault();
        assert_eq!(agree(&ended, "p"), 0, "with so much credit none is skipped");
        assert_eq!(count(task(&ended.summary(), "p"), "due"), 5_000);
    }
}

#[test]
fn so_is_one_behind_ticks_that_were_given_up() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let keys = format!(
        "gain = 2\nmode = \"sleep\"\nevery = 50\nlength = \"5ms\"\noverrun = \"drop\"\nrecord = \"{HERE}/x.mcap\""
    );
    let ended = started(folder, &probe("p", "libprobe.so", &keys), &["--for", "3s", "--json"]).wait();
    ended.assert_no_fault();
    assert!(agree(&ended, "p") >= 4, "one that sleeps for 5 ms gives up four at least");
}

#[test]
fn settings_inputs_ages_errors_and_missing_values_arrive() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let failing = |name: &str, mode: &str| {
        probe(
            name,
            "libprobe.so",
            &format!("gain = 1.5\nmode = \"{mode}\"\nevery = 10\nin = 7\nrecord = \"{HERE}/x.mcap\""),
        )
    };
    let config = format!(
        "[worker.main]\npolicy = \"other\"\nclock = \"tai\"\n\
         [task.up]\nkind = \"sensor\"\nrate = \"1 kHz\"\npath = \"/proc/uptime\"\n{}{}{}{}{}[task.sum]\nkind = \"expr\"\nrate = \"1 kHz\"\n\
         inputs = {{ x = \"bad.gain\" }}\nexpression = \"x\"\nrecord = \"{HERE}/x.mcap\"\n",
        probe("p", "libprobe.so", "gain = 2.5\nin = \"up.value\""),
        failing("fails", "fail"),
        failing("odd", "thread"),
        failing("none", "none"),
        failing("bad", "nan"),
    );
    let ended = started(folder, &config, &["--for", "2s", "--json"]).wait();
    let summary = ended.summary();
    let last = |name: &str, value: &str| {
        let value = &task(&summary, name)["values"][value];
        value["last"].as_f64().or(value["last_good"].as_f64())
    };
    assert_eq!([last("p", "gain"), last("fails", "in"), last("p", "clock")], [Some(2.5), Some(7.0), Some(1.0)]);
    assert_eq!([last("p", "period"), last("p", "mode"), last("p", "quality")], [Some(1e6), Some(0.0), Some(0.0)]);
    assert!(last("p", "in").unwrap() > 0.0 && last("p", "age").unwrap() >= 0.0);
    assert!(last("p", "age").unwrap() < 120e9, "an age, and no instant of another clock");
    assert_eq!(last("fails", "age"), Some(-1.0), "a number has no age");
    // At most one in ten releases: given-up releases count in a tick's index.
    for name in ["fails", "odd"] {
        let (due, errors) = (count(task(&summary, name), "due"), count(task(&summary, name), "errors"));
        assert!(errors > 0 && errors <= due.div_ceil(10), "{errors} of {due}");
    }
    assert!(ended.stderr.contains("the second error"), "{}", ended.stderr);
    assert!(ended.stderr.contains("a code that its table has no error for"), "{}", ended.stderr);
    assert_eq!(count(task(&summary, "none"), "errors"), 0);
    let messages = messages(&ended.folder.path().join("x.mcap"));
    // The number of rows with that value, and the number without.
    let rows = |name: &str, value: &str| {
        let topic = format!("{name}/values");
        let of_task = messages.iter().filter(|message| message.topic == topic);
        let (with, without): (Vec<bool>, Vec<bool>) = of_task
            .map(|message| serde_json::from_slice::<Value>(&message.data).unwrap()[value].is_number())
            .partition(|there| *there);
        (with.len(), without.len())
    };
    let ran = |name: &str| usize::try_from(count(task(&summary, name), "ran")).unwrap();
    assert!(
        rows("none", "n").0 > 0 && rows("none", "n").0 < ran("none") && rows("none", "n") == rows("none", "gain"),
        "no value at all"
    );
    assert!(rows("bad", "gain").1 > 0 && rows("bad", "n") == (ran("bad"), 0), "only that one");
    let (with, without) = rows("sum", "out");
    assert!(with > 0 && (without > 0 || with < ran("sum")), "what is no number is bad for who takes it");
}

#[test]
fn keys_are_checked_like_those_of_hertzds_own_kinds() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let refused = |keys: &str| {
        let output = hertzd("check", folder.path(), &probe("p", "libprobe.so", keys), &["--no-open"]);
        assert_eq!(output.status.code(), Some(78), "{keys}: {}", stdout(&output));
        stderr(&output)
    };
    let cases = [
        ("gain = 11", "task.p: gain = 11; must be from 0 to 10"),
        ("gain = -1", "must be from 0 to 10"),
        ("gain = \"fast\"", "must be a finite number"),
        ("", "task.p: gain: missing; its plugin wants it: number"),
        ("gian = 1", "did you mean `gain`?"),
        ("gain = 1\nmode = \"slep\"", "did you mean \"sleep\"?"),
        ("gain = 1\nevery = 0", "must be a whole number from 1 to 1000000"),
        ("gain = 1\nevery = 1.5", "must be a whole number"),
        ("gain = 1\nlength = 5", "write a unit"),
        ("gain = 1\nlength = \"61s\"", "must be at most 1min"),
        ("gain = 1\nlabel = 5", "must be a text in quotes"),
        ("gain = 1\nlabel = \"a\\u0000b\"", "must not contain a NUL byte"),
        ("gain = 1\non = \"yes\"", "must be true or false"),
        ("gain = 1\nin = \"nobody.x\"", "there is no task"),
        ("gain = 1\nwhatever = 1", "unknown key"),
        ("gain = 1\npath = \"/x\"", "known keys: "),
    ];
    for (keys, wanted) in cases {
        let text = refused(keys);
        assert!(text.contains(wanted), "{keys}: {text}");
        assert!(text.contains("1 problem;") && text.contains("test.toml:"), "{keys}: {text}");
    }
    // The message names the file, line and column of the value.
    assert!(refused("gain = 1\nevery = 0").contains("test.toml:6:9"), "{}", refused("gain = 1\nevery = 0"));
    let many = refused("gain = 20\nevery = 0\nwhatever = 1");
    assert!(many.contains("3 problems"), "{many}");
    let good = "gain = 1e1\nin = 3\nmode = \"burn\"\nevery = 0x10\nlength = \"1min\"\nlabel = \"ä\"\non = false\nvalid = [0, 1]";
    let output = hertzd("check", folder.path(), &probe("p", "libprobe.so", good), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("task p: whether the plugin"), "{}", stdout(&output));
    // A name that the plugin does not define is not one of its values.
    let taker = "[task.t]\nkind = \"expr\"\nrate = 10\ninputs = { x = \"p.gian\" }\nexpression = \"x\"\n";
    let output = hertzd("check", folder.path(), &(probe("p", "libprobe.so", "gain = 1") + taker), &[]);
    assert!(stderr(&output).contains("gain"), "{}", stderr(&output));
}

#[test]
fn without_its_library_a_section_is_checked_as_far_as_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let config = |keys: &str| probe("p", "gone.so", keys);
    let output = hertzd("check", folder.path(), &config("gain = 1\nanything = true"), &["--no-open"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("cannot be loaded here, so the keys of its own were not checked"), "{said}");
    assert!(said.contains("No such file or directory") && said.contains("test.toml:3:11"), "{said}");
    // A typo in a key common to all tasks is reported even without the library.
    let output = hertzd("check", folder.path(), &config("gain = 1\nphsae = \"1us\""), &["--no-open"]);
    assert!(
        output.status.code() == Some(78) && stderr(&output).contains("did you mean `phase`?"),
        "{}",
        stderr(&output)
    );
    for command in ["check", "run", "simulate"] {
        let output = hertzd(command, folder.path(), &config("gain = 1"), &[]);
        assert_eq!(output.status.code(), Some(78), "{command}: {}", stderr(&output));
        assert!(stderr(&output).contains("it cannot be loaded: "), "{command}: {}", stderr(&output));
    }
}

/// Each defect of the probe, and its message.
const BAD: &[(u32, &str)] = &[
    (0, "it has no function `hertzd_plugin_table`"),
    (1, "returned a null pointer"),
    (2, "it was built for version 77 of the interface"),
    (3, "the plugin's name is a null pointer"),
    (4, "its table counts 4294967295 keys, and 256 is the most"),
    (5, "its table counts 1 keys, but its pointer to them is null"),
    (6, "the name of key 1 is a null pointer"),
    (7, "the name of key 1 is not UTF-8: byte 4 is 0xFF"),
    (8, "its key \"Gain\": a name has up to 64 small letters"),
    (9, "its key \"rate\" is called as one that every plugin task has"),
    (10, "its key gain has the type 99"),
    (11, "its value \"line\\nbreak\": the name must not contain a line break"),
    (12, "its table counts 2147483647 values, and 1024 is the most"),
    (13, "its key \"library\" is called as one that every plugin task has"),
    (14, "its key gain is a choice without words"),
    (15, "the range of its key gain, 2 to 1, holds no number"),
    (16, "it has two keys called \"gain\""),
    (17, "it has two values called \"out\""),
    (18, "the preset \"speed\"; that of an input must be a finite number"),
    (19, "the plugin says that gain is `3` by itself"),
    (20, "pointer to the keys is not aligned"),
    (21, "its table has no function `create`"),
    (22, "its table has no function `tick`"),
    (23, "undefined symbol: nobody_has_this"),
    (24, "its key gain has the flags 0xff00, which version 1 of the interface does not have"),
    (25, "its table has the flags 0xff00, which version 1 of the interface does not have"),
    (26, "its key gain has the word \"up\" twice"),
    (27, "its key gain has 0x1 in its field `reserved`, which must be 0"),
    (28, "the plugin says that gain is `0` by itself"),
    (29, "its table has 0x7 in its field `reserved`, which must be 0"),
    (30, "returned a pointer that is not aligned as a table is"),
    (31, "the preset \"nan\"; that of an input must be a finite number"),
    (32, "the range of its key gain, 0.2 to 0.8, holds no whole number"),
    (33, "the range of its key gain, -5 to -1, holds no duration"),
    (34, "its key gain has an empty word"),
    (35, "its key gain is required, and has the preset \"1\""),
    (36, "its unit \"V\\u{1b}[31m\" has a line break or another control character"),
];

#[test]
fn a_library_that_is_no_plugin_is_refused_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let good = probe("good", "libprobe.so", "gain = 1");
    plugin::probe(folder.path());
    for (number, wanted) in BAD {
        plugin::build_c("bad.c", &folder.path().join("bad.so"), &[&format!("-DBAD={number}")]);
        let output = hertzd("check", folder.path(), &(good.clone() + &probe("p", "bad.so", "")), &[]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(78) && said.contains(wanted), "{number}: {wanted}\n{said}");
        assert!(said.contains("test.toml:8:11") && said.contains("1 problem;"), "{number}: {said}");
    }
    let output = hertzd("schema", folder.path(), &probe("p", "gone.so", ""), &[]);
    assert!(output.status.code() == Some(78) && stderr(&output).contains("there is no schema"), "{}", stderr(&output));
    // For another machine: the header's field e_machine names an old one.
    let mut elf = fs::read(folder.path().join("libprobe.so")).unwrap();
    elf[18..20].copy_from_slice(&[8, 0]);
    let cut = fs::read(folder.path().join("libprobe.so")).unwrap()[..3_000].to_vec();
    let garbage =
        [("cut.so", cut), ("other.so", elf), ("text.so", b"#!/bin/sh\n".repeat(999)), ("empty.so", Vec::new())];
    for (name, bytes) in garbage {
        fs::write(folder.path().join(name), bytes).unwrap();
        let output = hertzd("check", folder.path(), &probe("p", name, "gain = 1"), &[]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(78) && said.contains("it cannot be loaded: "), "{name}: {said}");
        let wanted = match name {
            "other.so" => "it was built for another machine",
            "cut.so" => "it is not whole: its file is cut off after 3000 bytes",
            "text.so" => "invalid ELF header",
            _ => "file too short",
        };
        assert!(said.contains(wanted), "{name}: {said}");
    }
    // A folder, a name to be found in the system's folder, and a library whose `create` fails.
    let output = hertzd("check", folder.path(), &probe("p", "", "gain = 1"), &[]);
    assert!(stderr(&output).contains("is not a file"), "{}", stderr(&output));
    let bare = "[task.p]\nkind = \"plugin\"\nrate = 1\nlibrary = \"none-of-this-name.so\"\n";
    let output = hertzd("check", folder.path(), bare, &[]);
    assert!(
        stderr(&output).contains("/usr/lib/hertzd/plugins/none-of-this-name.so: No such file"),
        "{}",
        stderr(&output)
    );
    let keys = "gain = 1\nmode = \"create\"\nlabel = \"a \\\"b\\\"\"\nlength = \"2us\"\non = false";
    let output = hertzd("run", folder.path(), &probe("p", "libprobe.so", keys), &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("the plugin probe refused to be set up: no such device for p: {"), "{said}");
    let json = said.split_once("for p: ").unwrap().1.lines().next().unwrap();
    let json: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let wanted = r#"{"mode": "create", "every": 100, "length": 2000, "gain": 1.0, "label": "a \"b\"", "on": false}"#;
    assert_eq!(json, serde_json::from_str::<Value>(wanted).unwrap());
}

#[test]
fn the_schema_of_a_configuration_has_the_keys_of_its_plugins() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let config = probe("p", "libprobe.so", "gain = 1");
    let output = hertzd("schema", folder.path(), &config, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let schema: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let rules = schema["$defs"]["task"]["allOf"].as_array().unwrap();
    let library = folder.path().join("libprobe.so");
    let own = rules.iter().find(|rule| rule["if"]["properties"]["library"]["const"] == library.to_str().unwrap());
    let own = &own.unwrap()["then"]["allOf"];
    assert_eq!(own[0]["properties"]["every"]["maximum"], 1_000_000);
    assert_eq!(own[1]["properties"]["gain"]["maximum"].as_f64(), Some(10.0));
    assert!(own[0]["properties"]["gain"]["description"].as_str().unwrap().contains("In V."), "{own}");
    let length = own[0]["properties"]["length"]["description"].as_str().unwrap();
    assert!(length.contains("It must be at most 1min."), "{length}");
    let verdict = |schema: &Value, keys: &str| {
        let text = probe("p", "libprobe.so", keys).replace(HERE, folder.path().to_str().unwrap());
        let instance: Value = toml::from_str(&text).unwrap();
        let script = "import json, sys; from jsonschema_rs import Draft202012Validator as V\n\
                      s, i = json.load(sys.stdin); print(V(s).is_valid(i))";
        let mut python = Command::new("python3");
        let file = folder.path().join("both.json");
        fs::write(&file, serde_json::to_vec(&serde_json::json!([schema, instance])).unwrap()).unwrap();
        let output = python.args(["-c", script]).stdin(fs::File::open(file).unwrap()).output().unwrap();
        match stdout(&output).trim() {
            "True" => Some(true),
            "False" => Some(false),
            _ => {
                program::emulation::say_skipped(&format!("python3 has no package jsonschema-rs: {}", stderr(&output)));
                None
            }
        }
    };
    let output = Command::new(HERTZD).arg("schema").output().unwrap();
    let plain: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let refused =
        ["", "gain = 11", "gian = 1", "gain = 1\nmode = \"slep\"", "gain = 1\nevery = 0", "gain = 1\nwhatever = 1"];
    for keys in refused {
        assert_ne!(verdict(&schema, keys), Some(true), "{keys}");
        assert_ne!(verdict(&plain, keys), Some(false), "without the library any key may be one: {keys}");
    }
    for keys in ["gain = 1", "gain = 10\nin = \"p.n\"\nmode = \"burn\"\nlength = \"1s\"\nphase = \"1us\""] {
        assert_ne!(verdict(&schema, keys), Some(false), "{keys}");
    }
}

/// A library whose initialiser writes the user that it runs as into the file `to`.
fn confessing(library: &Path, to: &Path) {
    let source = library.with_extension("c");
    let code = "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void loaded(void) {\n\
                FILE *file = fopen(TO, \"w\"); if (file) { fprintf(file, \"%d\", (int)geteuid()); fclose(file); } }\n";
    fs::write(&source, code).unwrap();
    let to = format!("-DTO=\"{}\"", to.display());
    plugin::build_c(source.to_str().unwrap(), library, &[&to]);
}

#[test]
fn a_relative_library_is_that_of_the_configurations_folder() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    plugin::probe(folder.path());
    let loaded = elsewhere.path().join("loaded");
    confessing(&elsewhere.path().join("libprobe.so"), &loaded);
    let config = folder.path().join("test.toml");
    fs::write(&config, "[task.p]\nkind = \"plugin\"\nlibrary = \"./libprobe.so\"\nrate = \"1 kHz\"\ngain = 2\n")
        .unwrap();
    let drop_ins = folder.path().join("test.d");
    fs::create_dir(&drop_ins).unwrap();
    fs::write(drop_ins.join("a.toml"), "[task.p]\nlibrary = \"./libprobe.so\"\n").unwrap();
    let mut commands = vec![vec!["check"], vec!["schema"], vec!["plan"], vec!["simulate", "--for", "1s"]];
    commands.push(vec!["check", "--no-open"]);
    for args in &commands {
        let output = Command::new(HERTZD).args(args).arg(&config).current_dir(elsewhere.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        assert!(!loaded.exists(), "{args:?} has run what lies in the working directory");
    }
    // With another name for the folder, and from standard input, which has no folder.
    let output = Command::new(HERTZD).args(["check", "test.toml"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for name in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let input = fs::File::open(&config).unwrap();
        let output =
            Command::new(HERTZD).args(["check", name]).stdin(input).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    }
}

#[test]
fn root_loads_no_library_that_others_can_change() {
    if !program::is_root() {
        return program::skip("only root has rights that others lack");
    }
    let folder = tempfile::tempdir().unwrap();
    let (below, loaded) = (folder.path().join("below"), folder.path().join("loaded"));
    fs::create_dir(&below).unwrap();
    let library = below.join("libtheirs.so");
    confessing(&library, &loaded);
    let config = probe("p", "below/libtheirs.so", "gain = 2");
    for (mode, owner, of, wanted) in [
        (0o777, 0, &below, "may be written by everyone (mode 0777): `sudo chmod go-w "),
        (0o644, 65_534, &library, "who could change it: let it belong to root (`sudo chown root:root "),
        (0o666, 0, &library, "libtheirs.so may be written by everyone (mode 0666)"),
        (0o755, 65_534, &below, "the folder "),
    ] {
        fs::set_permissions(of, fs::Permissions::from_mode(mode)).unwrap();
        chown(of, Some(owner), Some(0)).unwrap();
        for (command, code) in [("check", 78), ("schema", 78), ("plan", 0), ("run", 78), ("simulate", 78)] {
            let output = hertzd(command, folder.path(), &config, &[]);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(code), "{command}: {said}");
            assert!(
                code == 0 || said.contains(wanted) && said.contains("as root, hertzd loads only code"),
                "{command}: {said}"
            );
            assert!(!loaded.exists(), "{command} has run it");
        }
        fs::set_permissions(of, fs::Permissions::from_mode(0o755)).unwrap();
        chown(of, Some(0), Some(0)).unwrap();
    }
    let output = hertzd("check", folder.path(), &config, &[]);
    assert!(loaded.exists() && stderr(&output).contains("hertzd_plugin_table"), "root's own: {}", stderr(&output));
}

#[test]
fn a_program_with_capabilities_runs_no_code_of_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name);
    program::copy_program(&inside("hertzd"));
    let give = "chmod 0755 . && chgrp 65534 hertzd && chmod 0750 hertzd && setcap cap_sys_nice,cap_ipc_lock+ep hertzd";
    let given = Command::new("sh").args(["-c", give]).current_dir(folder.path()).output().unwrap();
    if !given.status.success() {
        return program::skip(&format!("a file cannot be given capabilities: {}", stderr(&given)));
    }
    for name in ["theirs", "evil"] {
        fs::create_dir(inside(name)).unwrap();
        chown(inside(name), Some(65_534), Some(65_534)).unwrap();
    }
    confessing(&inside("libroots.so"), &inside("theirs/roots"));
    confessing(&inside("evil/libtheirs.so"), &inside("theirs/loaded"));
    program::script(&inside("evil/sh"), &format!("touch {}", inside("theirs/sh").display()));
    let run = |args: &[&str], config: &str| {
        fs::write(inside("test.toml"), config.replace(HERE, folder.path().to_str().unwrap())).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env", "LC_TIME=C"]);
        command.arg(format!("LD_PRELOAD={}", inside("evil/libtheirs.so").display()));
        command.arg(format!("PATH={}:/usr/bin:/bin", inside("evil").display()));
        for name in ["ALSA_PLUGIN_DIR", "ALSA_CONFIG_PATH", "HOME", "XDG_CONFIG_HOME"] {
            command.arg(format!("{name}={}", inside("evil").display()));
        }
        command.arg(inside("hertzd")).args(args).arg(inside("test.toml")).output().unwrap()
    };
    let output = run(&["check"], &probe("p", "evil/libtheirs.so", "gain = 2"));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("a program with capabilities of its own"), "{said}");
    let output = run(&["check"], &probe("p", "libroots.so", "gain = 2"));
    assert!(stderr(&output).contains("hertzd_plugin_table") && inside("theirs/roots").exists(), "{}", stderr(&output));
    let config = format!(
        "[worker.main]\npolicy = \"other\"\n[task.p]\nkind = \"process\"\nrate = 10\n\
         command = [\"sh\", \"-c\", \"env >{HERE}/theirs/env; exec sleep 60\"]\n[[task.p.value]]\nname = \"x\"\n"
    );
    let output = run(&["run", "--for", "2s"], &config);
    let environment = fs::read_to_string(inside("theirs/env")).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let has = |line: &str| environment.lines().any(|found| found == line);
    assert!(has("HOME=/nonexistent") && has("LC_TIME=C"), "{environment}");
    assert!(!environment.contains("evil") && !environment.contains("ALSA"), "{environment}");
    assert!(!inside("theirs/sh").exists(), "it was found in their PATH");
    assert!(!inside("theirs/loaded").exists(), "it was loaded");
}

/// With a service's user created for the test, and an /etc that only this test sees.
#[test]
fn root_judges_the_services_configuration_as_its_user() {
    let there = Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|output| output.status.success());
    if !program::is_root() || !there {
        return program::skip("another user's rights take root");
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let state = inside("state");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(64_998), Some(64_998)).unwrap();
    confessing(&inside("libtheirs.so"), &state.join("loaded"));
    chown(inside("libtheirs.so"), Some(64_998), Some(64_998)).unwrap();
    fs::write(inside("passwd"), "root:x:0:0::/:/bin/sh\nhertzd:x:64998:64998::/:/bin/sh\n").unwrap();
    fs::write(inside("group"), "root:x:0:\ndevices:x:64997:hertzd\n").unwrap();
    let unit = format!("[Service]\nWorkingDirectory={}\n", state.display());
    fs::write(inside("hertzd.service"), unit).unwrap();
    for (name, gid, mode) in [("member", 64_997, 0o640), ("closed", 0, 0o600)] {
        fs::write(inside(name), "7\n").unwrap();
        chown(inside(name), Some(0), Some(gid)).unwrap();
        fs::set_permissions(inside(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let run = |config: &str, args: &str| {
        fs::write(inside("service.toml"), config.replace(HERE, folder.path().to_str().unwrap())).unwrap();
        let script = format!(
            "cd {} && mount -t tmpfs hertzd-test /etc && mkdir -p /etc/hertzd /etc/systemd/system && cp passwd group /etc/ && \
             cp service.toml /etc/hertzd/hertzd.toml && cp hertzd.service /etc/systemd/system/ && exec {HERTZD} {args}",
            folder.path().display()
        );
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
    };
    let check = |config: &str, args: &str| run(config, &format!("check {args}"));
    let sensor = |name: &str| format!("[task.{name}]\nkind = \"sensor\"\nrate = 1\npath = \"{HERE}/{name}\"\n");
    let recorded = sensor("member") + "record = \"member.csv\"\n";
    let output = check(&recorded, "");
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(!stdout(&output).contains("arning"), "it has the group, and the unit's folder: {}", stdout(&output));
    for args in ["", "/etc/hertzd/hertzd.toml", "--config=/etc/hertzd/../hertzd/hertzd.toml"] {
        let output = check(&(recorded.clone() + &sensor("closed")), args);
        assert_eq!(output.status.code(), Some(78), "{args}: {}{}", stdout(&output), stderr(&output));
        assert!(stderr(&output).contains("closed: Permission denied"), "{args}: {}", stderr(&output));
    }
    let output = check(&probe("p", "libtheirs.so", "gain = 2"), "--no-open");
    assert!(stderr(&output).contains("hertzd_plugin_table"), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(fs::read_to_string(state.join("loaded")).unwrap(), "64998");

    fs::remove_file(state.join("loaded")).unwrap();
    plugin::probe(folder.path());
    chown(inside("libprobe.so"), Some(64_998), Some(64_998)).unwrap();
    // Its findings about devices: the user, the severity, and the text.
    let doctor = |config: &str, args: &str| {
        let output = run(config, &format!("doctor --json {args}"));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let devices = report["findings"].as_array().unwrap().iter().filter(|finding| finding["about"] == "devices");
        let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        devices.map(|it| ["subject", "weight", "found"].map(|key| word(it, key))).collect::<Vec<_>>()
    };
    let whole = recorded.clone() + &probe("p", "libprobe.so", "gain = 2");
    let found = doctor(&whole, "");
    let is_well =
        |[who, weight, _]: &[String; 3]| who == "the service's user hertzd" && ["unseen", "well"].contains(&&**weight);
    assert!(found.iter().all(is_well) && found[0][2].contains("task p: whether the plugin"), "{found:?}");
    let wrong = recorded + &probe("p", "libprobe.so", "gain = true") + &sensor("closed");
    let found = doctor(&wrong, "");
    assert!(
        found.len() == 1 && found[0][1] == "fails" && found[0][2].starts_with("task.p: gain = true; "),
        "{found:?}"
    );
    let found = doctor(&(probe("p", "libtheirs.so", "") + &sensor("closed")), "");
    assert!(
        found.iter().any(|[_, weight, found]| weight == "fails" && found.contains("hertzd_plugin_table")),
        "{found:?}"
    );
    assert_eq!(fs::read_to_string(state.join("loaded")).unwrap(), "64998", "root has not run it");
    // Root starts any other file itself. What the service's user could load from it is unknown.
    let found = doctor(&whole, "service.toml");
    let [of_root, of_service] = ["this user", "the service's user hertzd"]
        .map(|who| found.iter().filter(|finding| finding[0] == who).map(|it| it[1].as_str()).collect::<Vec<_>>());
    assert!(of_root.contains(&"fails") && !of_service.contains(&"harms"), "{found:?}");
}

fn edit(running: &Running, config: &str) {
    let text = config.replace(HERE, running.folder().to_str().unwrap());
    fs::write(running.folder().join("test.toml"), text).unwrap();
}

#[test]
fn a_reload_keeps_what_it_may_and_takes_a_new_library_for_new_sections_only() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let socket = folder.path().join("status.sock");
    let both = |gain: &str| probe("old", "libprobe.so", "gain = 1") + &probe("new", "libprobe.so", gain);
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = started(folder, &both("gain = 1"), &args);
    running.wait_until_granted();
    let last = |name: &str, value: &str| {
        let snapshot = program::snapshot(&socket);
        task(&snapshot, name)["values"][value]["last"].as_f64().unwrap_or(0.0)
    };
    running.wait_for("both tick", |_| last("old", "ticks") > 10.0 && last("new", "ticks") > 10.0);
    let reload = |running: &Running| {
        let reload = Command::new(HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
        (reload.status.code(), stdout(&reload) + &stderr(&reload), running.stderr())
    };
    // A new file at the same path, as a linker or an installation leaves it.
    let library = running.folder().join("libprobe.so");
    plugin::build_c("probe.c", &running.folder().join("next.so"), &["-DGENERATION=2"]);
    fs::rename(running.folder().join("next.so"), &library).unwrap();
    edit(&running, &both("gain = 2"));
    let before = last("old", "ticks");
    let (code, said, log) = reload(&running);
    assert_eq!(code, Some(0), "{said}\n{log}");
    running.wait_for("the new one ticks", |_| last("new", "gain") == 2.0);
    assert_eq!([last("old", "generation"), last("new", "generation")], [1.0, 2.0]);
    running.wait_for("the old one goes on", |_| last("old", "ticks") > before);
    assert!(last("new", "ticks") <= last("old", "ticks"), "it began again");
    // A wrong configuration changes nothing.
    edit(&running, &both("gain = 20"));
    let (code, said, _) = reload(&running);
    assert!(code == Some(78) && (said.clone() + &running.stderr()).contains("must be from 0 to 10"), "{said}");
    edit(&running, &both("gain = 3\nmode = \"create\""));
    let (code, said, _) = reload(&running);
    assert!(code == Some(78) && (said.clone() + &running.stderr()).contains("refused to be set up"), "{said}");
    assert_eq!(last("new", "gain"), 2.0);
    // A file that is overwritten in place while tasks run from it is detected. (A byte after its end harms no task.)
    let mut bytes = fs::OpenOptions::new().append(true).open(&library).unwrap();
    std::io::Write::write_all(&mut bytes, b"x").unwrap();
    edit(&running, &both("gain = 4"));
    let (code, said, _) = reload(&running);
    assert!(
        code == Some(78) && (said.clone() + &running.stderr()).contains("was changed in place while tasks run from it"),
        "{said}"
    );
    running.signal("TERM");
    let ended = running.wait();
    ended.assert_no_fault_of_plugins();
}

/// Messages that a stop may log on a busy machine are allowed.
trait NoFault {
    fn assert_no_fault_of_plugins(&self);
}

impl NoFault for Ended {
    fn assert_no_fault_of_plugins(&self) {
        assert!(matches!(self.status.code(), Some(0 | 1)) && !self.stderr.contains("crashed"), "{}", self.describe());
    }
}

#[test]
fn on_the_virtual_clock_it_runs_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    plugin::probe(folder.path());
    let source =
        "[task.wave]\nkind = \"profile\"\nrate = \"1 kHz\"\nshape = \"ramp\"\nfrom = 0\nto = 1\nduration = \"1s\"\n";
    let config = source.to_owned() + &probe("p", "libprobe.so", "gain = 3\nin = \"wave.out\"");
    let library = folder.path().join("libprobe.so").display().to_string();
    let over = hertzd("simulate", folder.path(), &config, &["--for", "500ms", "--force", "--csv", &library]);
    let refused = "libprobe.so: this command reads that file, which would be lost";
    assert!(over.status.code() == Some(64) && stderr(&over).contains(refused), "{}", stderr(&over));
    let output = hertzd("simulate", folder.path(), &config, &["--for", "500ms", "--csv", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| {
        header
            .iter()
            .position(|column| column.split(' ').next() == Some(name))
            .unwrap_or_else(|| panic!("{name}: {header:?}"))
    };
    let rows: Vec<Vec<&str>> =
        lines.map(|line| line.split(',').collect()).filter(|row: &Vec<&str>| row[0] == "p").collect();
    assert_eq!(rows.len(), 500);
    for (n, row) in (0_u32..).zip(&rows) {
        let value = |name: &str| row[at(&format!("p.{name}"))].parse::<f64>().unwrap();
        assert_eq!([value("n"), value("lateness"), value("skipped"), value("age")], [f64::from(n), 0.0, 0.0, 0.0]);
        assert_eq!([value("gain"), value("mode"), value("ticks")], [3.0, 2.0, f64::from(n) + 1.0], "at the desk");
        assert!((value("in") - f64::from(n) / 1_000.0).abs() < 1e-12);
    }
}

#[test]
fn the_header_is_plain_c_and_plain_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <hertzd.h>\nconst hertzd_plugin *hertzd_plugin_table(void) { return 0; }\n";
    let compilers: [(&str, &str, &[&str]); 2] =
        [("gcc", "x.c", &["c99", "c11", "c17"]), ("g++", "x.cpp", &["c++98", "c++11", "c++17"])];
    for (compiler, name, standards) in compilers {
        let source = folder.path().join(name);
        fs::write(&source, text).unwrap();
        if compiler == "g++" && Command::new(compiler).arg("--version").output().is_err() {
            program::skip("there is no g++");
            continue;
        }
        for standard in standards {
            let mut command = Command::new(compiler);
            command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-I"]);
            let output = command.arg(plugin::header_folder()).arg(&source).args(["-o", "/dev/null"]).output().unwrap();
            assert!(output.status.success(), "{compiler} {standard}: {}", stderr(&output));
        }
    }
}

#[test]
fn the_examples_are_built_by_one_make_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plugin");
    if !program::works(Command::new("make")) {
        return program::skip("there is no make");
    }
    if !program::has_rust(plugin::rustc()) {
        return;
    }
    for file in
        ["Makefile", "smooth.c", "smooth.toml", "peak.toml", "peak/Cargo.toml", "peak/src/lib.rs", "peak/src/hertzd.rs"]
    {
        let to = folder.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(examples.join(file), to).unwrap();
    }
    let mut make = Command::new("make");
    make.arg("-C").arg(folder.path()).arg("CFLAGS=-O2 -Wall -Wextra -Werror");
    let made = make.arg(format!("HEADER={}", plugin::header_folder().join("hertzd.h").display())).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    for name in ["smooth", "peak"] {
        let of = |args: &[&str]| {
            let mut command = Command::new(HERTZD);
            command
                .current_dir(folder.path())
                .arg(args[0])
                .arg(format!("{name}.toml"))
                .args(&args[1..])
                .output()
                .unwrap()
        };
        let checked = of(&["check"]);
        assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
        assert!(!stdout(&checked).contains("Warnings"), "{}", stdout(&checked));
        let simulated = of(&["simulate", "--for", "1s", "--csv", "-"]);
        let text = stdout(&simulated);
        let value = |n: usize| {
            let line =
                text.lines().find(|line| line.starts_with(&format!("{name},{n},"))).unwrap_or_else(|| panic!("{text}"));
            line.rsplit(',').next().unwrap().parse::<f64>().unwrap()
        };
        match name {
            // The step is at 0.5 s: after the time constant, 63 % of it has come through. The step's own tick is the first.
            "smooth" => assert!((value(549) - (1.0 - (-1.0_f64).exp())).abs() < 1e-9, "{}", value(549)),
            // The peak of the wave, 3, is at 125 ms. Half a second later half of it is left, and there is another peak of 3.
            _ => assert!((value(125) - 3.0).abs() < 1e-9 && value(200) < 3.0 && value(200) > 2.5, "{}", value(200)),
        }
        let ran = of(&["run", "--for", "1s", "--json"]);
        let summary: Value =
            serde_json::from_str(&stdout(&ran)).unwrap_or_else(|error| panic!("{error}: {}", stderr(&ran)));
        assert!(count(task(&summary, name), "ran") > 0);
    }
}
