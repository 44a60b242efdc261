//! What is read back at the end: three views of one question, the tree, the history, and the same
//! space after closing and opening it.

use std::path::Path;
use std::time::Instant;

use anabranch_node::{BranchInfo, BranchStatus, ForkKind, HistoryEntry, Options, Space};
use anabranch_sql::Value;

use super::actor::{Actor, ms};
use super::agents::{FIRST_GATE, Scene};
use super::arrivals::PROBE;
use super::error::{DemoError, Doing, expect, expect_equal};
use super::load::DEPARTURES;
use super::output::count;
use super::story::{BranchLine, History, HistoryLine, Reopened, View, Views};

/// Gate that the live fork gives the flight for itself.
const OWN_GATE: &str = "A7";
/// Operations listed.
const ENTRIES: usize = 16;
/// Operations read at once while listing.
const READ: usize = 500;

/// A live fork that follows main while the agents work, with a row and a key of its own.
pub(crate) fn watch(space: &Space, scene: &Scene) -> Result<Actor, DemoError> {
    let watcher = Actor::new(space, "watch", "one more flight?");
    watcher.fork(ForkKind::Live, None)?;
    let sql = "INSERT INTO flights (day, carrier, flight, origin, dest, sched_dep, sched_arr, \
                 distance) \
               VALUES (?1, 'UA', 9001, 'EWR', 'BOS', ?1 || ' 23:00', ?1 || ' 23:59', 200)";
    let own = watcher.run("watch", sql, &[Value::from(scene.day.as_str())])?.changes;
    expect_equal("the number of rows of the live fork's own", &own, &1)?;
    watcher.set_gate("watch", &scene.held[0].name(), OWN_GATE)?;
    Ok(watcher)
}

/// Asks main, the live fork and a fork at an index of the past the same question.
pub(crate) fn views(watcher: &Actor, scene: &Scene, main_gate: &str) -> Result<Views, DemoError> {
    let historian = Actor::new(&watcher.space, "before", "see how it was");
    let (past, past_length) = scene.past;
    historian.fork(ForkKind::Frozen, Some(past))?;
    let main = view(&historian, scene, "main", "root")?;
    let watch = view(watcher, scene, "watch", "live, own row and key")?;
    let kind = format!("frozen at {}", count(past));
    let before = view(&historian, scene, "before", &kind)?;

    expect_equal("what main sees of the day", &main.late, &0)?;
    expect_equal("the gate on main", &main.gate.as_str(), &main_gate)?;
    expect_equal("flights that the live fork sees", &watch.flights, &(main.flights + 1))?;
    expect_equal("late flights that the live fork sees", &watch.late, &main.late)?;
    expect_equal("the gate on the live fork", &watch.gate.as_str(), &OWN_GATE)?;
    // Asked after main: departures went on arriving.
    let follows = watch.departures >= main.departures;
    expect(follows, "the live fork receives what arrives on main", watch.departures)?;
    expect_equal("flights that the past sees", &before.flights, &scene.flights)?;
    expect_equal("late flights that the past sees", &before.late, &scene.late)?;
    expect_equal("departures that the past sees", &before.departures, &past_length)?;
    expect_equal("the gate in the past", &before.gate.as_str(), &FIRST_GATE)?;
    let (day, key) = (scene.day.clone(), scene.held[0].name());
    Ok(Views { day, key, branches: vec![main, watch, before] })
}

fn view(asker: &Actor, scene: &Scene, branch: &str, kind: &str) -> Result<View, DemoError> {
    let (flights, late) = scene.counts(asker, branch)?;
    Ok(View {
        branch: branch.to_owned(),
        kind: kind.to_owned(),
        flights,
        late,
        departures: asker.length(branch, DEPARTURES)?,
        gate: asker.gate(branch, &scene.held[0].name())?,
    })
}

/// The tree of all branches, closed ones included.
pub(crate) fn branches(space: &Space) -> Result<Vec<BranchLine>, DemoError> {
    let branches = space.branches().doing("list the branches")?;
    let mut lines = Vec::new();
    let roots = branches.iter().filter(|branch| branch.parent.is_none());
    for root in roots {
        lines.push(branch_line(root, String::new()));
        children(&branches, root, "", &mut lines);
    }
    Ok(lines)
}

