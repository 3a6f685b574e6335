//! What `top` knows and shows: the newest figures, how the daemon answers, and what the user has chosen by key. Pure; time is passed in.

use super::figures::{Figures, Sort};
use super::history::History;
use super::look::Look;
use crate::snapshot::Summary;
use crate::time::{Instant, Span};

/// A key, or an event that acts like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Char(char),
}

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Tasks,
    /// The selected task alone.
    Detail,
    Workers,
    Help,
}

/// The live view.
#[derive(Debug)]
pub(crate) struct Top {
    pub(super) look: Look,
    pub(super) pane: Pane,
    pub(super) trouble: Option<String>, // why there is no answer; None: the most recent request was answered
    pub(super) asked: Option<Instant>,  // when the unanswered request was sent
    pub(super) selected: usize,         // index among the tasks shown
    pub(super) first: usize,            // index of the first task on the screen
    pub(super) page: usize,             // page of columns
    pub(super) on_screen: usize,        // number of tasks in the most recent frame
    pub(super) with_values: bool,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
    pub(super) is_typing: bool, // whether the user is typing the filter
    latest: Option<Figures>,
    frozen: Option<Figures>,
    history: History,
    name: Option<String>, // name of the selected task, which stays selected wherever it is sorted to
}

impl Top {
    pub(crate) fn new(look: Look) -> Self {
        Self {
            look,
            pane: Pane::default(),
            trouble: None,
            asked: None,
            selected: 0,
            first: 0,
            page: 0,
            on_screen: 1,
            with_values: false,
            sort: Sort::default(),
            reversed: false,
            filter: String::new(),
            is_typing: false,
            latest: None,
            frozen: None,
            history: History::default(),
            name: None,
        }
    }

    /// Notes that the daemon was asked.
    pub(crate) fn asks(&mut self, now: Instant) {
        self.asked.get_or_insert(now);
    }

    /// Takes the daemon's answer, or why there is none.
    pub(crate) fn answered(&mut self, answer: Result<Summary, String>, now: Instant) {
        self.asked = None;
        let mut snapshot = match answer {
            Ok(Summary { error: Some(why), .. }) => {
                self.trouble = Some(format!("the daemon runs but cannot answer yet: {why}"));
                return;
            }
            Ok(snapshot) => snapshot,
            Err(why) => {
                self.trouble = Some(why);
                return;
            }
        };
        self.trouble = None;
        let daemon = *snapshot.daemon.take().unwrap_or_default();
        self.history.enter(&snapshot, &daemon);
        self.latest = Some(Figures::new(snapshot, daemon, &self.history, now));
        if self.frozen.is_none() {
            self.find_selected();
        }
    }

    /// Whether the daemon has answered at least once.
    pub(crate) fn has_figures(&self) -> bool {
        self.latest.is_some()
    }

    /// The time that the rates cover. `None`: there is nothing to compare yet.
    pub(crate) fn over(&self) -> Option<Span> {
        self.latest.as_ref().and_then(Figures::over)
    }

    /// The figures to show.
    pub(super) fn figures(&self) -> Option<&Figures> {
        self.frozen.as_ref().or(self.latest.as_ref())
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// How long the current request has been unanswered.
    pub(super) fn unanswered(&self, now: Instant) -> Option<Span> {
        self.asked.map(|asked| now - asked)
    }

    /// Handles a key. Returns false if it ends the view.
    pub(crate) fn press(&mut self, key: Key) -> bool {
        if self.is_typing {
            self.type_filter(key);
            return true;
        }
        match (self.pane, key) {
            (_, Key::Char('q')) => return false,
            (Pane::Help, Key::Char('?' | 'h') | Key::Escape | Key::Enter) => self.pane = Pane::Tasks,
            (_, Key::Char('?' | 'h')) => self.pane = Pane::Help,
            (Pane::Workers, Key::Char('w') | Key::Escape | Key::Enter) => self.pane = Pane::Tasks,
            (Pane::Detail, Key::Escape | Key::Enter) => self.pane = Pane::Tasks,
            (_, Key::Char('w')) => self.pane = Pane::Workers,
            (_, Key::Char(' ')) => {
                self.frozen = if self.frozen.is_some() { None } else { self.latest.clone() };
                self.find_selected();
            }
            (_, Key::Up | Key::Char('k')) => self.select(self.selected.saturating_sub(1)),
            (_, Key::Down | Key::Char('j')) => self.select(self.selected + 1),
            (_, Key::PageUp) => self.select(self.selected.saturating_sub(self.on_screen)),
            (_, Key::PageDown) => self.select(self.selected + self.on_screen),
            (_, Key::Home) => self.select(0),
            (_, Key::End) => self.select(usize::MAX),
            (_, Key::Left) => self.page = self.page.saturating_sub(1),
            (_, Key::Right) => self.page += 1, // the frame corrects it if there is no such page
            (_, Key::Enter) => self.pane = Pane::Detail,
            (_, Key::Escape) => self.filter_by(String::new()),
            (_, Key::Char('/')) => {
                self.pane = Pane::Tasks;
                self.is_typing = true;
            }
            (_, Key::Char('v')) => {
                self.with_values ^= true;
                self.page = 0;
            }
            (_, Key::Char('r')) => {
                self.reversed ^= true;
                self.find_selected();
            }
            (_, Key::Char('s')) => self.sort_by(1),
            (_, Key::Char('S')) => self.sort_by(Sort::ALL.len() - 1),
            (_, Key::Char(letter)) => {
                let sort = match letter {
                    'd' => Sort::Declared,
                    'n' => Sort::Name,
                    'm' => Sort::Missed,
                    'l' => Sort::Late,
                    'c' => Sort::Share,
                    _ => return true,
                };
                (self.sort, self.reversed) = (sort, false);
                self.find_selected();
            }
            (_, Key::Backspace) => {}
        }
        true
    }

    fn type_filter(&mut self, key: Key) {
        let mut filter = self.filter.clone();
        match key {
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                filter.clear();
            }
            Key::Backspace => _ = filter.pop(),
            Key::Char(letter) => filter.push(letter),
            _ => return,
        }
        self.filter_by(filter);
    }

    fn filter_by(&mut self, filter: String) {
        self.filter = filter;
        self.find_selected();
    }

    /// Selects the sort order this many places after the current one.
    fn sort_by(&mut self, later: usize) {
        let position = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = Sort::ALL[(position + later) % Sort::ALL.len()];
        self.reversed = false;
        self.find_selected();
    }

    /// The names of the tasks shown.
    fn names(&self) -> Vec<String> {
        let rows = self.figures().map(|figures| figures.rows(self.sort, self.reversed, &self.filter));
        rows.unwrap_or_default().iter().map(|row| row.task.task.clone()).collect()
    }

    fn select(&mut self, position: usize) {
        let names = self.names();
        self.selected = position.min(names.len().saturating_sub(1));
        self.name = names.get(self.selected).cloned();
    }

    /// The selected task may have moved, or gone; if it has gone, the task now in its place is selected.
    fn find_selected(&mut self) {
        let names = self.names();
        let found = self.name.as_ref().and_then(|name| names.iter().position(|other| other == name));
        match found {
            Some(position) => self.selected = position,
            None if self.name.is_some() => self.select(self.selected),
            None => self.selected = 0, // none has been chosen
        }
    }
}
