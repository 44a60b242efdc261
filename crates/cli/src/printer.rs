//! The only place that prints. stdout is data; stderr is everything else.
//!
//! With `--json`, stdout carries one JSON value per line (one line for each item of a list) and an
//! error is one JSON object on stderr.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::time::Duration;

use anabranch_api::Problem;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// How a text stands out where colour is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Good,
    Bad,
    Dim,
    Strong,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Good => "32",
            Style::Bad => "31",
            Style::Dim => "2",
            Style::Strong => "1",
        }
    }

    fn paint(self, color: bool, text: &str) -> String {
        if color && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", self.code())
        } else {
            text.to_owned()
        }
    }
}

/// Writes what commands have to say.
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    verbose: u8,
    color: (bool, bool),
    out: RefCell<BufWriter<Stdout>>,
}

impl Printer {
    pub(crate) fn new(settings: &Settings) -> Printer {
        Printer {
            json: settings.json,
            quiet: settings.quiet,
            verbose: settings.verbose,
            color: settings.color,
            out: RefCell::new(BufWriter::new(io::stdout())),
        }
    }

    /// Sends log lines to stderr; a node logs its warnings even when nobody asked.
    pub(crate) fn start_log(&self, serves: bool) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => tracing::Level::ERROR,
            (false, 0) if !serves => tracing::Level::ERROR,
            (false, 0) => tracing::Level::WARN,
            (false, 1) => tracing::Level::INFO,
            (false, _) => tracing::Level::DEBUG,
        };
        let log = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(level);
        // A second start would fail, and the first one then serves.
        let _ = log.with_ansi(false).with_target(false).try_init();
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// A line of data.
    pub(crate) fn line(&self, text: &str) -> Outcome<()> {
        self.bytes(text.as_bytes(), true)
    }

    /// Bytes of data, as they are; with a newline after them if asked.
    pub(crate) fn bytes(&self, bytes: &[u8], newline: bool) -> Outcome<()> {
        let mut out = self.out.borrow_mut();
        out.write_all(bytes)?;
        if newline {
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// A JSON value on one line.
    pub(crate) fn json(&self, value: &impl Serialize) -> Outcome<()> {
        let mut out = self.out.borrow_mut();
        serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(())
    }

    /// The value with `--json`, and the text otherwise.
    pub(crate) fn answer(&self, value: &impl Serialize, text: &str) -> Outcome<()> {
        if self.json { self.json(value) } else { self.line(text) }
    }

    /// Sends what is buffered.
    pub(crate) fn flush(&self) -> Outcome<()> {
        Ok(self.out.borrow_mut().flush()?)
    }

    /// Whether stdout is coloured, and whether progress is drawn on stderr.
    pub(crate) fn looks(&self) -> (bool, bool) {
        (self.color.0, !self.quiet && io::stderr().is_terminal())
    }

    /// A writer of data, for those that stream.
    pub(crate) fn writer(&self) -> impl Write + '_ {
        struct Out<'a>(&'a RefCell<BufWriter<Stdout>>);
        impl Write for Out<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.borrow_mut().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                self.0.borrow_mut().flush()
            }
        }
        Out(&self.out)
    }

    /// Columns with a header, for people.
    pub(crate) fn table(&self, header: &[&str], rows: &[Vec<String>]) -> Outcome<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(header.iter().map(|name| one_line(name)));
        for row in rows {
            table.add_row(row.iter().map(|cell| one_line(cell)));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let text = table.trim_fmt();
        for (number, line) in text.lines().enumerate() {
            if number == 0 {
                self.line(&self.paint(Style::Strong, line))?;
            } else {
                self.line(line)?;
            }
        }
        Ok(())
    }

    /// A text for stdout that stands out where colour is on.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        style.paint(self.color.0, text)
    }

    /// Something for people besides the data; nothing with `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Something that people should not miss.
    pub(crate) fn warn(&self, text: &str) {
        self.complain(&format!("{} {text}", Style::Bad.paint(self.color.1, "warning:")));
    }

    fn complain(&self, text: &str) {
        // In the order in which things were said; and with stderr gone there is nobody to tell.
        let _ = self.out.borrow_mut().flush();
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// The last words of a command that failed.
    pub(crate) fn failure(&self, failure: &Failure) -> Exit {
        let Failure::Problem(problem) = failure else { return Exit::Done };
        // What was written before the failure belongs to the answer; a broken pipe is fine.
        let _ = self.out.borrow_mut().flush();
        say(problem, self.json, self.color.1);
        Exit::of(problem)
    }

    /// Progress on a terminal; nothing elsewhere, with `--json` and with `--quiet`.
    pub(crate) fn progress(&self, what: &str, total: Option<u64>) -> ProgressBar {
        if self.quiet || self.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(8));
        let template = match total {
            Some(_) => "{msg} {bar:30} {bytes}/{total_bytes} {eta}",
            None => "{msg} {spinner} {bytes}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        bar
    }
}

fn say(problem: &Problem, json: bool, color: bool) {
    let mut lines = Vec::new();
    if json {
        lines.push(serde_json::to_string(problem).unwrap_or_default());
    } else {
        lines.push(format!("{} {}", Style::Bad.paint(color, "error:"), problem.message));
        if problem.happened == "unknown" {
            lines.push("it is not known whether it took effect".to_owned());
        }
        if !problem.hint.is_empty() {
            lines.push(format!("{} {}", Style::Dim.paint(color, "hint:"), problem.hint));
        }
    }
    lines.push(String::new());
    // With stderr gone there is nobody to tell.
    let _ = io::stderr().write_all(lines.join("\n").as_bytes());
}

/// What clap has to say: help and version on stdout, complaints on stderr.
pub(crate) fn usage(error: &clap::Error, args: impl Iterator<Item = OsString>) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done;
    }
    let json = args.take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if json {
        let text = error.render().to_string();
        let text = text.lines().next().unwrap_or_default();
        let message = text.strip_prefix("error: ").unwrap_or(text);
        say(&Problem::invalid(message).with_hint("see --help"), true, false);
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

/// A cell: control characters escaped, so that data cannot move the cursor or break the layout.
pub(crate) fn one_line(text: &str) -> String {
    const WIDEST: usize = 200;
    let mut line = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == WIDEST {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_on_their_line() {
        assert_eq!(one_line("a\nb\u{1b}[2J é"), "a\\nb\\u{1b}[2J é");
        assert_eq!(one_line(&"x".repeat(300)).chars().count(), 201);
    }
}
