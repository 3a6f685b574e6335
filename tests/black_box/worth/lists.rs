//! The three lists: sources, faults and views, and what a value is worth in each pair of the first two. The table in docs/quality.md is made of
//! them; `tests/system/in-vm/worth.py` reads it there and plays what needs drivers, or a clock that can be set.

use std::fs;
use std::path::Path;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    File,
    Program,
    Library,
    Hwmon,
    Iio,
    I2c,
    Gpio,
    Can,
    Sound,
    Pictures,
}

pub(super) const SOURCES: [Source; 10] = [
    Source::File,
    Source::Program,
    Source::Library,
    Source::Hwmon,
    Source::Iio,
    Source::I2c,
    Source::Gpio,
    Source::Can,
    Source::Sound,
    Source::Pictures,
];

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    Frozen,
    DeadWriter,
    Away,
    Back,
    Garbage,
    OutOfRange,
    Transient,
    Slow,
    ClockStep,
}

pub(super) const FAULTS: [Fault; 9] = [
    Fault::Frozen,
    Fault::DeadWriter,
    Fault::Away,
    Fault::Back,
    Fault::Garbage,
    Fault::OutOfRange,
    Fault::Transient,
    Fault::Slow,
    Fault::ClockStep,
];

/// Where a value is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum View {
    Json,
    Status,
    Top,
    Log,
    Exporter,
    Report,
    Csv,
    Mcap,
    Summary,
}

pub(super) const VIEWS: [View; 9] = [
    View::Json,
    View::Status,
    View::Top,
    View::Log,
    View::Exporter,
    View::Report,
    View::Csv,
    View::Mcap,
    View::Summary,
];

