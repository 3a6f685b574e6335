//! hertzd.toml(5): generated from the key tables.

use super::page::{Page, marked};
use crate::cli::SYSTEM_CONFIG;
use crate::config::Kinds;
use crate::config::{Key, PLANT_KEYS, TASK_KEYS, TASK_SIMULATE_KEYS, Value, WORKER_KEYS, WORKER_SIMULATE_KEYS};
use crate::program;
use roff::{bold, roman};

const DESCRIPTION: &[&str] = &[
    "The configuration of hertzd(8) is a TOML file. Each [task.NAME] is a task and each [worker.NAME] a thread that runs \
     tasks; a name has 1 to 64 letters, digits, hyphens and underscores. When the configuration is read again, tasks \
     are compared by name: an unchanged task keeps its grid and its index, and a changed one starts again.",
    "The files of hertzd.d are read after it, in the order of their names. They add workers and tasks, or override single \
     keys of those that are there.",
    "Unknown keys are refused, and so is a key that has no effect beside the others. `hertzd check` shows every fault \
     with its line, and what the configuration means; `hertzd schema` prints a JSON schema for editors.",
    "A duration is a number with its unit: \"250us\", \"1.5ms\", \"10s\", \"1h\". A rate is a number of ticks per second, \
     with or without a unit, or a fraction: 1000, \"60 Hz\", \"44.1 kHz\", \"30000/1001\". A size is a number of bytes with its unit: \"64 KiB\", \"100 MB\".",
];

const EXAMPLE: &str = "\
[worker.main]
cpu = 1
priority = 80

[task.load]
kind = \"sensor\"
rate = \"10 Hz\"
path = \"/proc/loadavg\"
deadline = \"5ms\"
record = \"load.csv\"";

pub(super) fn page(kinds: &Kinds, version: &str) -> String {
    let mut page = Page::new(&format!("{}.toml", program::name()), "5", version, "configuration of hertzd");
    page.section("SYNOPSIS");
    page.literal([SYSTEM_CONFIG, "/etc/hertzd/hertzd.d/*.toml"]);
    page.section("DESCRIPTION");
    DESCRIPTION.iter().for_each(|text| page.paragraph(text));
    let mut table = |title: &str, about: &str, keys: &[Key]| {
        page.section(title);
        page.paragraph(about);
        keys.iter().for_each(|key| describe(&mut page, key));
    };
    table("[worker.NAME]", "A thread. Without any there is one called `main`, with all defaults.", WORKER_KEYS);
    table("[worker.NAME.simulate]", "Only `hertzd simulate` reads it.", WORKER_SIMULATE_KEYS);
    table("[task.NAME]", "A task. These keys are common to all kinds; each kind adds its own.", TASK_KEYS);
    table("[task.NAME.simulate]", "Only `hertzd simulate` reads it.", TASK_SIMULATE_KEYS);
    table(
        "[task.NAME.simulate.plant]",
        "A model in place of what the task measures. Only `hertzd simulate` reads it.",
        PLANT_KEYS,
    );
    for kind in kinds.iter() {
        table(&format!("[task.NAME] of kind {}", kind.name), kind.about, &kind.keys);
        for key in kind.keys.iter() {
            if let Value::Tables(keys) = key.value {
                table(&format!("[[task.NAME.{}]] of kind {}", key.name, kind.name), key.about, keys);
            }
        }
    }
    page.section("EXAMPLE");
    page.literal(EXAMPLE.lines());
    page.section("SEE ALSO");
    page.paragraph("hertzd(8)");
    page.render()
}

fn describe(page: &mut Page, key: &Key) {
    let mut head = vec![bold(key.name), roman(" = ")];
    head.extend(marked(&key.value.shape()));
    page.item(head, &key.text_and_default(" "));
}
