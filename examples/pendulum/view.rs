//! The drawing on the terminal: track, cart and pole, and some figures. The terminal is as before at every end, a panic included.

use crate::physics::World;
use crate::row::seconds;
use crate::watch::Shown;
use hertzd::time::Span;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Text};
use ratatui::widgets::canvas::{Canvas, Context, Line as Stroke, Rectangle};
use ratatui::{Frame, Terminal};
use std::env::var;
use std::io::{self, Read, Stdout, stdout};
use std::panic;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The height of the track below the hinge, m.
const FLOOR: f64 = -0.25;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Quit, also because the terminal has gone.
    Quit,
    /// For the plant.
    Plant(u8),
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) colour: bool,
    pub(crate) unicode: bool,
}

impl Look {
    fn of_this_terminal() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| is_set(name));
        let locale = locale.and_then(|name| var(name).ok()).unwrap_or_default().to_lowercase();
        Self { colour: !is_set("NO_COLOR"), unicode: locale.contains("utf-8") || locale.contains("utf8") }
    }

    fn color(self, color: Color) -> Color {
        if self.colour { color } else { Color::Reset }
    }
}

/// The terminal, in raw mode and on its other screen. Dropped, it is as before.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    look: Look,
    keys: Receiver<Key>,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let take = || {
            enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(stdout()))
        };
        let terminal = take().inspect_err(|_| give_back())?;
        let (say, keys) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok(count @ 1..) = io::stdin().read(&mut bytes) {
                if translated(&bytes[..count]).into_iter().any(|key| say.send(key).is_err()) {
                    return;
                }
            }
        });
        Ok(Self { terminal, look: Look::of_this_terminal(), keys })
    }

    pub(crate) fn draw(&mut self, shown: &Shown) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, shown, self.look)).map(drop)
    }

    /// Waits so long for a key.
    pub(crate) fn key(&self, patience: Span) -> Option<Key> {
        match self.keys.recv_timeout(Duration::from_nanos(patience.nanos().unsigned_abs())) {
            Ok(key) => Some(key),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Key::Quit), // nothing will come from this terminal any more
        }
    }
}

/// The keys in what a terminal sends at once.
fn translated(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        let (key, rest) = match (first, rest) {
            (0x1b, [b'[' | b'O', b'D', rest @ ..]) => (Some(Key::Plant(b'<')), rest),
            (0x1b, [b'[' | b'O', b'C', rest @ ..]) => (Some(Key::Plant(b'>')), rest),
            (b'r', rest) => (Some(Key::Plant(b'r')), rest),
            (b'q' | 0x03, rest) => (Some(Key::Quit), rest), // or Ctrl-C, which is no signal in raw mode
            (_, rest) => (None, rest),
        };
        keys.extend(key);
        bytes = rest;
    }
    keys
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// An error means that the terminal is gone.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// One frame, for a terminal of any size.
pub(crate) fn draw(frame: &mut Frame<'_>, shown: &Shown, look: Look) {
    let area = frame.area();
    let below = figures(shown, area.width.into(), look);
    let height = u16::try_from(below.len()).unwrap_or(u16::MAX).min(area.height);
    let [above, lower] = Layout::vertical([Constraint::Min(0), Constraint::Length(height)]).areas(area);
    if above.height >= 4 && above.width >= 10 {
        frame.render_widget(canvas(shown, above, look), above);
    }
    frame.render_widget(Text::from(below), lower);
}

/// The track and what is on it, as large as fits, and never out of proportion: a character is twice as high as wide.
fn canvas(shown: &Shown, area: Rect, look: Look) -> Canvas<'static, impl Fn(&mut Context<'_>)> {
    let row = shown.row;
    let (half_width, bottom, top) = (World::TRACK + 0.25, FLOOR - 0.05, 1.15);
    let (columns, lines) = (f64::from(area.width), f64::from(area.height) * 2.0);
    let metre = (columns / (2.0 * half_width)).min(lines / (top - bottom)); // in columns
    let (wide, high) = (columns / metre / 2.0, lines / metre);
    let length = 2.0 * World::new().plant.half_length;
    let (x, angle) = (row.state.position, row.state.angle);
    let pole = if row.fell.is_some() { Color::Red } else { Color::Yellow };
    // Where dots are not shown, each part has a character of its own.
    let marker = move |ascii| if look.unicode { Marker::Braille } else { Marker::Custom(ascii) };
    let paint = move |context: &mut Context<'_>| {
        let stroke = |x1, y1, x2, y2, color| Stroke { x1, y1, x2, y2, color: look.color(color) };
        let end = World::TRACK + 0.2;
        context.draw(&stroke(-end, FLOOR, end, FLOOR, Color::DarkGray));
        for end in [-end, end] {
            context.draw(&stroke(end, FLOOR, end, FLOOR + 0.2, Color::DarkGray));
        }
        context.marker(marker('*'));
        context.draw(&stroke(x, 0.0, x + length * angle.sin(), length * angle.cos(), pole));
        context.marker(marker('#'));
        context.draw(&Rectangle { x: x - 0.2, y: -0.15, width: 0.4, height: 0.15, color: look.color(Color::Cyan) });
        if row.shove != 0.0 {
            let from = -0.3 * row.shove.signum();
            context.print(x + from, 0.3, Line::from(if row.shove > 0.0 { "-->" } else { "<--" }));
        }
    };
    Canvas::default().marker(marker('-')).x_bounds([-wide, wide]).y_bounds([bottom, bottom + high]).paint(paint)
}

/// Lines of text below the drawing: as many figures in each as fit.
fn figures(shown: &Shown, width: usize, look: Look) -> Vec<Line<'static>> {
    let row = shown.row;
    let state = row.state;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let bad = if look.colour { bold.fg(Color::Red) } else { bold };
    let mut lines = vec![Line::styled(
        cut(format!("{}: the pole {}", shown.name, shown.verdict()), width),
        if row.fell.is_some() { bad } else { bold },
    )];
    let mut figures = vec![
        format!("angle {:+6.2} deg", state.angle.to_degrees()),
        format!("position {:+5.2} m", state.position),
        format!("force {:+6.2} N", row.force),
        format!("steps {:.1} s", seconds(row.steps)),
    ];
    if row.discarded > 0 {
        figures.push(format!("plant held up itself for {:.1} s", seconds(row.discarded)));
    }
    wrap(&mut lines, figures, width);
    if let Some(how) = &shown.plant_ended {
        lines.push(Line::styled(cut(format!("the plant has ended ({how}): what is drawn stands still"), width), bad));
    }
    let shows = |c: &char| look.unicode || c.is_ascii();
    let log: String = shown.log.chars().map(|c| if shows(&c) { c } else { '?' }).collect();
    lines.push(Line::from(cut(format!("log: {log}"), width)));
    let keys = ["left, right: push", "r: set up again", "q: quit"].map(str::to_owned).into_iter();
    wrap(&mut lines, keys.chain([format!("see why: hertzd top (process {})", shown.daemon)]).collect(), width);
    lines
}

fn wrap(lines: &mut Vec<Line<'static>>, figures: Vec<String>, width: usize) {
    let mut line = String::new();
    for figure in figures {
        if !line.is_empty() && line.len() + 3 + figure.len() > width {
            lines.push(Line::from(std::mem::take(&mut line)));
        }
        if !line.is_empty() {
            line += "   ";
        }
        line += &cut(figure, width);
    }
    lines.push(Line::from(line));
}

/// The first `width` characters, and nothing that would move the cursor.
fn cut(text: String, width: usize) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(width).collect()
}
