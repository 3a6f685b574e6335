//! Frames as text, drawn as on a terminal, at several sizes and in every state of a daemon.

use super::*;
use crate::snapshot::Summary;
use crate::time::{Instant, Span};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use ratatui::text::Text;
use serde_json::{Value, json};

const LOOK: Look = Look { colour: true, unicode: true };

fn at(millis: i64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// A task after this many seconds at 1 kHz; it missed 7 ticks in the fifth second.
fn control(seconds: u64) -> Value {
    let (due, missed) = (seconds * 1_000, if seconds >= 5 { 7 } else { 0 });
    let sum = due * 20_500;
    let mut task = json!({"task": "control", "worker": "main", "rate": "1000/1", "state": "ticking", "due": due, "met": due - missed,
        "missed": missed, "pending": 0, "ran": due - missed, "errors": 0,
        "lateness_ns": {"count": due, "min": 12, "p50": 15, "p90": 28, "p99": 11_000, "p99_9": 974_000, "max": 5_610_000, "mean": 900},
        "run_ns": {"count": due, "min": 20_400, "p50": 20_500, "p90": 21_000, "p99": 29_600, "p99_9": 58_100, "max": 189_000, "mean": 20_500, "sum": sum},
        "response_ns": {"count": due, "min": 20_400, "p50": 20_600, "p90": 21_100, "p99": 38_100, "p99_9": 388_000, "max": 5_700_000, "mean": 21_400},
        "lateness_histogram_ns": [[16, due * 9 / 10], [28, due / 20], [11_000, due / 20], [5_600_000, missed]],
        "causes": {}, "last_10s": {"missed": missed, "lateness_max_ns": if seconds >= 5 { 5_610_000 } else { 10_500 }},
        "values": {"temp": {"last": 21.5, "min": 21.0, "max": 22.1, "unit": "°C", "age_ns": 400_000}, "raw": {"last": 4711.0, "unit": ""}}});
    if missed > 0 {
        (task["causes"], task["last_cause"]) = (json!({"blocked": 5, "woken-late": 2}), "blocked".into());
        task["last_cause_age_ns"] = 3_200_000_000_u64.into();
        task["last_misses"] = json!([
            {"cause": "blocked", "by": "report", "missed": 5, "tick": 4_444, "worst_ns": 5_610_000, "age_ns": 3_200_000_000_u64},
            {"cause": "woken-late", "missed": 2, "tick": 4_321, "worst_ns": 1_910_000, "age_ns": 3_400_000_000_u64}]);
    }
    task
}

/// A task whose device is away.
fn waiting(seconds: u64) -> Value {
    json!({"task": "imu-on-the-left-wing", "worker": "slow", "rate": "30000/1001", "state": "waiting",
        "state_reason": "No such device (os error 19)", "state_since_ns": 2_500_000_000_u64, "due": seconds * 30, "met": seconds * 30,
        "missed": 0, "pending": 0, "ran": seconds * 30, "errors": seconds, "lateness_ns": {"count": 0}, "run_ns": {"count": 0}, "causes": {}})
}

/// The daemon's snapshot after this many seconds.
fn snapshot(seconds: u64) -> Value {
    json!({"version": 1, "well": false,
        "workers": [
            {"worker": "main", "cpu": 1, "granted": {"policy": "fifo", "priority": 80}, "asked": {"policy": "fifo", "priority": 80},
             "cpu_share": 0.1, "spin_share": 0.05, "cpu_share_now": 0.1264, "cpu_share_now_ns": 5_000_000_000_u64, "spin_share_now": 0.0421},
            {"worker": "slow", "cpu": null, "granted": {"policy": "other", "priority": 0}, "asked": {"policy": "fifo", "priority": 10},
             "cpu_share": 0.001, "spin_share": 0.0}],
        "tasks": [control(seconds), waiting(seconds)],
        "daemon": {"pid": 4242, "version": "0.1.0", "running_ns": seconds * 1_000_000_000 + 250_000_000, "ready": true,
            "sentence": "not well: task imu-on-the-left-wing has been waiting for its device for 2.50 s"}})
}

fn read(snapshot: Value) -> Summary {
    serde_json::from_value(snapshot).unwrap()
}

/// A view that has watched a daemon for six seconds.
fn top(look: Look) -> Top {
    let mut top = Top::new(look);
    for seconds in 1..=6 {
        top.asks(at(1_000 * i64::try_from(seconds).unwrap()));
        top.answered(Ok(read(snapshot(seconds))), at(1_000 * i64::try_from(seconds).unwrap() + 5));
    }
    top
}

/// The screen as shown by a terminal of this size.
fn drawn(top: &mut Top, (width, height): (u16, u16), now: Instant) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        let lines = top.frame(width.into(), height.into(), now);
        assert_eq!(lines.len(), usize::from(height));
        frame.render_widget(Text::from(lines), frame.area());
    };
    terminal.draw(draw).unwrap();
    terminal
}

