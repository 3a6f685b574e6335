//! One frame: all lines of the screen, or of the text that `--once` prints. Pure; `now` is passed in.

use super::columns::{Column, Layout, cause, pages};
use super::detail::{detail, help, worker_line};
use super::figures::{Figures, Row};
use super::look::Look;
use super::state::{Pane, Top};
use crate::program;
use crate::snapshot::{DaemonSummary, Summary, WorkerSummary};
use crate::time::{Instant, Span};
use crate::views::alarm_lines;
use ratatui::style::Style;
use ratatui::text::Line;

/// An answer slower than this is reported on the screen. Requests are sent once a second.
const LATE: Span = Span::from_millis(1_500);

/// Maximum number of lines for alarms.
const ALARMS: usize = 4;

impl Top {
    /// The lines of a screen of this size. Remembers what scrolling needs.
    pub(crate) fn frame(&mut self, width: usize, height: usize, now: Instant) -> Vec<Line<'static>> {
        let look = self.look;
        let mut lines = if self.pane == Pane::Help { Vec::new() } else { self.above(width, now) };
        let foot = match (self.pane, self.is_typing) {
            (_, true) => format!("filter: {}_  (Enter keeps it, Esc shows all)", self.filter),
            (Pane::Help, _) => "Esc back  q quit".into(),
            (Pane::Tasks, _) => {
                let pages = self.figures().map_or(1, |figures| self.layouts(figures, width).len());
                let more =
                    if pages > 1 { format!("  <- -> {}/{pages}", self.page.min(pages - 1) + 1) } else { String::new() };
                format!("q quit  ? help  Enter task  / filter  s sort  space freeze  v values{more}")
            }
            (Pane::Detail | Pane::Workers, _) => "Esc back  up, down other task  space freeze  ? help  q quit".into(),
        };
        let foot = Line::styled(look.cut(&foot, width), look.faint());
        let room = height.saturating_sub(lines.len() + 1);
        let body = match (self.pane, self.figures().cloned()) {
            (Pane::Help, _) => help(look, width),
            (_, None) => Vec::new(),
            (Pane::Tasks, Some(figures)) => self.tasks(&figures, width, room),
            (Pane::Workers, Some(figures)) => workers(&figures.snapshot, look, width, usize::MAX),
            (Pane::Detail, Some(figures)) => match self.rows(&figures).get(self.selected) {
                Some(row) => detail(*row, look, width, room),
                None => vec![Line::raw("no task is shown: Esc goes back")],
            },
        };
        let style = if self.is_old(now) { look.faint() } else { Style::new() };
        lines.extend(body.into_iter().take(room).map(|line| line.patch_style(style)));
        lines.resize(height.saturating_sub(1), Line::default());
        lines.truncate(height.saturating_sub(1));
        lines.push(foot);
        lines
    }

    /// Everything as text, at any height.
    pub(crate) fn text(&self, width: usize, now: Instant) -> String {
        let mut lines = self.above(width, now);
        if let Some(figures) = self.figures() {
            lines.extend(workers(&figures.snapshot, self.look, width, usize::MAX));
            let rows = self.rows(figures);
            for page in self.layouts(figures, width) {
                lines.push(Line::default());
                lines.push(Line::raw(page.head(self.look)));
                lines.extend(rows.iter().map(|row| Line::raw(page.row(*row, self.look))));
            }
        }
        lines.iter().map(|line| line.to_string().trim_end().to_owned() + "\n").collect()
    }

    fn rows<'a>(&self, figures: &'a Figures) -> Vec<Row<'a>> {
        figures.rows(self.sort, self.reversed, &self.filter)
    }

    /// Whether the figures on the screen are older than they look.
    fn is_old(&self, now: Instant) -> bool {
        self.trouble.is_some() || self.unanswered(now).is_some_and(|waited| waited > LATE)
    }

    /// The lines above everything else: whether all is well, or why nothing is known, and what is shown.
    fn above(&self, width: usize, now: Instant) -> Vec<Line<'static>> {
        let look = self.look;
        let mut lines = Vec::new();
        let waits = self.unanswered(now).filter(|waited| *waited > LATE);
        let figures = self.figures();
        let old =
            figures.filter(|_| self.is_old(now)).map(|figures| format!("figures are {} old; ", now - figures.came));
        let trouble = match (&self.trouble, waits) {
            (_, Some(waited)) => {
                Some(format!("no answer for {waited}: the daemon hangs, is stopped, or gets no processor time"))
            }
            (Some(why), None) => Some(why.clone()),
            (None, None) if figures.is_none() => Some("waiting for the daemon's first answer".into()),
            (None, None) => None,
        };
        if let Some(trouble) = trouble {
            let text = old.unwrap_or_default().replacen("figures", "FIGURES", 1) + &trouble;
            lines.extend(
                wrapped(&look.plain(&text), width)
                    .into_iter()
                    .map(|line| Line::styled(look.cut(&line, width), look.warning())),
            );
        }
        let Some(Figures { snapshot, daemon, .. }) = figures else { return lines };
        let sentence = match daemon.sentence.as_str() {
            "" => "the daemon does not say whether all is well: it is another version",
            sentence => sentence,
        };
        let style = if snapshot.well { Style::new() } else { look.bad() };
        lines.extend(
            wrapped(&look.plain(sentence), width)
                .into_iter()
                .take(3)
                .map(|line| Line::styled(look.cut(&line, width), style)),
        );
        lines.extend(alarms(snapshot, look, width));
        lines.push(Line::raw(look.cut(&look.plain(&self.about(daemon)), width)));
        if self.is_frozen() {
            let text =
                format!("FROZEN: as of {} ago; space continues", now - figures.map_or(now, |figures| figures.came));
            lines.push(Line::styled(look.cut(&look.plain(&text), width), look.warning()));
        }
        lines
    }

    /// The daemon, and how to read its figures.
    fn about(&self, daemon: &DaemonSummary) -> String {
        let mut text = format!("hertzd {}, process {}", daemon.version, daemon.pid);
        match (daemon.running_ns, daemon.ready) {
            (1.., true) => text += &format!(", up {}", Span::from_nanos(daemon.running_ns)),
            _ => text += ", starting",
        }
        if let Some(stale) = daemon.stale_ns {
            text += &format!("; counts are {} old", Span::from_nanos(stale));
        }
        let over = self.figures().and_then(Figures::over);
        text += &match over {
            Some(over) => format!("; rates and times: last {over}"),
            None => "; times: since the start, max: last 10 s".into(),
        };
        if over.is_some() && self.figures().is_some_and(Figures::late_is_of_all) {
            text += " (p50, p99: since the start)";
        }
        if self.sort != super::figures::Sort::default() || self.reversed {
            let mark = if self.reversed { self.look.ascending() } else { self.look.descending() };
            text += &format!("; by {} {mark}", self.sort.word());
        }
        if !self.filter.is_empty() && !self.is_typing {
            text += &format!("; only '{}'", self.filter);
        }
        text
    }

    fn layouts(&self, figures: &Figures, width: usize) -> Vec<Layout> {
        let columns: &[Column] = if self.with_values { &Column::VALUES } else { &Column::FIGURES };
        let longest = figures.snapshot.tasks.iter().map(|task| task.task.chars().count()).max().unwrap_or(0);
        pages(columns, width, longest)
    }

    /// The workers, the table, and more about the selected task.
    fn tasks(&mut self, figures: &Figures, width: usize, room: usize) -> Vec<Line<'static>> {
        let look = self.look;
        let rows = self.rows(figures);
        let mut lines = workers(&figures.snapshot, look, width, (room / 6).max(1));
        let layouts = self.layouts(figures, width);
        self.page = self.page.min(layouts.len() - 1);
        let layout = &layouts[self.page];
        lines.push(Line::styled(format!("{:<width$}", layout.head(look)), look.head()));
        self.on_screen = room.saturating_sub(lines.len() + 1).max(1);
        let last = rows.len().saturating_sub(self.on_screen);
        self.first =
            self.first.min(last).clamp(self.selected.saturating_sub(self.on_screen - 1).min(last), self.selected);
        for (position, row) in rows.iter().enumerate().skip(self.first).take(self.on_screen) {
            let is_bad = !row.task.state.is_fine() || row.missed_lately() > 0;
            let style = if is_bad { look.bad() } else { Style::new() };
            let style = if position == self.selected { look.selected(style) } else { style };
            lines.push(Line::styled(format!("{:<width$}", layout.row(*row, look)), style));
        }
        lines.resize(room.saturating_sub(1), Line::default());
        lines.push(Line::raw(look.cut(&self.below(&rows), width)));
        lines
    }

    /// The position among the tasks, and what the table has no room for about the selected task.
    fn below(&self, rows: &[Row<'_>]) -> String {
        let Some(Row { task, recent }) = rows.get(self.selected) else {
            return if self.filter.is_empty() {
                "there are no tasks".into()
            } else {
                format!("no task has '{}'", self.filter)
            };
        };
        let (position, all) = (self.selected + 1, rows.len());
        let mut text = format!("{position}/{all} {}", task.task);
        if let Some(reason) = &task.state_reason {
            text += &format!(": {} ({reason})", task.state.word());
        }
        if let Some(cause) = cause(task) {
            text += &format!(": {cause}");
        }
        if let (Some(run), Some(share)) = (recent.run, recent.share) {
            text += &format!("; run {}, {} of a CPU", Span::from_nanos(run), super::look::share(share));
        }
        self.look.plain(&text)
    }
}

