//! The terminal while the live view has it. It is given back at every end, a panic included.

use crate::time::Instant;
use crate::top::Top;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::text::Text;
use std::io::{self, Stdout, stdout};
use std::panic;

/// The terminal, in raw mode and on its other screen. Dropped, it is as before.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let before = panic::take_hook();
        // On the other screen, the message of a panic would go with it.
        panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enable_raw_mode()?;
        let entered = execute!(stdout(), EnterAlternateScreen);
        let opened = entered.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        let screen = opened.map(|terminal| Self { terminal }).inspect_err(|_| give_back())?;
        Ok(screen)
    }

    /// Draws what differs from the frame before.
    pub(super) fn draw(&mut self, top: &mut Top, now: Instant) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            let lines = top.frame(area.width.into(), area.height.into(), now);
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

/// An error means that the terminal is gone.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
