//! `branches`: the tree.

use std::collections::BTreeMap;

use anabranch_client::{BranchInfo, BranchStatus, ForkKind};

use super::Context;
use crate::args::Branches;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::printer::Style;

pub(crate) fn run(context: &Context, args: &Branches) -> Outcome {
    let branches = context.connect()?.branches()?;
    let printer = &context.printer;
    if printer.is_json() {
        branches
            .iter()
            .filter(|info| args.all || is_open(info))
            .try_for_each(|info| printer.json(info))?;
        return Ok(Exit::Done);
    }
    let hidden = branches.iter().filter(|info| !is_open(info)).count();
    for (tree, info) in draw(&branches, args.all) {
        let text = format!("{tree}{}", describe(&info));
        let style = match info.status {
            BranchStatus::Open => None,
            BranchStatus::Closing => Some(Style::Bad),
            _ => Some(Style::Dim),
        };
        match style {
            None => printer.line(&text)?,
            Some(style) => printer.line(&printer.paint(style, &text))?,
        }
    }
    if hidden > 0 && !args.all {
        printer.note(&format!("{hidden} closed; --all shows them"));
    }
    Ok(Exit::Done)
}

fn is_open(info: &BranchInfo) -> bool {
    matches!(info.status, BranchStatus::Open | BranchStatus::Closing)
}

/// The branches in the order of the drawing, each with what stands before its name. A closed
/// branch stays as long as an open one hangs below it.
fn draw(branches: &[BranchInfo], all: bool) -> Vec<(String, BranchInfo)> {
    // By position: a name may have been used again, and a child hangs below the life of its parent
    // that was there when it was made.
    let mut newest: BTreeMap<&str, usize> = BTreeMap::new();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); branches.len()];
    let mut roots = Vec::new();
    for (position, info) in branches.iter().enumerate() {
        match info.parent.as_deref().and_then(|parent| newest.get(parent)) {
            Some(parent) => children[*parent].push(position),
            None => roots.push(position),
        }
        newest.insert(&info.name, position);
    }
    let mut shown: Vec<bool> = branches.iter().map(|info| all || is_open(info)).collect();
    for position in (0..branches.len()).rev() {
        shown[position] |= children[position].iter().any(|child| shown[*child]);
    }
    let mut lines = Vec::new();
    let mut stack: Vec<(usize, String, String)> =
        roots.into_iter().rev().map(|root| (root, String::new(), String::new())).collect();
    while let Some((position, before, below)) = stack.pop() {
        lines.push((before, branches[position].clone()));
        let visible: Vec<usize> =
            children[position].iter().copied().filter(|child| shown[*child]).collect();
        for (number, child) in visible.iter().enumerate().rev() {
            let last = number + 1 == visible.len();
            let (corner, line) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            stack.push((*child, format!("{below}{corner}"), format!("{below}{line}")));
        }
    }
    lines
}

fn describe(info: &BranchInfo) -> String {
    let mut parts = vec![info.name.clone()];
    match info.kind {
        Some(ForkKind::Live) => parts.push("live".to_owned()),
        Some(ForkKind::Frozen) => parts.push(format!("frozen at {}", info.forked_at)),
        None => {}
    }
    match &info.status {
        BranchStatus::Open => {}
        BranchStatus::Closing => parts.push("closing".to_owned()),
        BranchStatus::Promoted { into, at } => parts.push(format!("promoted into {into} at {at}")),
        BranchStatus::Discarded { at } => parts.push(format!("discarded at {at}")),
        BranchStatus::Expired { at } => parts.push(format!("expired at {at}")),
    }
    if info.own_records + info.own_commits > 0 && info.parent.is_some() {
        let plural =
            |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let (records, commits) = (info.own_records, info.own_commits);
        parts.push(format!("{}, {}", plural(records, "record"), plural(commits, "commit")));
    }
    if !info.owner.is_empty() {
        parts.push(format!("owner {}", info.owner));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(name: &str, parent: Option<&str>, open: bool) -> BranchInfo {
        BranchInfo {
            name: name.into(),
            id: 0,
            parent: parent.map(str::to_owned),
            kind: parent.map(|_| ForkKind::Live),
            status: if open { BranchStatus::Open } else { BranchStatus::Discarded { at: 9 } },
            owner: String::new(),
            ttl_ms: None,
            created: 0,
            forked_at: 0,
            table_version: 0,
            depth: 0,
            own_records: 0,
            own_commits: 0,
        }
    }

    fn names(branches: &[BranchInfo], all: bool) -> Vec<String> {
        draw(branches, all).into_iter().map(|(tree, info)| format!("{tree}{}", info.name)).collect()
    }

    #[test]
    fn tree_keeps_closed_branches_that_carry_open_ones() {
        let branches = [
            branch("main", None, true),
            branch("a", Some("main"), false),
            branch("b", Some("main"), true),
            branch("c", Some("a"), true),
            branch("d", Some("c"), false),
            branch("e", Some("b"), true),
        ];
        assert_eq!(names(&branches, false), ["main", "├─ a", "│  └─ c", "└─ b", "   └─ e"]);
        assert_eq!(
            names(&branches, true),
            ["main", "├─ a", "│  └─ c", "│     └─ d", "└─ b", "   └─ e"]
        );
    }

    #[test]
    fn child_hangs_below_the_life_of_the_name_that_it_was_made_from() {
        let branches = [
            branch("main", None, true),
            branch("a", Some("main"), false),
            branch("old", Some("a"), true),
            branch("a", Some("main"), true),
            branch("new", Some("a"), true),
        ];
        assert_eq!(names(&branches, false), ["main", "├─ a", "│  └─ old", "└─ a", "   └─ new"]);
    }
}
