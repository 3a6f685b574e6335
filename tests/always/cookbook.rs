//! The examples of docs/cookbook.md do what the page says: each is played on the virtual clock, with a recording in place of its sensor.

use crate::desk::{Desk, Table};
use std::fmt::Write;

/// Ticks per second of every example.
const RATE: usize = 10;

/// What a sensor measures: a number of ticks, and the text in each of its columns during them. `""` is no value; `N` is the tick.
type Measured<'a> = &'a [(usize, &'a [&'a str])];

/// The headings of the page that have an example, each with the example.
fn examples() -> Vec<(String, String)> {
    let page = include_str!("../../docs/cookbook.md");
    let sections = page.split("\n## ").skip(1).filter_map(|section| {
        let (_, example) = section.split_once("```toml\n")?;
        Some((section.lines().next()?.to_owned(), example.split_once("```")?.0.to_owned()))
    });
    sections.collect()
}

/// Plays the example below this heading, for as long as its sensor measures.
fn play(heading: &str, sensor: &str, columns: &[&str], measured: Measured<'_>) -> Table {
    let (_, example) = examples().into_iter().find(|(at, _)| at == heading).unwrap();
    let desk = Desk::with(&format!("{example}\n[task.{sensor}.simulate]\nvalues = \"day.csv\"\n"));
    let mut recorded = format!("tick,release_utc,lateness_ns,{}\n", columns.join(","));
    let cells = measured.iter().flat_map(|(ticks, cells)| std::iter::repeat_n(cells, *ticks));
    for (n, cells) in cells.enumerate() {
        let (seconds, tenths) = (n / RATE, n % RATE);
        let values = cells.join(",").replace('N', &n.to_string());
        writeln!(recorded, "{n},2026-11-21T00:00:{seconds:02}.{tenths}Z,0,{values}").unwrap();
    }
    desk.put("day.csv", &recorded);
    let ticks: usize = measured.iter().map(|(ticks, _)| ticks).sum();
    desk.table(&format!("{}ms", ticks * 1000 / RATE))
}

/// The value of each tick.
fn of(table: &Table, task: &str, value: &str) -> Vec<Option<f64>> {
    table.of(task, value).into_iter().map(|(_, value)| value).collect()
}

/// Each value in turn, with the number of ticks that it lasts.
fn runs(runs: &[(usize, Option<f64>)]) -> Vec<Option<f64>> {
    runs.iter().flat_map(|(ticks, value)| std::iter::repeat_n(*value, *ticks)).collect()
}

const NOTHING: Option<f64> = None;
const NO: Option<f64> = Some(0.0);
const YES: Option<f64> = Some(1.0);

#[test]
fn every_example_is_played() {
    let headings: Vec<_> = examples().into_iter().map(|(heading, _)| heading).collect();
    let calls = include_str!("cookbook.rs").split("let table = play(\"").skip(1);
    let played: Vec<_> = calls.map(|call| call.split('"').next().unwrap()).collect();
    assert_eq!(headings, played, "each is played, in the order of the page");
    let page = include_str!("../../docs/cookbook.md");
    assert_eq!(headings.len(), page.matches("\n## ").count(), "each section has an example");
}

#[test]
fn a_fallback() {
    let table = play("A fallback", "board", &["temp1"], &[(10, &["25"]), (10, &[""]), (10, &["26"])]);
    assert_eq!(of(&table, "room", "out"), runs(&[(10, Some(25.0)), (10, Some(20.0)), (10, Some(26.0))]));
}

#[test]
fn two_of_three() {
    let measured: Measured<'_> = &[
        (10, &["20", "21", "23"]),
        (10, &["20", "999", "23"]), // outside its valid range
        (10, &["20", "149", "23"]), // wrong, and not seen to be
        (10, &["20", "999", ""]),
        (10, &["", "", ""]),
    ];
    let table = play("Two of three", "board", &["temp1", "temp2", "temp3"], measured);
    let voted = [Some(21.0), Some(21.5), Some(23.0), NOTHING, NOTHING].map(|value| (10, value));
    assert_eq!(of(&table, "temp", "voted"), runs(&voted));
    assert_eq!(of(&table, "temp", "votes"), runs(&[3.0, 2.0, 3.0, 1.0, 0.0].map(|votes| (10, Some(votes)))));
    assert_eq!(of(&table, "temp", "degraded"), runs(&[NO, YES, NO, YES, YES].map(|value| (10, value))));
}

