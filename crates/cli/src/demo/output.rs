//! Where the demo's text goes: lines of toned spans, and progress.
//!
//! The demo composes lines; an output decides on colour and on whether progress is drawn. Every
//! line fits [`WIDTH`] columns.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Columns that a line may take.
pub(crate) const WIDTH: usize = 100;

/// What a span means, for whoever draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Ordinary text.
    Plain,
    /// What to look at first.
    Strong,
    /// Explanation.
    Dim,
    /// Something landed or held.
    Good,
    /// Something was refused or lost.
    Bad,
}

/// One line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Tone, String)>);

impl Line {
    /// An empty line.
    pub(crate) fn new() -> Line {
        Line::default()
    }

    /// A line of ordinary text.
    pub(crate) fn of(text: impl Into<String>) -> Line {
        Line::new().plain(text)
    }

    /// Adds ordinary text.
    pub(crate) fn plain(self, text: impl Into<String>) -> Line {
        self.with(Tone::Plain, text)
    }

    /// Adds text to look at first.
    pub(crate) fn strong(self, text: impl Into<String>) -> Line {
        self.with(Tone::Strong, text)
    }

    /// Adds explanation.
    pub(crate) fn dim(self, text: impl Into<String>) -> Line {
        self.with(Tone::Dim, text)
    }

    /// Adds something that landed or held.
    pub(crate) fn good(self, text: impl Into<String>) -> Line {
        self.with(Tone::Good, text)
    }

    /// Adds something that was refused or lost.
    pub(crate) fn bad(self, text: impl Into<String>) -> Line {
        self.with(Tone::Bad, text)
    }

    fn with(mut self, tone: Tone, text: impl Into<String>) -> Line {
        self.0.push((tone, text.into()));
        self
    }

    /// The spans, in order.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Tone, &str)> {
        self.0.iter().map(|(tone, text)| (*tone, text.as_str()))
    }

    /// The text without tones.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Takes what the demo says while it runs.
pub(crate) trait DemoOutput {
    /// One line, in order.
    ///
    /// # Errors
    /// The line cannot be written; the demo stops.
    fn line(&mut self, line: &Line) -> io::Result<()>;

    /// A long step has done `done` of `total` units (inclusive: it ends when they are equal).
    fn progress(&mut self, what: &str, done: u64, total: u64);
}

/// Says nothing: the caller wants the [`super::Story`] only.
#[derive(Debug, Default)]
pub(crate) struct Quiet;

impl DemoOutput for Quiet {
    fn line(&mut self, _line: &Line) -> io::Result<()> {
        Ok(())
    }

    fn progress(&mut self, _what: &str, _done: u64, _total: u64) {}
}

/// Writes text; draws progress on stderr, if that is a terminal.
pub(crate) struct TextOutput<W> {
    writer: W,
    color: bool,
    bars: bool,
    bar: Option<ProgressBar>,
}

impl<W: Write> TextOutput<W> {
    /// `color`: tones become ANSI sequences. `bars`: progress is drawn on stderr.
    pub(crate) fn new(writer: W, color: bool, bars: bool) -> TextOutput<W> {
        TextOutput { writer, color, bars, bar: None }
    }

    /// The writer.
    #[cfg(test)]
    pub(crate) fn into_inner(self) -> W {
        self.writer
    }
}

impl<W: Write> DemoOutput for TextOutput<W> {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        let mut text = String::new();
        for (tone, span) in line.spans() {
            let sequence = match tone {
                Tone::Plain => "",
                Tone::Strong => "\u{1b}[1m",
                Tone::Dim => "\u{1b}[2m",
                Tone::Good => "\u{1b}[32m",
                Tone::Bad => "\u{1b}[31m",
            };
            if self.color && !sequence.is_empty() {
                text.extend([sequence, span, "\u{1b}[0m"]);
            } else {
                text.push_str(span);
            }
        }
        writeln!(self.writer, "{}", text.trim_end())?;
        self.writer.flush()
    }

    fn progress(&mut self, what: &str, done: u64, total: u64) {
        if !self.bars {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let template = "   {msg:<24} {bar:40} {human_pos}/{human_len}";
            bar.set_style(
                ProgressStyle::with_template(template)
                    .unwrap_or_else(|_| ProgressStyle::default_bar())
                    .progress_chars("██░"),
            );
            bar
        });
        bar.set_message(what.to_owned());
        bar.set_length(total);
        bar.set_position(done);
        if done >= total {
            bar.finish_and_clear();
            self.bar = None;
        }
    }
}

/// A number with separators: `336,776`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 row`, `2 rows`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A duration of some milliseconds, with three digits that matter.
pub(crate) fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 100.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1000.0),
    }
}

/// Columns side by side: every cell but the last is padded to the widest of its column.
pub(crate) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (place, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(place) {
                Some(widest) => *widest = (*widest).max(width),
                None => widths.push(width),
            }
        }
    }
    let pad = |(cell, width): (&String, &usize)| {
        let missing = width.saturating_sub(cell.chars().count());
        format!("{cell}{}", " ".repeat(missing))
    };
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row.iter().zip(&widths).map(pad).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

/// At most `width` characters; what is cut ends in `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_become_colours_only_when_asked() {
        let line = Line::of("a ").good("b").dim(" c");
        let written = |color| {
            let mut output = TextOutput::new(Vec::new(), color, false);
            output.line(&line).expect("memory takes any text");
            output.progress("never drawn", 1, 2);
            String::from_utf8(output.into_inner()).expect("UTF-8")
        };
        assert_eq!(written(false), "a b c\n");
        assert_eq!(written(true), "a \u{1b}[32mb\u{1b}[0m\u{1b}[2m c\u{1b}[0m\n");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [0, 999, 1000, 336_776, 1_000_000].map(count),
            ["0", "999", "1,000", "336,776", "1,000,000"]
        );
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2000, "row"), "2,000 rows");
        assert_eq!(
            [0.25, 1.234, 12.34, 123.4, 1234.0].map(duration),
            ["250 µs", "1.23 ms", "12.3 ms", "123 ms", "1.23 s"]
        );
    }

    #[test]
    fn columns_align_by_characters() {
        let rows = [vec!["é".into(), "b".into()], vec!["ccc".into(), "dd".into(), "e".into()]];
        assert_eq!(columns(&rows), ["é    b", "ccc  dd  e"]);
    }

    #[test]
    fn cut_text_says_so() {
        assert_eq!(cut("exact", 5), "exact");
        assert_eq!(cut("too long", 5), "too…");
    }
}
