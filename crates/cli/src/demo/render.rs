//! The text of a story: what happened, in the order in which it happened, in a hundred columns.

use std::path::Path;

use serde_json::Value as Json;

use super::error::DemoError;
use super::output::{DemoOutput, Line, WIDTH, columns, count, counted, cut, duration};
use super::story::{
    BothChanged, BranchLine, Changes, Clash, History, Load, Retime, RowChange, Story, Swap,
    TwoPlaces, Verdict, Views, Work,
};

type Told = Result<(), DemoError>;

/// Indentation of what stands below a heading, and below an agent's name.
const INDENT: &str = "   ";
const DEEP: &str = "            ";

fn say(out: &mut dyn DemoOutput, line: &Line) -> Told {
    out.line(line).map_err(DemoError::Output)
}

fn text(out: &mut dyn DemoOutput, text: &str) -> Told {
    say(out, &Line::of(cut(text, WIDTH)))
}

fn heading(out: &mut dyn DemoOutput, title: &str, explanation: &str) -> Told {
    say(out, &Line::new())?;
    say(out, &Line::new().strong(title).dim(format!("  {explanation}")))
}

/// `label    what`, below a heading.
fn fact(out: &mut dyn DemoOutput, label: &str, what: &str) -> Told {
    text(out, &format!("{INDENT}{label:<9}{what}"))
}

/// Explanation beside the facts.
fn aside(out: &mut dyn DemoOutput, explanation: &str) -> Told {
    say(out, &Line::new().dim(cut(&format!("{DEEP}{explanation}"), WIDTH)))
}

/// Says what this is.
pub(super) fn opening(out: &mut dyn DemoOutput, directory: &Path, days: u32) -> Told {
    let what = ": streams, keys and SQL tables on one log that can be forked, reviewed, promoted.";
    say(out, &Line::new().strong("Anabranch").plain(what))?;
    let span = if days == 365 { "in 2013".to_owned() } else { format!("in {days} days of 2013") };
    let source = "US Bureau of Transportation Statistics";
    text(out, &format!("Data: every flight that left New York {span} ({source})."))?;
    let directory = cut(&directory.display().to_string(), 40);
    aside_of(
        out,
        &[
            "A fork is a branch of all of it: frozen at one position, or live, receiving what",
            "main gets later. Promoting a fork makes its writes part of main in one step, if",
            "main's checks find nothing wrong and main has not changed the same rows and keys.",
            &format!("Every number below is measured, or read back from the space in {directory}."),
        ],
    )
}

fn aside_of(out: &mut dyn DemoOutput, lines: &[&str]) -> Told {
    lines.iter().try_for_each(|line| say(out, &Line::new().dim(*line)))
}

/// The first chapter begins.
pub(super) fn load(out: &mut dyn DemoOutput) -> Told {
    heading(out, "Load", "on a fork, because main only takes what passes its checks")
}