/// What the value is then, in all views.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Worth {
    Good,
    /// Now and then nothing new, which is no error.
    None,
    /// Bad for this reason, at the source.
    Bad(&'static str),
    /// Bad for this reason at one tick, and good again at the next: an error that is counted.
    Passing(&'static str),
    /// Good at the source, but the task that takes it refuses it, for this reason.
    Refused(&'static str),
    /// Nothing new at the source, until the task that takes it refuses it, for this reason.
    Silent(&'static str),
}

/// A pair that is missing here does not compile.
pub(super) fn wanted(source: Source, fault: Fault) -> Worth {
    use Source::{Can, File, Gpio, Hwmon, I2c, Iio, Library, Pictures, Program, Sound};
    match (source, fault) {
        (_, Fault::Frozen) => Worth::Bad("stuck"),
        (File | Program, Fault::DeadWriter) => Worth::Bad("stale"),
        (Hwmon | Iio | I2c | Gpio | Sound, Fault::DeadWriter) => Worth::Bad("stuck"),
        (Library, Fault::DeadWriter) => Worth::Silent("stale"),
        (Can, Fault::DeadWriter) => Worth::Bad("unavailable"),
        (Pictures, Fault::DeadWriter) => Worth::Bad("failed"),
        (Library, Fault::Away) => Worth::Bad("failed"),
        (File | Program | Hwmon | Iio | I2c | Gpio | Can | Sound | Pictures, Fault::Away) => Worth::Bad("unavailable"),
        (_, Fault::Back) => Worth::Good,
        (File, Fault::Garbage) => Worth::Bad("failed"),
        (Program | Hwmon | Iio | Can, Fault::Garbage) => Worth::Bad("not-available"),
        (Library | Sound, Fault::Garbage) => Worth::Bad("not-finite"),
        (I2c, Fault::Garbage) => Worth::Bad("out-of-range"),
        (Gpio, Fault::Garbage) => Worth::Good,
        (Pictures, Fault::Garbage) => Worth::None,
        (_, Fault::OutOfRange) => Worth::Bad("out-of-range"),
        (File, Fault::Transient) => Worth::None,
        (Program | Can, Fault::Transient) => Worth::Good,
        (Library | Hwmon | Iio | I2c | Gpio | Sound | Pictures, Fault::Transient) => Worth::Passing("failed"),
        (_, Fault::Slow) => Worth::Refused("stale"),
        (_, Fault::ClockStep) => Worth::Good,
    }
}

/// What happens, in words, for the table.
fn told(source: Source, fault: Fault) -> &'static str {
    use Source::{Can, File, Gpio, Hwmon, I2c, Iio, Library, Pictures, Program, Sound};
    match (source, fault) {
        (File, Fault::Frozen) => "the same number is written again and again, for `stuck-after`",
        (Program | Library, Fault::Frozen) => "it gives the same number for `stuck-after`",
        (Hwmon | Iio | I2c, Fault::Frozen) => "its register gets the same number again and again, for `stuck-after`",
        (Gpio, Fault::Frozen) => "it is held at one level for `stuck-after`",
        (Can, Fault::Frozen) => "each frame has the same number, for `stuck-after`",
        (Sound, Fault::Frozen) => "each sample is the same, so `rms` is, for `stuck-after`",
        (Pictures, Fault::Frozen) => "each picture is the same, so `brightness` is, for `stuck-after`",

        (File, Fault::DeadWriter) => "nothing is written for `max-file-age`",
        (Program, Fault::DeadWriter) => {
            "it hangs: it has not answered for 1 s, or ten periods if that is longer; until then its last answer is refused once it is older than the `max-age` of who takes it"
        }
        (Library, Fault::DeadWriter) => "it has nothing new (`HERTZD_NO_VALUE`) for the `max-age` of who takes it",
        (Hwmon | Iio | I2c, Fault::DeadWriter) => "the chip measures no more: its register keeps the last number",
        (Gpio, Fault::DeadWriter) => "what drives the line has died: it keeps its last level",
        (Can, Fault::DeadWriter) => "no frame comes for `timeout`",
        (Sound, Fault::DeadWriter) => "nothing plays: silence, with an `rms` of 0",
        (Pictures, Fault::DeadWriter) => "it is open and gives no picture for 5 s",

        (File, Fault::Away) => "the file is deleted",
        (Program, Fault::Away) => "it has ended",
        (Library, Fault::Away) => "what it reads is gone: it returns an error at each tick",
        (Hwmon, Fault::Away) => "its driver is unbound",
        (Iio, Fault::Away) => "the device is removed",
        (I2c, Fault::Away) => "the bus is unplugged: its driver is unbound",
        (Gpio, Fault::Away) => "its chip is removed",
        (Can, Fault::Away) => "the interface is removed",
        (Sound | Pictures, Fault::Away) => "the device is unplugged: its driver is unbound",

        (File, Fault::Back) => "the file is written again",
        (Program, Fault::Back) => "it runs again",
        (Library, Fault::Back) => "it gives numbers again",
        (Hwmon | I2c | Sound | Pictures, Fault::Back) => "it is bound again",
        (Iio | Gpio | Can, Fault::Back) => "it is there again",

        (File, Fault::Garbage) => "the file holds no number",
        (Program, Fault::Garbage) => "it gives `null`",
        (Library, Fault::Garbage) => "it gives `NAN`",
        (Hwmon | Iio, Fault::Garbage) => "its driver says that there is no number now (`ENODATA`)",
        (I2c, Fault::Garbage) => {
            "all bits are 1, as on a bus without a chip: a number like any other, so `valid` must exclude it"
        }
        (Gpio, Fault::Garbage) => "it bounces: a line has a level at each tick",
        (Can, Fault::Garbage) => "its bits are those for \"not available\" (`j1939`, `not-available`)",
        (Sound, Fault::Garbage) => "a sample is not a number (`f32`)",
        (Pictures, Fault::Garbage) => "pictures are damaged now and then: they are counted in `damaged`",

        (Gpio, Fault::OutOfRange) => "the level is not the one that `valid` allows",
        (Sound, Fault::OutOfRange) => "it is too loud: `rms` is outside `valid`",
        (Pictures, Fault::OutOfRange) => "it is too bright: `brightness` is outside `valid`",
        (File | Program | Library | Hwmon | Iio | I2c | Can, Fault::OutOfRange) => "the number is outside `valid`",

        (File, Fault::Transient) => "the file is empty: its writer truncates it before it writes",
        (Program, Fault::Transient) => "an answer is late",
        (Library, Fault::Transient) => "it returns an error now and then",
        (Hwmon | Iio, Fault::Transient) => "now and then it cannot be read (`EIO`)",
        (I2c, Fault::Transient) => "the chip does not acknowledge now and then (`EREMOTEIO`)",
        (Gpio, Fault::Transient) => "now and then its chip does not answer (`EIO`)",
        (Can, Fault::Transient) => "an error frame comes: it is counted in `error-frames`",
        (Sound, Fault::Transient) => "a tick comes too late, and sound is lost (xrun)",
        (Pictures, Fault::Transient) => "the stream fails, and is started again",

        (_, Fault::Slow) => "its rate is lower than the `max-age` of who takes it allows",
        (_, Fault::ClockStep) => "UTC is set forward by hours, and back",
    }
}

const fn name(source: Source) -> &'static str {
    match source {
        Source::File => "a file (`sensor`)",
        Source::Program => "a program (`process`)",
        Source::Library => "a library (`plugin`)",
        Source::Hwmon => "a hwmon chip (`sensor`)",
        Source::Iio => "an IIO device (`sensor`)",
        Source::I2c => "a chip on I²C (`i2c`)",
        Source::Gpio => "a line (`gpio`)",
        Source::Can => "a CAN signal (`can`)",
        Source::Sound => "sound (`audio`)",
        Source::Pictures => "a camera (`video`)",
    }
}

const fn title(fault: Fault) -> &'static str {
    match fault {
        Fault::Frozen => "frozen",
        Fault::DeadWriter => "dead writer",
        Fault::Away => "away",
        Fault::Back => "back",
        Fault::Garbage => "garbage",
        Fault::OutOfRange => "out of range",
        Fault::Transient => "transient error",
        Fault::Slow => "slow",
        Fault::ClockStep => "clock step",
    }
}

/// The table of the page.
fn table() -> String {
    let mut text = String::from("| source | fault | what happens | the value is |\n| --- | --- | --- | --- |\n");
    for source in SOURCES {
        for fault in FAULTS {
            let worth = match wanted(source, fault) {
                Worth::Good => "good".to_owned(),
                Worth::None => "`none`; what takes it waits for `max-age`".to_owned(),
                Worth::Bad(reason) => format!("bad: `{reason}`"),
                Worth::Passing(reason) => format!("bad for that tick: `{reason}`; then good"),
                Worth::Refused(reason) => format!("good at its source; who takes it refuses it: `{reason}`"),
                Worth::Silent(reason) => format!("`none` at its source; who takes it refuses it: `{reason}`"),
            };
            text += &format!("| {} | {} | {} | {worth} |\n", name(source), title(fault), told(source, fault));
        }
    }
    text
}

#[test]
fn the_page_has_the_table_of_these_lists() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/quality.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- sources and faults -->\n\n", "\n<!-- end -->");
    let (head, rest) = page.split_once(begin).unwrap();
    let (found, tail) = rest.split_once(end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, format!("{head}{begin}{}{end}{tail}", table())).unwrap();
        return;
    }
    assert_eq!(found, table(), "write it with UPDATE_DOCS=1");
}
