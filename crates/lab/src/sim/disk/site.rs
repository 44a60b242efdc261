//! Names for the kinds of sync that the node makes, so that one kind at a time can be taken away.
//!
//! A kind is: what the node is doing, file or directory, the file's class (numbers replaced by
//! `*`) and what this process wrote there since the last sync. So the flush of the journal, the
//! creation of a segment, the clearing of a torn tail's identifiers and the sync of what a killed
//! process left in the cache are different kinds although all of them sync `journal/*.seg`. Kinds
//! are discovered by running, never listed by hand: a new sync in the store is a new kind.

use super::{Change, Content, NameChange, PendingName, parent};

/// What the node is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Opening the space: creation, recovery, repair, replay.
    #[default]
    Opening,
    /// Serving.
    Running,
}

impl Phase {
    fn verb(self) -> &'static str {
        match self {
            Phase::Opening => "opening",
            Phase::Running => "running",
        }
    }
}

/// The path with every number replaced by `*`.
fn class(path: &str) -> String {
    let mut class = String::new();
    for character in path.chars() {
        let character = if character.is_ascii_digit() { '*' } else { character };
        if character != '*' || !class.ends_with('*') {
            class.push(character);
        }
    }
    class
}

/// What a range of a journal segment holds (`docs/format.md`); other files have no areas.
fn area(path: &str, offset: usize, size: usize) -> &'static str {
    if !path.starts_with("journal/") || !path.ends_with(".seg") {
        return "bytes";
    }
    match offset {
        0..4096 => "superblock",
        _ if offset < size / 4 * 3 => "records",
        _ => "identifiers",
    }
}

pub(super) fn of_file(phase: Phase, path: &str, content: &Content) -> String {
    let size = content.current.len();
    let mut areas = Vec::new();
    for pending in content.pending.iter().filter(|pending| pending.own) {
        let area = match &pending.change {
            Change::Write { offset, .. } => area(path, *offset, size),
            Change::SetSize(_) => "size",
        };
        // What an interrupted creation left is cut first: the same call all the same.
        let area = if path.ends_with(".tmp") { "bytes" } else { area };
        if !areas.contains(&area) {
            areas.push(area);
        }
    }
    let what = if areas.is_empty() { "nothing new".to_owned() } else { areas.join(" and ") };
    format!("{}: file {}, {what}", phase.verb(), class(path))
}

pub(super) fn of_directory(phase: Phase, dir: &str, pending: &[PendingName]) -> String {
    let mut own = pending.iter().filter(|pending| pending.own);
    let last = own.rfind(|pending| parent(pending.change.target()) == dir);
    let what = match last.map(|pending| &pending.change) {
        None => "nothing new".to_owned(),
        Some(NameChange::Bind { name, .. }) => format!("after creating {}", class(name)),
        Some(NameChange::Rename { target, .. }) => format!("after renaming to {}", class(target)),
        Some(NameChange::Remove { name }) => format!("after removing {}", class(name)),
    };
    let dir = if dir.is_empty() { "." } else { dir };
    format!("{}: directory {dir}, {what}", phase.verb())
}

pub(super) fn of_new_directory(phase: Phase, dir: &str) -> String {
    format!("{}: new directory {dir}", phase.verb())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hide_numbers() {
        assert_eq!(class("journal/0000000012.seg.tmp"), "journal/*.seg.tmp");
        assert_eq!(class("checkpoint-7.a"), "checkpoint-*.a");
        assert_eq!(class("vote.b"), "vote.b");
    }
}