/// The screen's lines, without trailing spaces.
fn shown(top: &mut Top, size: (u16, u16), now: Instant) -> String {
    let terminal = drawn(top, size, now);
    let cells = terminal.backend().buffer().content().chunks(size.0.into());
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    cells.map(|cells| line(cells).trim_end().to_owned() + "\n").collect()
}

/// Whether this frame equals the stored one with this name. If not, prints what to store instead.
fn is_kept(name: &str, found: &str, kept: &str) -> bool {
    if found != kept {
        println!("=== src/top/tests/{name}.txt\n{found}===");
    }
    found == kept
}

#[test]
fn alarms_are_above_the_tasks() {
    let lines = |alarms: Value| {
        let mut with = snapshot(1);
        with["alarms"] = alarms;
        let mut top = Top::new(LOOK);
        top.answered(Ok(read(with)), at(1_000));
        shown(&mut top, (80, 24), at(1_010)).lines().skip(1).take(5).map(str::to_owned).collect::<Vec<_>>()
    };
    let alarm = |name: &str, level: &str| json!({"task": name, "active": level != "normal", "level": level, "severity": "error", "value": 7.5});
    assert!(lines(Value::Null)[0].starts_with("hertzd 0.1.0"));
    assert_eq!(lines(json!([alarm("a", "normal")]))[0], "no alarm is active");
    let some = lines(json!([alarm("a", "high"), alarm("b", "normal"), alarm("c", "lolo")]));
    assert_eq!(some[..2], ["ALARM a (error): high at 7.5", "ALARM c (error): lolo at 7.5"]);
    assert!(some[2].starts_with("hertzd 0.1.0"), "{some:?}");
    let many = lines(json!(["a", "b", "c", "d", "e"].map(|name| alarm(name, "high"))));
    assert_eq!(many[3], "2 more alarms are active: see `hertzd status`");
}

#[test]
fn screens_of_both_sizes_are_as_they_were() {
    let mut top = top(LOOK);
    let mut is_shown = |keys: &[Key], size, name, kept| {
        keys.iter().for_each(|key| _ = top.press(*key));
        is_kept(name, &shown(&mut top, size, at(6_100)), kept)
    };
    let all = [
        is_shown(&[], (80, 24), "80x24", include_str!("tests/80x24.txt")),
        is_shown(&[Key::Right], (80, 24), "80x24-more", include_str!("tests/80x24-more.txt")),
        is_shown(&[], (200, 60), "200x60", include_str!("tests/200x60.txt")),
        is_shown(&[Key::Enter], (80, 24), "80x24-task", include_str!("tests/80x24-task.txt")),
        is_shown(&[Key::Escape, Key::Char('v')], (80, 24), "80x24-values", include_str!("tests/80x24-values.txt")),
    ];
    assert_eq!(all, [true; 5]);
    top.press(Key::Char('?'));
    let help = shown(&mut top, (80, 24), at(6_100));
    assert!(help.contains("last cause ") && help.lines().all(|line| !line.ends_with('…')), "{help}");
}

