//! The graph of a configuration, in the language of a drawing program. Pure: names of any kind come out as text.

use super::chains;
use crate::cli::graph::{Graph, Link};
use clap::ValueEnum;
use std::fmt::Write as _;

/// A language for drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Language {
    /// For Markdown of forges and wikis.
    Mermaid,
    /// For Graphviz.
    Dot,
}

/// Draws every worker as a box around its tasks, and an arrow for each value that is read. Arrows to another worker are thick, arrows for a
/// value of the previous tick are dashed.
pub(super) fn draw(graph: &Graph<'_>, language: Language) -> String {
    let mut text = String::new();
    let [begin, end] = match language {
        Language::Mermaid => ["flowchart LR\n", ""],
        Language::Dot => ["digraph hertzd {\n  rankdir=LR\n  node [shape=box]\n", "}\n"],
    };
    text += begin;
    for (index, worker) in graph.config.workers.iter().enumerate() {
        let label = language.quoted(&[&format!("worker {}", worker.name)]);
        // Writing to a String cannot fail, here and below.
        let _ = match language {
            Language::Mermaid => writeln!(text, "  subgraph w{index}[{label}]"),
            Language::Dot => writeln!(text, "  subgraph cluster_{index} {{\n    label={label}"),
        };
        for (number, task) in graph.config.tasks.iter().enumerate().filter(|(_, task)| task.worker == index) {
            let rate = task.rate.to_string();
            let label = language
                .quoted(&[&task.name, &format!("{}, {} Hz", task.kind, rate.strip_suffix("/1").unwrap_or(&rate))]);
            let _ = match language {
                Language::Mermaid => writeln!(text, "    t{number}[{label}]"),
                Language::Dot => writeln!(text, "    t{number} [label={label}]"),
            };
        }
        text += match language {
            Language::Mermaid => "  end\n",
            Language::Dot => "  }\n",
        };
    }
    graph.links.iter().for_each(|link| text += &arrow(graph, link, language));
    text + end
}

fn arrow(graph: &Graph<'_>, link: &Link<'_>, language: Language) -> String {
    let (giver, taker) = (&graph.config.tasks[link.from], &graph.config.tasks[link.to]);
    let delay = chains::delay(link, giver.rate, taker.rate);
    let label = language.quoted(&[&format!("{} to {}", link.name.value, link.taken.key), &delay]);
    let Link { from, to, .. } = link;
    let is_across = giver.worker != taker.worker;
    match (language, link.is_previous()) {
        (Language::Mermaid, true) => format!("  t{from} -.->|{label}| t{to}\n"),
        (Language::Mermaid, false) if is_across => format!("  t{from} ==>|{label}| t{to}\n"),
        (Language::Mermaid, false) => format!("  t{from} -->|{label}| t{to}\n"),
        (Language::Dot, true) => format!("  t{from} -> t{to} [label={label}, style=dashed, constraint=false]\n"),
        (Language::Dot, false) if is_across => format!("  t{from} -> t{to} [label={label}, style=bold]\n"),
        (Language::Dot, false) => format!("  t{from} -> t{to} [label={label}]\n"),
    }
}

impl Language {
    /// A label of these lines, in quotes.
    fn quoted(self, lines: &[&str]) -> String {
        let line = |line: &&str| line.chars().map(|c| self.escaped(c)).collect::<String>();
        let between = match self {
            Self::Mermaid => "<br>",
            Self::Dot => "\\n",
        };
        format!("\"{}\"", lines.iter().map(line).collect::<Vec<_>>().join(between))
    }

    fn escaped(self, c: char) -> String {
        let is_plain = c.is_alphanumeric() || " .,-_()%/".contains(c);
        match self {
            _ if is_plain => c.to_string(),
            _ if c.is_control() => " ".to_owned(),
            // Written as a character number: quotes, brackets and other signs have a meaning in both languages.
            Self::Mermaid => format!("#{};", u32::from(c)),
            Self::Dot => format!("&#{};", u32::from(c)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_its_label() {
        let odd = "a\"b]|<br>\\n{x}; end #quot; & `µ`\n";
        for language in [Language::Mermaid, Language::Dot] {
            let label = language.quoted(&[odd]);
            let inner = &label[1..label.len() - 1];
            assert!(!inner.contains(['"', '\\', '<', '>', '|', '[', ']', '{', '}', '`', '\n']), "{label}");
            let numbers = inner.split(';').filter_map(|part| part.rsplit_once('#')).map(|(_, number)| number);
            let signs: String = numbers.map(|n| char::from_u32(n.parse().unwrap()).unwrap()).collect();
            assert_eq!(signs, "\"]|<>\\{};#;&``", "each as its number");
        }
    }
}
