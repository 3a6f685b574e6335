//! What is shown on request: one task with its histogram and its last misses, the workers, the keys. Pure.

use super::columns::{cause, values};
use super::figures::Row;
use super::look::{Look, asked, hertz, share};
use crate::snapshot::{Counts, Distribution, MissSummary, TaskSummary, WorkerSummary};
use crate::time::{Age, Span};
use crate::views::{count, granted, largest_first, state};
use ratatui::style::Style;
use ratatui::text::Line;

/// At least this many of the most recent misses are shown beside a long histogram.
const MISSES: usize = 4;

/// Everything about one task, in at most `room` lines.
pub(super) fn detail(row: Row<'_>, look: Look, width: usize, room: usize) -> Vec<Line<'static>> {
    let Row { task, recent } = row;
    let Counts { due, met, missed, pending, ran, .. } = task.counts;
    let [due, met, missed, pending, ran, failed] =
        [due, met, missed, pending.unwrap_or(0), ran, task.errors].map(count);
    let rate = asked(&task.rate).map_or("?".into(), |rate| hertz(rate, false));
    let reached = recent.reached.map(|rate| format!(", reached {} Hz", hertz(rate, true))).unwrap_or_default();
    let mut texts = vec![
        format!("task {} on worker {}: {rate} Hz{reached}; {}", task.task, task.worker, state(task)),
        format!("due {due}, met {met}, missed {missed}, pending {pending}, ran {ran}, failed {failed}"),
    ];
    let lately = [("p50", recent.p50), ("p99", recent.p99), ("mean run", recent.run)]
        .map(|(name, nanos)| nanos.map_or(format!("{name} -"), |nanos| format!("{name} {}", Span::from_nanos(nanos))));
    if let Some(over) = recent.over.filter(|_| !recent.late_is_of_all) {
        let share = recent.share.map_or("-".into(), share);
        let [p50, p99, run] = lately;
        texts.push(format!("last {over}: lateness {p50}, {p99}; {run}, {share} of a CPU"));
    }
    texts.push(format!("{:<16}{}", "since its start", HEAD.map(|name| format!("{name:>8}")).concat()));
    let spans = [("lateness", &task.lateness_ns), ("run", &task.run_ns), ("response", &task.response_ns)];
    for (name, spans) in spans.into_iter().chain(task.age_ns.as_ref().map(|age| ("age of inputs", &**age))) {
        texts.push(format!("{name:<16}{}", distribution(spans)));
    }
    if !task.causes.is_empty() {
        let causes = largest_first(&task.causes).into_iter();
        let causes: Vec<_> = causes.map(|(cause, number)| format!("{} {cause}", count(number))).collect();
        texts.push(format!("missed: {}", causes.join(", ")));
    }
    if !task.values.is_empty() {
        texts.push(format!("values: {}", values(task, look)));
    }
    let style = if task.state.is_fine() { Style::new() } else { look.bad() };
    let mut lines: Vec<_> = texts.iter().map(|text| Line::raw(look.cut(&look.plain(text), width))).collect();
    lines[0] = Line::styled(look.cut(&look.plain(&texts[0]), width), style);

    let misses = misses(task, look, width);
    let left = room.saturating_sub(lines.len() + misses.len().min(MISSES + 1));
    lines.extend(histogram(&task.lateness_histogram_ns, look, width, left));
    let left = room.saturating_sub(lines.len());
    lines.extend(misses.into_iter().take(left));
    lines
}

const HEAD: [&str; 7] = ["min", "p50", "p90", "p99", "p99.9", "max", "mean"];

fn distribution(spans: &Distribution) -> String {
    if spans.count == 0 {
        return "       -".repeat(HEAD.len());
    }
    let &Distribution { min, p50, p90, p99, p99_9, max, mean, .. } = spans;
    let time = |nanos| format!("{:>8}", Span::from_nanos(nanos).to_string().replace(' ', ""));
    [min, p50, p90, p99, p99_9, max, mean].map(time).concat()
}

/// Maximum length of a bar; a wider screen would not show more.
const LONGEST_BAR: usize = 80;

/// Bars with logarithmic length, because a reader looks for a handful of events among millions.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the length of a bar"
)]
fn histogram(pairs: &[(i64, u64)], look: Look, width: usize, room: usize) -> Vec<Line<'static>> {
    if pairs.is_empty() || room < 2 {
        return Vec::new();
    }
    // As many neighbours as necessary are combined into one bar.
    let together = pairs.len().div_ceil(room - 1).max(1);
    let bars: Vec<_> = pairs
        .chunks(together)
        .map(|chunk| {
            (chunk[chunk.len() - 1].0, chunk.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count)))
        })
        .collect();
    let highest = bars.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let longest = width.saturating_sub(20).clamp(1, LONGEST_BAR);
    let length = |count: u64| {
        let share = (count as f64 + 1.0).log10() / (highest as f64 + 1.0).log10();
        (share * longest as f64).round() as usize
    };
    let head = Line::styled("lateness of all ticks since its start; bars are logarithmic", look.faint());
    let bar = |(edge, number): &(i64, u64)| {
        let text =
            format!("{} {:>6} {:>7} {}", look.at_most(), look.time(*edge), count(*number), look.bar(length(*number)));
        Line::raw(look.cut(&text, width))
    };
    std::iter::once(head).chain(bars.iter().map(bar)).collect()
}

