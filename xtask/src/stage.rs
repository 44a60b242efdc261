//! Runs a table of stages and says how long each took and what the test runners counted.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// One step of `test` or `full`.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// A part of the toolchain that may be absent.
    pub(crate) needs: Option<Tool>,
    /// What to run where `needs` is absent; `None` skips the stage and says so.
    pub(crate) instead: Option<Run>,
    pub(crate) run: Run,
}

/// A cargo subcommand which a user's machine may lack.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    /// Arguments to cargo that succeed where the tool is present.
    pub(crate) probe: &'static [&'static str],
    /// The command that brings it.
    pub(crate) get: &'static str,
}

/// What a stage does.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// `cargo ARGUMENTS` in the workspace's directory; passes when it exits with 0.
    Cargo { arguments: &'static [&'static str], env: &'static [(&'static str, &'static str)] },
    /// A function of this tool, given the workspace's directory.
    Inside(fn(&Path) -> bool),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped { get: &'static str },
}

struct Done {
    name: &'static str,
    verdict: Verdict,
    took: Duration,
}

/// Runs every stage, failed ones too, prints the table, and returns whether none failed.
pub(crate) fn run(root: &Path, stages: &[Stage]) -> bool {
    let mut done = Vec::new();
    let mut summaries = Vec::new();
    for stage in stages {
        println!("── {}", stage.name);
        let start = Instant::now();
        let verdict = match stage.choose() {
            Ok(run) if run.execute(root, &mut summaries) => Verdict::Passed,
            Ok(_) => Verdict::Failed,
            Err(get) => Verdict::Skipped { get },
        };
        done.push(Done { name: stage.name, verdict, took: start.elapsed() });
    }
    println!("──");
    for stage in &done {
        println!("{stage}");
    }
    for line in &summaries {
        println!("{line}");
    }
    let counts = summaries.iter().filter_map(|line| Counts::parse(line));
    println!("{}", counts.fold(Counts::default(), Counts::plus));
    done.iter().all(|stage| stage.verdict != Verdict::Failed)
}

impl Stage {
    /// The run for this machine, or the command that would bring what it lacks.
    fn choose(&self) -> Result<Run, &'static str> {
        match (self.needs, self.instead) {
            (Some(tool), Some(instead)) if !tool.present() => {
                println!("   without `cargo {}` ({})", tool.probe[0], tool.get);
                Ok(instead)
            }
            (Some(tool), None) if !tool.present() => Err(tool.get),
            _ => Ok(self.run),
        }
    }
}

impl Tool {
    fn present(self) -> bool {
        let mut command = cargo(self.probe);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Run {
    fn execute(self, root: &Path, summaries: &mut Vec<String>) -> bool {
        match self {
            Run::Inside(function) => function(root),
            Run::Cargo { arguments, env } => {
                let mut command = cargo(arguments);
                command.current_dir(root).envs(env.iter().copied()).stdin(Stdio::null());
                match echo(&mut command, summaries) {
                    Ok(passed) => passed,
                    Err(error) => {
                        eprintln!("cannot run cargo {}: {error}", arguments.join(" "));
                        false
                    }
                }
            }
        }
    }
}

/// The cargo that runs this tool, else the one on the path.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs the command, prints both of its streams line by line, and keeps the runners' last lines.
fn echo(command: &mut Command, summaries: &mut Vec<String>) -> std::io::Result<bool> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        if let Some(stdout) = child.stdout.take() {
            let sender = sender.clone();
            scope.spawn(move || send_lines(stdout, &sender));
        }
        if let Some(stderr) = child.stderr.take() {
            scope.spawn(move || send_lines(stderr, &sender));
        }
        for line in receiver {
            println!("{line}");
            if Counts::parse(&line).is_some_and(|counts| counts != Counts::default()) {
                summaries.push(line.trim().to_owned());
            }
        }
    });
    Ok(child.wait()?.success())
}

fn send_lines(stream: impl Read, sender: &mpsc::Sender<String>) {
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(bytes) = line else { return };
        if sender.send(String::from_utf8_lossy(&bytes).trim_end().to_owned()).is_err() {
            return;
        }
    }
}

/// How many tests a runner says it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Reads the closing line of nextest (`Summary [ 0.1s] 3 tests run: 2 passed, 1 failed, …`) or
    /// of libtest (`test result: ok. 2 passed; 0 failed; 1 ignored; …`); `None` for any other line.
    fn parse(line: &str) -> Option<Counts> {
        let line = line.trim();
        let counted = if let Some(rest) = line.strip_prefix("test result: ") {
            rest.split_once(". ")?.1
        } else if line.starts_with("Summary [") {
            line.split_once(" run: ")?.1
        } else {
            return None;
        };
        let mut counts = Counts::default();
        for part in counted.split([',', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => counts.passed += number,
                "failed" | "timed" | "exec" => counts.failed += number,
                "skipped" | "ignored" => counts.skipped += number,
                _ => {} // "filtered out", "measured": of tests that nobody asked for
            }
        }
        Some(counts)
    }

    fn plus(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { passed, failed, skipped } = self;
        write!(out, "tests: {passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl fmt::Display for Done {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        write!(out, "{:<18} {seconds:>7.1} s  ", self.name)?;
        match self.verdict {
            Verdict::Passed => write!(out, "passed"),
            Verdict::Failed => write!(out, "FAILED"),
            Verdict::Skipped { get } => write!(out, "skipped (to have it: {get})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_nextest() {
        let line = "     Summary [   0.512s] 14 tests run: 11 passed (1 slow), 2 failed, \
                    1 timed out, 3 skipped";
        let counts = Counts { passed: 11, failed: 3, skipped: 3 };
        assert_eq!(Counts::parse(line), Some(counts));
        let stopped = "Summary [  1.0s] 3/9 tests run: 2 passed, 1 failed, 0 skipped";
        assert_eq!(Counts::parse(stopped), Some(Counts { passed: 2, failed: 1, skipped: 0 }));
    }

    #[test]
    fn counts_are_read_from_libtest() {
        let line = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 7 filtered \
                    out; finished in 0.01s";
        let counts = Counts { passed: 5, failed: 2, skipped: 1 };
        assert_eq!(Counts::parse(line), Some(counts));
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in ["test a::b ... ok", "running 3 tests", "3 passed, 0 failed", ""] {
            assert_eq!(Counts::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_closing_line_has_the_plain_form() {
        let sum = Counts { passed: 1, failed: 2, skipped: 3 }.plus(Counts::default());
        assert_eq!(sum.to_string(), "tests: 1 passed, 2 failed, 3 skipped");
    }

    #[test]
    fn a_missing_tool_skips_or_falls_back() {
        let tool = Tool { probe: &["no-such-subcommand"], get: "get it" };
        let other = Run::Inside(|_| true);
        let stage = Stage { name: "x", needs: Some(tool), instead: None, run: other };
        assert!(matches!(stage.choose(), Err("get it")));
        let stage = Stage { instead: Some(other), ..stage };
        assert!(matches!(stage.choose(), Ok(Run::Inside(_))));
    }

    #[test]
    fn one_failed_stage_fails_the_run_and_skipped_ones_do_not() {
        let root = Path::new(".");
        let good = Stage { name: "good", needs: None, instead: None, run: Run::Inside(|_| true) };
        let bad = Stage { name: "bad", run: Run::Inside(|_| false), ..good };
        let tool = Tool { probe: &["no-such-subcommand"], get: "get it" };
        let absent = Stage { name: "absent", needs: Some(tool), ..bad };
        assert!(run(root, &[good, absent]));
        assert!(!run(root, &[bad, good]));
    }
}