#[test]
fn one_frame_as_text_has_every_column_whatever_the_width() {
    let text = top(Look { colour: false, unicode: false }).text(80, at(6_100));
    assert!(is_kept("once", &text, include_str!("tests/once.txt")));
}

#[test]
fn a_bad_value_reads_as_in_status() {
    let mut with = snapshot(6);
    with["tasks"][0]["values"]["temp"] = json!({"last": null, "last_good": 9.0, "unit": "°C", "age_ns": 13_000_000_000_i64, "quality": "bad",
        "reason": "out-of-range", "since_ns": 12_000_000_000_i64, "refused": 16, "valid": [0, 10]});
    let read = read(with);
    let told = "temp bad for 12.0 s: 16 is outside valid 0 to 10 (the last good one: 9 °C, 13.0 s old)";
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line(&crate::views::status(&read, false)).contains(told));
    let mut top = Top::new(LOOK);
    top.answered(Ok(read), at(1_000));
    top.press(Key::Char('v'));
    let text = shown(&mut top, (200, 24), at(1_010));
    assert!(text.contains(told), "{text}");
}

#[test]
fn counts_are_those_of_status() {
    let snapshot = read(snapshot(6));
    let status = crate::views::status(&snapshot, false);
    let mut top = Top::new(LOOK);
    top.answered(Ok(snapshot), at(0));
    let text = top.text(200, at(0));
    let words = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for name in ["control", "imu-on"] {
        // status: task, state, due, met, missed; top: task, Hz, reached, met, missed.
        assert_eq!(words(&status, name)[3..5], words(&text, name)[3..5], "{status}{text}");
    }
    assert!(words(&text, "control")[3..5] == ["5993", "7"], "{text}");
}

#[test]
fn recent_figures_are_of_what_came_between_the_snapshots() {
    let mut top = Top::new(LOOK);
    let mut answer = |seconds: u64, text: &str| {
        top.answered(Ok(read(snapshot(seconds))), at(0));
        let shown = top.text(200, at(0));
        let line = shown.lines().find(|line| line.starts_with("control")).unwrap();
        assert!(line.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(text), "{line}");
        shown
    };
    // The first snapshot has nothing to compare with: the percentiles cover the time since the start, and the text says so.
    assert!(
        answer(1, "control 1000 - 1000 0 15ns 11.0µs 10.5µs ticking 20.5µs - -").contains("; times: since the start, ")
    );
    assert!(
        answer(2, "control 1000 1000.0 2000 0 16ns 10.5µs 10.5µs ▃ ticking 20.5µs 2.1% -").contains("last 1.00 s\n")
    );
    answer(4, "control 1000 1000.0 4000 0 16ns 10.5µs 10.5µs ▃▃ ticking");
    // 993 in the second with the seven misses; 3,993 in all four.
    answer(5, "control 1000 998.2 4993 7 16ns 11.0µs 5.61ms ▃▃█ ticking");
    for seconds in 6..=14 {
        top.answered(Ok(read(snapshot(seconds))), at(0));
    }
    assert!(top.text(200, at(0)).contains("rates and times: last 10.0 s\n"));
    // Another process, and a task that a reload restarted: nothing from before counts.
    let mut other = snapshot(20);
    (other["tasks"][0], other["tasks"][1]) = (control(3), waiting(20));
    top.answered(Ok(read(other)), at(0));
    let text = top.text(200, at(0));
    assert!(text.contains("\ncontrol") && text.contains(" - "), "{text}");
    assert_eq!(top.over(), Some(Span::from_seconds(10)), "the other task went on");
    let mut restarted = snapshot(15);
    restarted["daemon"]["pid"] = 9.into();
    top.answered(Ok(read(restarted)), at(0));
    assert_eq!(top.over(), None);
}

