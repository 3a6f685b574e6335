//! The terminal while the live view uses it. It is restored at every exit, including a panic, and while the process is stopped.

use crate::escape::is_command;
use crate::time::{Instant, Span};
use crate::top::Top;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Rect, Size};
use ratatui::text::Text;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::io::{self, Stdout, stdout};
use std::panic;

/// The terminal in raw mode, on its alternate screen. Restored on drop.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    area: Rect,
    whole: Option<Instant>, // when it was last drawn completely
}

/// How often the whole screen is redrawn: another program may have written over it, and a terminal may have lost a part.
const WHOLE_EVERY: Span = Span::from_seconds(10);

/// Maximum drawing area: a terminal may claim any size, and each cell takes memory.
const LARGEST: Size = Size { width: 1_000, height: 500 };

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let before = panic::take_hook();
        // On the alternate screen, a panic message would disappear with it.
        panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        take().and_then(|()| Self::new()).inspect_err(|_| give_back())
    }

    fn new() -> io::Result<Self> {
        let backend = CrosstermBackend::new(stdout());
        let area = area(backend.size()?);
        let options = TerminalOptions { viewport: Viewport::Fixed(area) };
        Ok(Self { terminal: Terminal::with_options(backend, options)?, area, whole: None })
    }

    /// Restores the terminal while `stop` stops this process, then takes it again.
    pub(super) fn stopped(&mut self, stop: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        give_back();
        stop()?;
        self.taken_again()
    }

    /// Takes the terminal again from another program, which has left it in its own state.
    pub(super) fn taken_again(&mut self) -> io::Result<()> {
        give_back();
        take()?;
        self.wipe()
    }

    /// Makes the next frame redraw everything. The library's own `clear` asks the terminal for its cursor position, and ends the view if a
    /// slow terminal does not answer.
    fn wipe(&mut self) -> io::Result<()> {
        self.terminal.swap_buffers();
        execute!(stdout(), Clear(ClearType::All))
    }

    /// Draws what differs from the previous frame; now and then, everything.
    pub(super) fn draw(&mut self, top: &mut Top, now: Instant) -> io::Result<()> {
        let area = area(self.terminal.size()?);
        if area != self.area {
            self.terminal.resize(area)?;
            self.area = area;
        }
        if now - *self.whole.get_or_insert(now) >= WHOLE_EVERY {
            self.wipe()?;
            self.whole = Some(now);
        }
        self.terminal.draw(|frame| {
            let area = frame.area();
            let mut lines = top.frame(area.width.into(), area.height.into(), now);
            // Removes whatever a column let through.
            for span in
                lines.iter_mut().flat_map(|line| &mut line.spans).filter(|span| span.content.contains(is_command))
            {
                span.content = span.content.replace(is_command, "?").into();
            }
            frame.render_widget(Text::from(lines), area);
        })?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn area(size: Size) -> Rect {
    Rect::new(0, 0, size.width.min(LARGEST.width), size.height.min(LARGEST.height))
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)
}

/// Errors are ignored: they mean that the terminal is gone.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
