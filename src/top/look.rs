//! The appearance: with or without colours, Unicode or ASCII only, and numbers in few columns. Pure.

use crate::escape::is_command;
use crate::time::Span;
use ratatui::style::{Color, Modifier, Style};

/// Characters of increasing height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BLOCKS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Colours are allowed.
    pub(crate) colour: bool,
    /// It shows characters beyond ASCII.
    pub(crate) unicode: bool,
}

impl Look {
    /// The style for anything wrong; bold if there are no colours.
    pub(super) fn bad(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.colour { bold.fg(Color::Red) } else { bold }
    }

    /// The style for a warning that figures are old or frozen.
    pub(super) fn warning(self) -> Style {
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        if self.colour { reversed.fg(Color::Yellow) } else { reversed }
    }

    pub(super) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub(super) fn selected(self, style: Style) -> Style {
        style.add_modifier(Modifier::REVERSED)
    }

    /// The style for less important text, and for old figures.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The character for a height of 0 to 7.
    pub(super) fn block(self, height: usize) -> char {
        let blocks = if self.unicode { BLOCKS } else { ASCII_BLOCKS };
        blocks[height.min(blocks.len() - 1)]
    }

    /// A bar of this length.
    pub(super) fn bar(self, length: usize) -> String {
        (if self.unicode { "█" } else { "#" }).repeat(length)
    }

    pub(super) fn at_most(self) -> &'static str {
        if self.unicode { "≤" } else { "<=" }
    }

    pub(super) fn descending(self) -> char {
        if self.unicode { '▼' } else { 'v' }
    }

    pub(super) fn ascending(self) -> char {
        if self.unicode { '▲' } else { '^' }
    }

    /// Nanoseconds in at most six columns, such as `12.3µs`.
    pub(super) fn time(self, nanos: i64) -> String {
        self.plain(&Span::from_nanos(nanos).to_string().replace(' ', ""))
    }

    /// Our own text, without characters that the terminal cannot show.
    pub(super) fn plain(self, text: &str) -> String {
        if self.unicode || text.is_ascii() {
            return text.to_owned();
        }
        let text = text.replace('µ', "u").replace('…', "~").replace('°', "deg ");
        text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
    }

    /// The first `width` characters; if text was cut, the last one shows that. Characters that would move the cursor are replaced.
    pub(super) fn cut(self, text: &str, width: usize) -> String {
        let shown = |text: &str| text.chars().map(|c| if is_command(c) { '?' } else { c }).collect::<String>();
        if text.chars().count() <= width {
            return shown(text);
        }
        let more = if self.unicode { '…' } else { '~' };
        let kept: String = text.chars().take(width.saturating_sub(1)).collect();
        shown(&kept) + &more.to_string().repeat(width.min(1))
    }
}

/// A share of one CPU, such as `8.9%`.
pub(super) fn share(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Ticks per second, from a number or a fraction such as `30000/1001`.
#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
pub(super) fn asked(rate: &str) -> Option<f64> {
    let (over, under) = rate.split_once('/').unwrap_or((rate, "1"));
    let (over, under) = (over.parse::<u64>().ok()?, under.parse::<u64>().ok()?);
    (under > 0).then(|| over as f64 / under as f64)
}

/// A rate in hertz in at most seven columns. A measured rate is hardly ever whole, so it always has its digits.
pub(super) fn hertz(hertz: f64, is_measured: bool) -> String {
    match hertz {
        _ if !is_measured && hertz.fract() == 0.0 && hertz < 1e6 => format!("{hertz:.0}"),
        0.0 => "0".into(),
        _ if hertz < 1.0 => format!("{hertz:.4}"),
        _ if hertz < 100.0 => format!("{hertz:.2}"),
        _ if hertz < 10_000.0 => format!("{hertz:.1}"),
        _ if hertz < 1e6 => format!("{hertz:.0}"),
        _ => format!("{:.2}M", hertz / 1e6),
    }
}