#[test]
fn figures_that_are_old_are_marked_and_the_reason_is_said() {
    let mut top = top(LOOK);
    assert!(!shown(&mut top, (80, 24), at(6_900)).contains("old"));
    // Asked, but not answered for three seconds.
    top.asks(at(7_000));
    assert!(!shown(&mut top, (80, 24), at(8_400)).contains("old"), "an answer may take a while");
    let text = shown(&mut top, (80, 24), at(10_000));
    assert!(text.starts_with("FIGURES are 4.00 s old; no answer for 3.00 s: the daemon hangs"), "{text}");
    assert!(text.contains("\ncontrol "), "the last figures stay: {text}");
    let terminal = drawn(&mut top, (80, 24), at(10_000));
    let row = terminal.backend().buffer().cell((0, 8)).unwrap();
    assert!(row.modifier.contains(Modifier::DIM), "{row:?}");
    // The daemon has ended and then comes back.
    top.answered(Err("no daemon answers at /run/s: gone".into()), at(11_000));
    let text = shown(&mut top, (80, 24), at(11_000));
    assert!(text.starts_with("FIGURES are 5.00 s old; no daemon answers at /run/s: gone\n"), "{text}");
    let starting = read(json!({"error": "the tasks are being built"}));
    top.answered(Ok(starting), at(12_000));
    assert!(shown(&mut top, (100, 24), at(12_000)).contains("cannot answer yet: the tasks are being built"));
    top.answered(Ok(read(snapshot(1))), at(13_000));
    assert!(shown(&mut top, (80, 24), at(13_100)).starts_with("not well: task imu"));
    // The daemon's metrics are delayed.
    let mut stale = snapshot(2);
    stale["daemon"]["stale_ns"] = 2_000_000_000_u64.into();
    top.answered(Ok(read(stale)), at(14_000));
    assert!(shown(&mut top, (80, 24), at(14_100)).contains("; counts are 2.00 s old"));
}

/// A daemon with 256 tasks on 40 workers.
fn many() -> Value {
    let task = |n: u64| {
        let mut task = control(5);
        (task["task"], task["missed"]) = (format!("task-{n:03}").into(), (n * 37 % 256).into());
        task
    };
    let worker = |n: u64| json!({"worker": format!("w{n}"), "granted": {"policy": "other", "priority": 0}});
    let (tasks, workers): (Vec<_>, Vec<_>) = ((0..256).map(task).collect(), (0..40).map(worker).collect());
    json!({"well": true, "tasks": tasks, "workers": workers, "daemon": {"pid": 1, "sentence": "well: 256 tasks"}})
}

#[test]
fn many_tasks_scroll_and_the_selected_one_is_always_seen() {
    let mut top = Top::new(LOOK);
    top.answered(Ok(read(many())), at(0));
    let selected = |top: &mut Top| {
        let text = shown(top, (80, 24), at(0));
        let name = text.lines().rev().nth(1).unwrap().split([' ', ':']).nth(1).unwrap().to_owned();
        assert!(text.lines().any(|line| line.starts_with(&name)), "{name} is not seen: {text}");
        name
    };
    assert!(shown(&mut top, (80, 24), at(0)).contains("38 more workers: w shows them\n"));
    assert_eq!(selected(&mut top), "task-000");
    for (key, wanted) in [
        (Key::End, "task-255"),
        (Key::Up, "task-254"),
        (Key::Home, "task-000"),
        (Key::Down, "task-001"),
        (Key::PageDown, "task-017"),
        (Key::PageUp, "task-001"),
        (Key::End, "task-255"),
    ] {
        top.press(key);
        assert_eq!(selected(&mut top), wanted, "{key:?}");
    }
    // The task stays selected wherever it is sorted to.
    top.press(Key::Char('m'));
    assert_eq!(selected(&mut top), "task-255");
    top.press(Key::Home);
    assert_eq!(selected(&mut top), "task-083", "83 · 37 = 255 modulo 256");
    top.press(Key::Char('r'));
    assert_eq!(selected(&mut top), "task-083");
    top.press(Key::Home);
    assert_eq!(selected(&mut top), "task-000");
    // Only tasks that match the filter.
    for letter in "/SK-25".chars() {
        top.press(Key::Char(letter));
    }
    assert!(shown(&mut top, (80, 24), at(0)).ends_with("filter: SK-25_  (Enter keeps it, Esc shows all)\n"));
    top.press(Key::Enter);
    let text = shown(&mut top, (80, 24), at(0));
    assert_eq!(text.lines().filter(|line| line.starts_with("task-")).count(), 6, "{text}");
    for letter in "/zzz".chars() {
        top.press(Key::Char(letter));
    }
    top.press(Key::Enter);
    assert!(shown(&mut top, (80, 24), at(0)).contains("no task has 'SK-25zzz'\n"));
    top.press(Key::Escape);
    assert_eq!(shown(&mut top, (80, 60), at(0)).lines().filter(|line| line.starts_with("task-")).count(), 46);
    top.press(Key::Char('w'));
    assert!(shown(&mut top, (80, 60), at(0)).contains("\nworker w39: other, "));
}