/// The most recent misses.
fn misses(task: &TaskSummary, look: Look, width: usize) -> Vec<Line<'static>> {
    if task.last_misses.is_empty() {
        let text = match (task.counts.missed, cause(task)) {
            (0, _) => "missed nothing since its start".into(),
            (_, Some(cause)) => format!("last missed: {cause}"),
            (_, None) => return Vec::new(),
        };
        return vec![Line::raw(look.cut(&look.plain(&text), width))];
    }
    let line = |MissSummary { cause, by, missed, tick, worst_ns, age_ns }: &MissSummary| {
        let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let tick = tick.map(|tick| format!(", tick {tick}")).unwrap_or_default();
        let worst = if *worst_ns > 0 {
            format!(", up to {} after its release", Span::from_nanos(*worst_ns))
        } else {
            String::new()
        };
        let ago = Age(Span::from_nanos(*age_ns)).to_string();
        let text = format!("{ago:>8} ago: {} {cause}{by}{worst}{tick}", count(*missed));
        Line::raw(look.cut(&look.plain(&text), width))
    };
    let head = Line::styled("missed last", look.faint());
    std::iter::once(head).chain(task.last_misses.iter().map(line)).collect()
}

/// What a worker was granted, and how much CPU time it takes.
pub(super) fn worker_line(worker: &WorkerSummary, look: Look) -> String {
    let mut text = granted(worker);
    let shares = |cpu: f64, spin: Option<f64>, over: &str| {
        let spin = spin.map(|spin| format!(", {} spinning", share(spin))).unwrap_or_default();
        format!(", {} of a CPU{spin} ({over})", share(cpu))
    };
    text += &match worker.cpu_share_now.zip(worker.cpu_share_now_ns) {
        Some((now, over)) => {
            shares(now, worker.spin_share_now, &format!("last {:.0} s", Span::from_nanos(over).seconds()))
        }
        None => shares(worker.cpu_share, Some(worker.spin_share), "since the start"),
    };
    if let Some(stalled) = worker.stalled_ns {
        text += &format!("; STALLED for {}", Span::from_nanos(stalled));
    }
    look.plain(&text)
}

const KEYS: &str = "\
up down     another task (also k, j, PgUp, PgDn, Home, End)
Enter       the task alone: its histogram and what it missed last
left right  more columns, where the screen is narrow
v           the values of the tasks with their units, or their figures
/           only tasks with this text in name, worker, state or last cause
s S         sort by the next or the previous: file, name, rate, missed, ...
d n m l c   sort as in the file, by name, missed, lateness max, CPU share
r           the other way round
w           all workers
space       freeze the figures, or continue
q Ctrl-C    quit

Hz, reached     ticks a second: asked for, and run in the time shown on top
met, missed     releases since the start, as in `hertzd status`
p50, p99        lateness of the last 10 s, rounded up by at most an eighth
max             the largest lateness of the last 10 s, exact
lateness        the largest of each second; from 1us to 10ms, logarithmic
run, share      the mean run, and all runs as a share of one CPU
last cause      why it missed what it missed last, who it was, and when";

/// What the keys do, and what the columns mean.
pub(super) fn help(look: Look, width: usize) -> Vec<Line<'static>> {
    KEYS.lines().map(|line| Line::raw(look.cut(line, width))).collect()
}