/// A line for each active alarm. If there are many, a line says how many more there are, to leave room for the tasks.
fn alarms(snapshot: &Summary, look: Look, width: usize) -> Vec<Line<'static>> {
    let is_any = snapshot.alarms.iter().flatten().any(|alarm| alarm.active);
    let mut texts = alarm_lines(snapshot.alarms.as_deref());
    if texts.len() > ALARMS {
        let more = texts.len() - (ALARMS - 1);
        texts.truncate(ALARMS - 1);
        texts.push(format!("{more} more alarms are active: see `{} status`", program::name()));
    }
    let style = if is_any { look.bad() } else { Style::new() };
    texts.iter().map(|text| Line::styled(look.cut(&look.plain(text), width), style)).collect()
}

/// A line for each worker. If there are more than `most`, only some are shown, and a line says how many more there are.
fn workers(snapshot: &Summary, look: Look, width: usize, most: usize) -> Vec<Line<'static>> {
    let all = &snapshot.workers;
    let shown = if all.len() > most { most - 1 } else { all.len() };
    // If there is room for only one line, it shows their number.
    let style = |worker: &WorkerSummary| match worker.stalled_ns.is_some() || worker.is_otherwise() {
        true => look.bad(),
        false => Style::new(),
    };
    let mut lines: Vec<_> = all[..shown]
        .iter()
        .map(|worker| Line::styled(look.cut(&worker_line(worker, look), width), style(worker)))
        .collect();
    if all.len() > shown {
        let text = format!("{} {}workers: w shows them", all.len() - shown, if shown > 0 { "more " } else { "" });
        lines.push(Line::raw(look.cut(&text, width)));
    }
    lines
}

/// Breaks the text into lines of at most this width, between words if possible.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let Some(line) = lines.last_mut() else { break };
        match line.is_empty() || line.chars().count() + word.trim_end().chars().count() <= width {
            true => line.push_str(word),
            false => lines.push(format!("  {word}")),
        }
    }
    lines
}