#[test]
fn frozen_figures_stand_still_and_say_so() {
    let mut top = top(LOOK);
    top.press(Key::Char(' '));
    top.answered(Ok(read(snapshot(9))), at(9_000));
    let text = shown(&mut top, (80, 24), at(10_005));
    assert!(text.contains("FROZEN: as of 4.00 s ago") && text.contains(" 5993 "), "{text}");
    top.press(Key::Char(' '));
    let text = shown(&mut top, (80, 24), at(10_005));
    assert!(!text.contains("FROZEN") && text.contains(" 8993 "), "{text}");
    assert!(!top.press(Key::Char('q')));
}

#[test]
fn without_colours_there_are_none_and_ascii_is_enough() {
    let mut plain = top(Look { colour: false, unicode: false });
    for key in [Key::Home, Key::Right, Key::Enter, Key::Char('w'), Key::Char('?'), Key::Escape, Key::Char(' ')] {
        plain.press(key);
        let terminal = drawn(&mut plain, (120, 40), at(20_000));
        for cell in terminal.backend().buffer().content() {
            assert!(
                cell.fg == Color::Reset && cell.bg == Color::Reset && cell.symbol().is_ascii(),
                "{key:?}: {cell:?}"
            );
        }
    }
    let mut coloured = top(LOOK);
    let terminal = drawn(&mut coloured, (120, 40), at(6_100));
    assert!(terminal.backend().buffer().content().iter().any(|cell| cell.fg == Color::Red));
}

#[test]
fn any_size_and_any_answer_is_drawn() {
    let hostile = json!({"well": true, "daemon": {"sentence": "\u{1b}[2J\r\n", "running_ns": i64::MIN, "stale_ns": i64::MAX},
        "workers": [{}], "tasks": [{}, {"task": "\u{1b}c", "rate": "0/0", "lateness_histogram_ns": [[i64::MAX, u64::MAX], [0, u64::MAX]],
        "last_cause": "x", "values": {"v": {"last": 1e300, "unit": "°"}}, "last_misses": [{"worst_ns": i64::MIN}]}]});
    for answer in [json!({}), json!({"tasks": [{"task": "imu"}]}), hostile, snapshot(6)] {
        let mut top = top(LOOK);
        top.answered(Ok(read(answer.clone())), at(7_000));
        top.answered(Ok(read(answer)), at(8_000));
        for keys in ["", " ", "v", "w", "w?", "?s"] {
            keys.chars().for_each(|key| _ = top.press(Key::Char(key)));
            for width in [1, 2, 20, 79, 80, 250] {
                for height in [1, 2, 5, 24] {
                    let text = shown(&mut top, (width, height), at(9_000));
                    assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text}");
                }
            }
            top.press(Key::Right);
            top.press(Key::Down);
        }
        top.press(Key::Enter);
        shown(&mut top, (80, 24), at(9_000));
        assert!(!top.text(80, at(9_000)).contains('\u{1b}'));
    }
}