/// The fork is filled.
pub(super) fn filled(
    out: &mut dyn DemoOutput,
    tables: &[(&'static str, u64)],
    departures: u64,
) -> Told {
    let tables: Vec<String> =
        tables.iter().map(|(table, rows)| format!("{table} {}", count(*rows))).collect();
    fact(out, "tables", &tables.join(" · "))?;
    let departures = count(departures);
    fact(out, "stream", &format!("departures {departures} JSON records, in order of departure"))?;
    fact(out, "checks", &super::schema::CHECKS.map(|(name, _)| name).join(" · "))
}

/// It has landed.
pub(super) fn loaded(out: &mut dyn DemoOutput, load: &Load) -> Told {
    if !load.first.landed {
        verdict(out, INDENT, &load.first, &failed(&load.first))?;
        aside(out, &format!("{} in the source itself, such as", counted(load.found, "case")))?;
        for example in &load.examples {
            two_places(out, example)?;
        }
        let rule = "the later flight of each pair loses its tail number, which goes to set_aside";
        fact(out, "clean", &format!("{rule}: {}", counted(load.set_aside, "row")))?;
    }
    verdict(out, INDENT, &load.landed, "")?;
    let (rows, records) = (counted(load.rows, "row"), counted(load.departures, "record"));
    let (seconds, rate) = (load.fill_seconds, count(load.fill_per_second));
    aside(
        out,
        &format!(
            "{rows} and {records} at once; filling the fork took {seconds:.1} s, {rate} a second"
        ),
    )
}

/// Says what goes on in the background from here.
pub(super) fn arriving(out: &mut dyn DemoOutput, load: &Load, rate: u32) -> Told {
    heading(out, "Production goes on", "on main, during everything below")?;
    let from = &load.later_from;
    let what = format!("Departures from {from} on arrive, {rate} a second, each one durable.");
    text(out, &format!("{INDENT}{what}"))
}

/// The three agents.
pub(super) fn agents(
    out: &mut dyn DemoOutput,
    retime: &Retime,
    clash: &Clash,
    swap: &Swap,
) -> Told {
    let day = format!(
        "on forks of main, about {}, the worst day: {:.0} minutes late",
        retime.day, retime.mean_delay_minutes
    );
    heading(out, "Three agents at the same time", &day)?;
    work(out, &retime.work)?;
    changes(out, &retime.changes)?;
    verdict(out, DEEP, &retime.verdict, "")?;

    work(out, &clash.work)?;
    for (step, changed) in &clash.meanwhile {
        step_line(out, "meanwhile on main, desk: ", step, *changed)?;
    }
    verdict(out, DEEP, &clash.refused, "changed on both sides")?;
    conflicts(out, &clash.conflicts)?;
    verdict(out, DEEP, &clash.settled, "")?;
    let (landed, left) = (counted(clash.rows_landed, "row"), count(clash.left_out));
    let settled = format!("main wins where both changed: {landed} landed, {left} stay as on main");
    say(out, &Line::new().dim(format!("{DEEP}         {settled}")))?;

    work(out, &swap.work)?;
    verdict(out, DEEP, &swap.refused, &failed(&swap.refused))?;
    for found in swap.found.iter().take(3) {
        two_places(out, found)?;
    }
    text(out, &format!("{DEEP}discard  at {}; main never saw it", count(swap.discarded)))
}

fn work(out: &mut dyn DemoOutput, work: &Work) -> Told {
    let fork = format!("  {} fork in {}", work.kind, duration(work.fork_ms));
    say(
        out,
        &Line::new()
            .plain(INDENT)
            .strong(format!("{:<9}", work.agent))
            .plain(format!("\"{}\"", work.intent))
            .dim(fork),
    )?;
    work.steps.iter().try_for_each(|(step, changed)| step_line(out, "", step, *changed))
}

fn step_line(out: &mut dyn DemoOutput, who: &str, step: &str, changed: u64) -> Told {
    let step = format!("{who}{step}");
    let room = WIDTH - DEEP.len() - 6;
    let step = cut(&step, room);
    let gap = " ".repeat(room - step.chars().count());
    text(out, &format!("{DEEP}{step}{gap}{:>6}", count(changed)))
}

fn changes(out: &mut dyn DemoOutput, changes: &Changes) -> Told {
    let mut parts = Vec::new();
    for table in &changes.tables {
        let counts =
            [(table.inserts, "new"), (table.updates, "changed"), (table.deletes, "deleted")];
        let some = counts.iter().filter(|(rows, _)| *rows > 0);
        let told: Vec<String> = some.map(|(rows, how)| format!("{} {how}", count(*rows))).collect();
        parts.push(format!("{} {}", table.table, told.join(", ")));
    }
    for (stream, records) in &changes.streams {
        parts.push(format!("{stream} {} new", count(*records)));
    }
    text(out, &format!("{DEEP}diff     {}", parts.join(" · ")))?;
    for table in &changes.tables {
        for row in &table.rows {
            row_line(out, row)?;
        }
    }
    Ok(())
}

fn row_line(out: &mut dyn DemoOutput, row: &RowChange) -> Told {
    let key: Vec<String> = row.key.iter().map(cell).collect();
    let key = key.join(" ");
    // A moment on the day of the key is a time.
    let day = row.key.first().map(cell).unwrap_or_default();
    let short = |value: &Json| time_of(&cell(value), &day);
    let value = |(column, old, new): &(String, Json, Json)| match row.kind {
        "delete" => format!("{column} {}", short(old)),
        "insert" => format!("{column} {}", short(new)),
        _ => format!("{column} {} → {}", short(old), short(new)),
    };
    // The key stands in front already; what is NULL says nothing.
    let told = row.columns.iter().filter(|(column, old, new)| {
        let shown = if row.kind == "delete" { old } else { new };
        !shown.is_null() && (row.kind == "update" || column == "dest" || column == "sched_dep")
    });
    let columns: Vec<String> = told.map(value).collect();
    let rest = cut(&format!("{key}  {}", columns.join(", ")), WIDTH - DEEP.len() - 11);
    let line = Line::new().plain(format!("{DEEP}         "));
    let line = match row.kind {
        "delete" => line.bad("- ").plain(rest),
        "insert" => line.good("+ ").plain(rest),
        _ => line.plain("~ ").plain(rest),
    };
    say(out, &line)
}

/// One attempt to promote; `why` says what a refusal found.
fn verdict(out: &mut dyn DemoOutput, indent: &str, verdict: &Verdict, why: &str) -> Told {
    let line = Line::new().plain(format!("{indent}promote  "));
    let line = if let Some(index) = verdict.index {
        let passed = counted(verdict.checks.len() as u64, "check");
        line.good("landed").plain(format!(" at {}, {passed} passed", count(index)))
    } else {
        line.bad("refused").plain(format!(" ({}) {why}", verdict.code.unwrap_or_default()))
    };
    say(out, &line.dim(format!(", {}", duration(verdict.ms))))
}

/// The checks that refused.
fn failed(verdict: &Verdict) -> String {
    let failed = verdict.checks.iter().filter(|(_, passed)| !passed);
    let names: Vec<&str> = failed.map(|(name, _)| name.as_str()).collect();
    format!("by check {}", names.join(", "))
}

fn two_places(out: &mut dyn DemoOutput, found: &TwoPlaces) -> Told {
    let TwoPlaces { aircraft, flight, route, left, arrived, other, other_route, other_left } =
        found;
    let arrived = time_of(arrived, left);
    let other_left = time_of(other_left, left);
    let one = format!("{flight} {route} {left} to {arrived}");
    text(out, &format!("{DEEP}  {aircraft} is {one}, and {other} {other_route} from {other_left}"))
}

fn conflicts(out: &mut dyn DemoOutput, conflicts: &[BothChanged]) -> Told {
    let mut rows = vec![["both changed", "", "base", "fork", "main"].map(str::to_owned).to_vec()];
    for both in conflicts {
        let place = if both.place == "gates" { "gates/" } else { "" };
        rows.push(vec![
            format!("{place}{}", both.key),
            both.column.clone(),
            cell(&both.base),
            time_only(&both.base, &both.ours),
            time_only(&both.base, &both.theirs),
        ]);
    }
    for (place, row) in columns(&rows).into_iter().enumerate() {
        let row = format!("{DEEP}         {}", cut(&row, WIDTH - DEEP.len() - 9));
        say(out, &if place == 0 { Line::new().dim(row) } else { Line::of(row) })?;
    }
    Ok(())
}

/// The same question on three branches.
pub(super) fn views(out: &mut dyn DemoOutput, views: &Views) -> Told {
    heading(out, "What each branch sees", "the same question, asked on three branches")?;
    let day = format!("flights {}", views.day);
    let gate = format!("gate of {}", views.key);
    let head = ["branch", "", &day, "over 1 h late", "departures", &gate];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for view in &views.branches {
        rows.push(vec![
            view.branch.clone(),
            view.kind.clone(),
            count(view.flights),
            count(view.late),
            count(view.departures),
            view.gate.clone(),
        ]);
    }
    table(out, &rows)
}

/// The tree.
pub(super) fn branches(out: &mut dyn DemoOutput, branches: &[BranchLine]) -> Told {
    heading(out, "Branches", "numbers are indexes in the one order of the space")?;
    let mut rows = Vec::new();
    for line in branches {
        let status = match line.count {
            1 => line.status.clone(),
            count => format!("{count} forks, made to be measured, then discarded"),
        };
        rows.push(vec![format!("{}{}", line.tree, line.name), line.kind.clone(), status]);
    }
    for row in columns(&rows) {
        text(out, &format!("{INDENT}{row}"))?;
    }
    Ok(())
}

/// The newest operations.
pub(super) fn history(out: &mut dyn DemoOutput, history: &History) -> Told {
    let between = count(history.appends_between);
    let explanation = format!("newest first; {between} departures on main between, not listed");
    heading(out, "History", &explanation)?;
    let mut rows = vec![["index", "branch", "what", "who", "why"].map(str::to_owned).to_vec()];
    for entry in &history.entries {
        rows.push(vec![
            count(entry.index),
            entry.branch.clone(),
            cut(&entry.what, 52),
            entry.actor.clone(),
            entry.intent.clone(),
        ]);
    }
    table(out, &rows)
}

/// What it took, and what to do next.
pub(super) fn closing(out: &mut dyn DemoOutput, story: &Story, program: &str) -> Told {
    heading(out, "Measured", "a write counts when it is durable (fdatasync)")?;
    let (forks, arrivals) = (&story.forks, &story.arrivals);
    let rows: Vec<Vec<String>> = [
        (
            "fork",
            format!("p50 {}, slowest {}", duration(forks.ms_p50), duration(forks.ms_max)),
            format!("{} forks, while departures arrive", forks.count),
        ),
        (
            "append",
            format!("p50 {}, p99 {}", duration(arrivals.ms_p50), duration(arrivals.ms_p99)),
            format!(
                "{} on main in {:.1} s, all of them read back, in order",
                count(arrivals.acknowledged),
                arrivals.seconds
            ),
        ),
        ("diff", duration(story.retime.changes.ms), "of the first agent's fork".to_owned()),
        (
            "promote",
            duration(story.retime.verdict.ms),
            format!(
                "{} over {}, others at work",
                counted(story.retime.verdict.checks.len() as u64, "check"),
                counted(flights(story), "flight")
            ),
        ),
        (
            "reopen",
            duration(story.reopened.ms),
            format!(
                "same tables, streams, branches and hash chain ({}…)",
                story.reopened.chain.chars().take(8).collect::<String>(),
            ),
        ),
        (
            "in all",
            format!("{:.1} s", story.seconds),
            format!("{} MB on disk", count(story.directory_bytes.div_ceil(1_000_000))),
        ),
    ]
    .into_iter()
    .map(|(what, measured, about)| vec![what.to_owned(), measured, about])
    .collect();
    for row in columns(&rows) {
        text(out, &format!("{INDENT}{row}"))?;
    }
    heading(out, "Next", "the space stays; the fork `watch` is still live")?;
    let directory = &story.directory;
    for command in [
        format!("{program} diff --dir {directory} watch"),
        format!(
            "{program} sql --dir {directory} -b watch \
             \"SELECT dest, count(*) FROM flights GROUP BY dest\""
        ),
        format!("{program} dev --dir {directory}"),
    ] {
        say(out, &Line::of(format!("{INDENT}{command}")))?;
    }
    Ok(())
}

fn flights(story: &Story) -> u64 {
    let rows = story.load.tables.iter().find(|(table, _)| table == "flights");
    rows.map_or(0, |(_, rows)| *rows)
}

/// Rows below a dim head.
fn table(out: &mut dyn DemoOutput, rows: &[Vec<String>]) -> Told {
    for (place, row) in columns(rows).into_iter().enumerate() {
        let row = cut(&format!("{INDENT}{row}"), WIDTH);
        say(out, &if place == 0 { Line::new().dim(row) } else { Line::of(row) })?;
    }
    Ok(())
}

fn cell(value: &Json) -> String {
    match value {
        Json::Null => "NULL".to_owned(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value beside another: of a moment on the same day, the time alone.
fn time_only(reference: &Json, value: &Json) -> String {
    time_of(&cell(value), &cell(reference))
}

/// Without its day, if a moment is on the day with which `reference` begins.
fn time_of(moment: &str, reference: &str) -> String {
    let is_moment = moment.len() == 16 && moment.as_bytes().get(10) == Some(&b' ');
    match (moment.get(..10), reference.get(..10), moment.get(11..)) {
        (Some(day), Some(same), Some(time)) if is_moment && day == same => time.to_owned(),
        _ => moment.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_beside_one_of_the_same_day_is_a_time() {
        assert_eq!(time_of("2013-03-08 13:57", "2013-03-08 12:00"), "13:57");
        assert_eq!(time_of("2013-03-09 00:10", "2013-03-08 12:00"), "2013-03-09 00:10");
        assert_eq!(time_of("2013-03-08 13:57", "2013-03-08"), "13:57");
        assert_eq!(time_of("B22", "C4"), "B22");
        assert_eq!(time_of("ää ää ää ä1:ää", "2013-03-08 12:00"), "ää ää ää ä1:ää");
    }
}
