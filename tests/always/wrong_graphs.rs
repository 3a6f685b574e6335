//! Graphs that are wrong, or hardly meant: `hertzd check` reports each problem with file, line and column, in a drop-in too.

use std::fs;
use std::process::Command;

const REFUSED: i32 = 78;
const WARNED: i32 = 0;

/// A sensor of a file that exists.
const SENSOR: &str = "[task.load]\nkind = \"sensor\"\nrate = 10\npath = \"/proc/loadavg\"\n";

/// One fault: its name, the exit code, the message, and a text in which `«` and `»` enclose the culprit.
type Case = (&'static str, i32, &'static str, &'static str);

const CASES: [Case; 22] = [
    (
        "an unknown task",
        REFUSED,
        "there is no task lod",
        "[task.p]\nkind = \"pid\"\nrate = 10\nsetpoint = 1\nkp = 1\ninput = «\"lod.value\"»\n",
    ),
    (
        "an unknown value",
        REFUSED,
        "task load has no value \"valu\"",
        "[task.p]\nkind = \"pid\"\nrate = 10\nsetpoint = 1\nkp = 1\ninput = «\"load.valu\"»\n",
    ),
    (
        "an unknown value of an expression's input",
        REFUSED,
        "task load has no value \"x\"",
        "[task.e]\nkind = \"expr\"\nrate = 10\nexpression = \"a\"\ninputs = { a = «\"load.x\"» }\n",
    ),
    (
        "a range for a value that there is not",
        REFUSED,
        "task other has no value \"valu\"",
        "[task.other]\nkind = \"sensor\"\nrate = 10\npath = \"/proc/loadavg\"\nvalid = «{ valu = [0, 1] }»\n\
         [task.p]\nkind = \"pid\"\nrate = 10\nsetpoint = 1\nkp = 1\ninput = \"other.value\"\n",
    ),
    (
        "a cycle",
        REFUSED,
        "closes a cycle",
        "[task.a]\nkind = \"pid\"\nrate = 10\nsetpoint = 1\nkp = 1\ninput = \"b.out\"\n\
         [task.b]\nkind = \"pid\"\nrate = 10\nsetpoint = 1\nkp = 1\ninput = «\"a.out\"»\n",
    ),
    (
        "a value of the tick before where nothing closes a cycle",
        REFUSED,
        "nothing closes a cycle",
        "[task.p]\nkind = \"pid\"\nrate = 10\nsetpoint = 1\nkp = 1\ninput = «{ previous = \"load.value\", initial = 0 }»\n",
    ),
    (
        "an output without safe",
        REFUSED,
        "safe: ",
        "[task.«o»]\nkind = \"output\"\nrate = 10\ninput = \"load.value\"\npath = \"@HERE@/a\"\n",
    ),
    (
        "a signal without safe",
        REFUSED,
        "safe: ",
        "[task.c]\nkind = \"can\"\nrate = 10\ninterface = \"lo\"\n\
         «[[task.c.send]]»\nid = 1\nname = \"x\"\ninput = \"load.value\"\nstart-bit = 0\nlength = 8\n",
    ),
    (
        "two writers of one target under two names",
        REFUSED,
        "is in use by task o1; only one task at a time can have it",
        "[task.o1]\nkind = \"output\"\nrate = 10\ninput = 1\nsafe = 0\npath = \"@HERE@/there\"\n\
         [task.o2]\nkind = \"output\"\nrate = 10\ninput = 1\nsafe = 0\npath = «\"@HERE@/link\"»\n",
    ),
    (
        "gains of mixed sign",
        REFUSED,
        "gains of mixed sign act against each other",
        "[task.p]\nkind = \"pid\"\nrate = 10\nsetpoint = 1\nkp = 1\nki = «-1»\ninput = \"load.value\"\n",
    ),
    (
        "a signal of an unknown task",
        REFUSED,
        "there is no task lod",
        "[task.c]\nkind = \"can\"\nrate = 10\ninterface = \"lo\"\n\
         [[task.c.send]]\nid = 1\nname = \"x\"\ninput = «\"lod.value\"»\nstart-bit = 0\nlength = 8\nsafe = 0\n",
    ),
    (
        "a signal of an unknown value",
        REFUSED,
        "task load has no value \"x\"",
        "[task.c]\nkind = \"can\"\nrate = 10\ninterface = \"lo\"\nmissing = \"wait\"\n\
         [[task.c.send]]\nid = 1\nname = \"x\"\ninput = «\"load.x\"»\nstart-bit = 0\nlength = 8\nsafe = 0\n",
    ),
    (
        "an output far faster than its input",
        WARNED,
        "is taken 100 times for each value that load makes",
        "[task.o]\nkind = \"output\"\nrate = 1000\ninput = «\"load.value\"»\nsafe = 0\npath = \"@HERE@/a\"\n",
    ),
    (
        "the same with max-age",
        WARNED,
        "is taken 100 times for each value that load makes",
        "[task.o]\nkind = \"output\"\nrate = 1000\ninput = «\"load.value\"»\nmax-age = \"1s\"\nsafe = 0\npath = \"@HERE@/a\"\n",
    ),
    (
        "units that do not fit along a chain",
        WARNED,
        "is in K, and input, slow.out, is in °C (by the unit of oven.value)",
        "[task.oven]\nkind = \"sensor\"\nrate = 10\npath = \"/proc/loadavg\"\nunit = \"°C\"\n\
         [task.slow]\nkind = \"filter\"\nrate = 10\ninput = \"oven.value\"\ntype = \"low-pass\"\ncutoff = 1\n\
         [task.target]\nkind = \"profile\"\nrate = 10\nshape = \"constant\"\nlevel = 1\nunit = \"K\"\n\
         [task.p]\nkind = \"pid\"\nrate = 10\nkp = 1\ninput = \"slow.out\"\nsetpoint = «\"target.out\"»\n",
    ),
    (
        "a worker that leaves the thread of safe values no priority",
        WARNED,
        "leaves none above it for the thread that has safe values written",
        "[worker.main]\npriority = «99»\n\
         [task.o]\nkind = \"output\"\nrate = 10\ninput = 1\nsafe = 0\npath = \"@HERE@/a\"\n",
    ),
    (
        "an output in a folder that is missing",
        REFUSED,
        "; there is no folder /",
        "[task.o]\nkind = \"output\"\nrate = 10\ninput = 1\nsafe = 0\npath = «\"@HERE@/no/such/a\"»\n",
    ),
    (
        "a profile whose first row has a mistyped number",
        REFUSED,
        "typo.csv:1: the time \"O.0\" is not a number",
        "[task.p]\nkind = \"profile\"\nrate = 10\nshape = \"csv\"\nfile = «\"@HERE@/typo.csv\"»\n",
    ),
    (
        "a value that is old before it is taken",
        WARNED,
        "raise max-age",
        "[task.p]\nkind = \"pid\"\nrate = 20\nsetpoint = 1\nkp = 1\ninput = «\"load.value\"»\nmax-age = \"20ms\"\n",
    ),
    (
        "a latency that may not hold",
        WARNED,
        "may not hold: what the task uses can be 50.0 ms old",
        "[task.p]\nkind = \"pid\"\nrate = 20\nsetpoint = 1\nkp = 1\ninput = \"load.value\"\nmax-latency = «\"40ms\"»\n",
    ),
    (
        "a latency that can never hold",
        REFUSED,
        "can never hold",
        "[task.p]\nkind = \"pid\"\nrate = 10\nphase = \"30ms\"\nsetpoint = 1\nkp = 1\ninput = \"load.value\"\n\
         max-latency = «\"20ms\"»\n",
    ),
    (
        "a device that may come later",
        WARNED,
        "the task would wait for it",
        "[task.«o»]\nkind = \"sensor\"\nrate = 10\npath = \"@HERE@/nothing\"\nmissing = \"wait\"\n",
    ),
];

/// The line and the column of the first `«`, and the text without the marks.
fn marked(text: &str) -> (usize, usize, String) {
    let before = &text[..text.find('«').expect("a mark")];
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (before.matches('\n').count() + 1, column, text.replace(['«', '»'], ""))
}

#[test]
fn each_wrong_graph_is_told_with_file_line_and_column() {
    let mut missing = Vec::new();
    for (name, wanted, says, text) in CASES {
        for in_a_drop_in in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let here = folder.path().to_str().unwrap();
            fs::write(folder.path().join("there"), "0\n").unwrap();
            fs::write(folder.path().join("typo.csv"), "O.0,20\n1,21\n").unwrap();
            std::os::unix::fs::symlink("there", folder.path().join("link")).unwrap();
            let path = folder.path().join("test.toml");
            let file = if in_a_drop_in {
                fs::create_dir(folder.path().join("test.d")).unwrap();
                fs::write(&path, SENSOR).unwrap();
                folder.path().join("test.d/50-loop.toml")
            } else {
                path.clone()
            };
            let text = if in_a_drop_in { text.to_owned() } else { format!("{SENSOR}{text}") };
            let (line, column, text) = marked(&text);
            // A line that the folder's name makes longer moves no mark: each mark comes before the name.
            fs::write(&file, text.replace("@HERE@", here)).unwrap();
            let output = Command::new(env!("CARGO_BIN_EXE_hertzd")).arg("check").arg(&path).output().unwrap();
            let [printed, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
            let (told, level) = if wanted == REFUSED { (&error, "error: ") } else { (&printed, "warning: ") };
            let blocks: Vec<&str> = told.split(level).skip(1).filter(|block| block.contains(says)).collect();
            let at = format!("--> {}:{line}:{column}\n", file.display());
            let is_told = blocks.len() == 1 && blocks[0].contains(&at) && output.status.code() == Some(wanted);
            if !is_told {
                missing.push(format!("{name}: not at {at}{printed}{error}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
