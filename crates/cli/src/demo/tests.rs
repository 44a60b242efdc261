//! The whole demo on a few days, and its directories.

use super::output::Line;
use super::output::WIDTH;
use super::*;

/// Keeps what was said.
#[derive(Default)]
struct Kept {
    lines: Vec<Line>,
    progress: Vec<(u64, u64)>,
}

impl DemoOutput for Kept {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.lines.push(line.clone());
        Ok(())
    }

    fn progress(&mut self, _what: &str, done: u64, total: u64) {
        self.progress.push((done, total));
    }
}

fn options(directory: &Path) -> DemoOptions {
    let directory = Some(directory.to_owned());
    DemoOptions { directory, days: 3, rate: 500, ..DemoOptions::default() }
}

#[test]
fn three_days_tell_the_whole_story() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("space");
    let mut kept = Kept::default();
    let story = run(&options(&directory), &mut kept).expect("every promise holds");

    let flights = story.load.tables.iter().find(|(table, _)| table == "flights");
    assert_eq!(flights.map(|(_, rows)| *rows), Some(842 + 943 + 914));
    assert!(!story.load.first.landed && story.load.landed.landed);
    assert_eq!(story.load.first.code, Some("check_failed"));
    assert_eq!(story.load.set_aside, story.load.found);
    assert!(story.retime.verdict.landed && story.clash.settled.landed);
    assert_eq!(story.clash.refused.code, Some("conflict"));
    assert_eq!(story.swap.refused.code, Some("check_failed"));
    assert!(story.arrivals.acknowledged > 0);
    assert_eq!(kept.progress.last().map(|(done, total)| done == total), Some(true));

    let text: Vec<String> = kept.lines.iter().map(Line::text).collect();
    // Commands to copy are never cut, however long the directory's name is.
    let commands = format!("--dir {}", directory.display());
    for line in text.iter().filter(|line| !line.contains(&commands)) {
        assert!(line.chars().count() <= WIDTH, "too wide: {line}");
    }
    for heading in ["Load", "Three agents", "What each branch sees", "Branches", "History"] {
        assert!(text.iter().any(|line| line.starts_with(heading)), "no {heading}");
    }
    // Plain JSON: no number that JSON cannot say, and a name for every part.
    let document = serde_json::to_value(&story).expect("a story has a JSON form");
    assert_eq!(document["clash"]["conflicts"][0]["column"], "sched_dep");
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine");
    fs::write(&file, "precious").expect("a file");
    let refused = run(&options(directory.path()), &mut Quiet).expect_err("not empty");
    assert!(matches!(refused, DemoError::DirectoryInUse(_)), "{refused}");
    assert_eq!(fs::read(&file).expect("still there"), b"precious");
}

#[test]
fn options_out_of_bounds_are_refused_before_anything_is_made() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("space");
    let good = options(&directory);
    for wrong in [
        DemoOptions { days: 1, ..good.clone() },
        DemoOptions { days: 366, ..good.clone() },
        DemoOptions { rate: 0, ..good.clone() },
        DemoOptions { rate: 10_001, ..good.clone() },
    ] {
        assert!(matches!(run(&wrong, &mut Quiet), Err(DemoError::Options(_))), "{wrong:?}");
    }
    assert!(!directory.exists());
}