fn children(all: &[BranchInfo], parent: &BranchInfo, before: &str, lines: &mut Vec<BranchLine>) {
    let of_parent = all.iter().filter(|branch| branch.parent.as_deref() == Some(&parent.name));
    let (probes, named): (Vec<_>, Vec<_>) =
        of_parent.partition(|branch| branch.name.starts_with(PROBE));
    let mut items: Vec<(&BranchInfo, Option<BranchLine>)> =
        named.into_iter().map(|branch| (branch, None)).collect();
    if let [first, .., last] = &probes[..] {
        let group = BranchLine {
            name: format!("{} … {}", first.name, last.name),
            count: probes.len() as u64,
            ..branch_line(first, String::new())
        };
        items.push((first, Some(group)));
    }
    items.sort_by_key(|(branch, _)| branch.id);
    let count = items.len();
    for (place, (branch, group)) in items.into_iter().enumerate() {
        let last = place + 1 == count;
        let tree = format!("{before}{}", if last { "└─ " } else { "├─ " });
        if let Some(group) = group {
            lines.push(BranchLine { tree, ..group });
        } else {
            lines.push(branch_line(branch, tree));
            let below = format!("{before}{}", if last { "   " } else { "│  " });
            children(all, branch, &below, lines);
        }
    }
}

fn branch_line(branch: &BranchInfo, tree: String) -> BranchLine {
    let kind = match branch.kind {
        None => "root".to_owned(),
        Some(ForkKind::Live) => format!("live since {}", count(branch.forked_at)),
        Some(ForkKind::Frozen) => format!("frozen at {}", count(branch.forked_at)),
    };
    let status = match &branch.status {
        BranchStatus::Open if branch.kind.is_none() => "open".to_owned(),
        BranchStatus::Open => {
            let (records, commits) = (branch.own_records, branch.own_commits);
            format!("open: own records {}, own SQL commits {}", count(records), count(commits))
        }
        BranchStatus::Closing => "closing".to_owned(),
        BranchStatus::Promoted { into, at } => format!("promoted into {into} at {}", count(*at)),
        BranchStatus::Discarded { at } => format!("discarded at {}", count(*at)),
        BranchStatus::Expired { at } => format!("expired at {}", count(*at)),
    };
    BranchLine { name: branch.name.clone(), tree, kind, status, count: 1 }
}

/// The newest operations. Single appends of the arrivals are counted, and the first halves of
/// promotions and discards, with their undoing, are left out.
pub(crate) fn history(space: &Space) -> Result<History, DemoError> {
    let mut entries = Vec::new();
    let (mut appends_between, mut before) = (0, None);
    while entries.len() < ENTRIES {
        let read = space.history(None, before, READ).doing("read the history")?;
        let Some(oldest) = read.last() else { break };
        before = Some(oldest.index);
        for entry in read {
            if entry.kind == "append" && entry.branch == "main" {
                appends_between += 1;
            } else if !matches!(entry.kind.as_str(), "closing" | "reopen") {
                entries.push(line(entry));
            }
            if entries.len() == ENTRIES {
                break;
            }
        }
    }
    Ok(History { entries, appends_between })
}

fn line(entry: HistoryEntry) -> HistoryLine {
    let what = format!("{} {}", entry.kind, entry.detail.replace("record(s)", "records"));
    HistoryLine {
        index: entry.index,
        branch: entry.branch,
        what: what.trim_end().to_owned(),
        actor: entry.actor,
        intent: entry.intent,
    }
}

/// Closes the space, opens it again, and compares.
pub(crate) fn reopen(
    space: Space,
    directory: &Path,
    options: Options,
) -> Result<(Reopened, Space), DemoError> {
    let you = Actor::new(&space, "you", "compare");
    let told = |space: &Space, you: &Actor, index: u64| -> Result<_, DemoError> {
        let at = space.history(None, Some(index + 1), 1).doing("read the history")?;
        let chain = at.first().map(|entry| entry.chain.clone()).unwrap_or_default();
        let tables = space.tables("main").doing("list the tables of main")?;
        Ok((chain, tables, you.length("main", DEPARTURES)?, branches(space)?.len()))
    };
    let index = {
        let page = space.read("main", DEPARTURES, 0, 1).doing("read the departures")?;
        page.index
    };
    let before = told(&space, &you, index)?;
    drop(you);
    drop(space);
    let started = Instant::now();
    let space = Space::open(directory, options).doing("open the space again")?;
    let ms = ms(started.elapsed());
    let you = Actor::new(&space, "you", "compare");
    let after = told(&space, &you, index)?;
    expect_equal("the space, opened again,", &after, &before)?;
    Ok((Reopened { index, chain: after.0, ms }, space))
}