#[test]
fn the_last_good_value_for_a_while() {
    let measured: Measured<'_> = &[(10, &["50"]), (20, &[""]), (10, &["50"]), (40, &[""]), (20, &["50"])];
    let table = play("The last good value for a while", "board", &["temp1"], measured);
    let applied = of(&table, "heater", "applied");
    // 0.2 = 0.02 · (60 − 50), also over 2 s without a measurement. The controller bridges another second.
    assert_eq!(applied[..69], runs(&[(69, Some(0.2))])[..]);
    assert_eq!(applied[71..80], runs(&[(9, NO)])[..], "and then it is safe");
    assert_eq!(applied.last(), Some(&Some(0.2)));
}

#[test]
fn two_sensors_that_agree() {
    let measured: Measured<'_> =
        &[(10, &["20", "21"]), (70, &["20", "30"]), (10, &["20", "21"]), (70, &["20", ""]), (10, &["20", "21"])];
    let table = play("Two sensors that agree", "board", &["temp1", "temp2"], measured);
    let agree = [(10, YES), (70, NO), (10, YES), (70, NOTHING), (10, YES)];
    assert_eq!(of(&table, "plausible", "out"), runs(&agree));
    let alarm = of(&table, "disagree", "active");
    let raised = |ticks: std::ops::Range<usize>| alarm[ticks].iter().filter(|active| **active == YES).count();
    assert_eq!([raised(0..60), raised(61..80)], [0, 19], "after 5 s");
    assert_eq!([raised(81..135), raised(150..160)], [0, 10], "while one of them is bad");
}

#[test]
fn a_frozen_sensor() {
    let table = play("A frozen sensor", "board", &["temp1"], &[(20, &["N"]), (150, &["7"]), (20, &["N"])]);
    let shown = of(&table, "board", "temp1");
    assert!(shown[..120].iter().all(Option::is_some), "{shown:?}");
    assert!(shown[121..170].iter().all(Option::is_none), "{shown:?}");
    assert!(shown[170..].iter().all(Option::is_some), "{shown:?}");
}

#[test]
fn an_actuator_without_effect() {
    let table = play("An actuator without effect", "meter", &["value"], &[(30, &["0.5"]), (70, &["0.01"])]);
    let alarm = of(&table, "no-flow", "active");
    assert_eq!(alarm[..80], runs(&[(80, NO)])[..]);
    assert_eq!(alarm[81..], runs(&[(19, YES)])[..]);
}

#[test]
fn a_stuck_heater() {
    // It warms up by 0.1 K a tick, and then no more.
    let mut measured = (0..50).map(|n| format!("{}", 20.0 + f64::from(n) / 10.0)).collect::<Vec<_>>();
    measured.resize(200, "24.9".to_owned());
    let cells: Vec<[&str; 1]> = measured.iter().map(|cell| [cell.as_str()]).collect();
    let measured: Vec<(usize, &[&str])> = cells.iter().map(|cells| (1, cells.as_slice())).collect();
    let table = play("A stuck heater", "oven", &["temp1"], &measured);
    let alarm = of(&table, "no-heat", "active");
    assert!(alarm[..100].iter().all(|active| *active != YES), "{alarm:?}");
    assert!(alarm[180..].iter().all(|active| *active == YES), "{alarm:?}");
}

#[test]
fn a_count_that_stands_still() {
    let measured: Measured<'_> = &[(30, &["N"]), (50, &["29"]), (20, &["N"]), (50, &[""])];
    let table = play("A count that stands still", "station", &["value"], measured);
    let alarm = of(&table, "silent", "active");
    assert_eq!(alarm[..59], runs(&[(59, NO)])[..]);
    assert_eq!(alarm[61..80], runs(&[(19, YES)])[..]);
    assert_eq!(alarm[81..129], runs(&[(48, NO)])[..]);
    assert_eq!(alarm[131..], runs(&[(19, YES)])[..], "a count that cannot be read stands still");
}

#[test]
fn act_only_when_good() {
    let table = play("Act only when good", "board", &["temp1"], &[(10, &["25"]), (10, &["35"]), (10, &[""])]);
    assert_eq!(of(&table, "fan-on", "out"), runs(&[(10, NO), (10, YES), (10, NO)]));
}
