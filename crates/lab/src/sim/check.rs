//! Compares a space with its twin, completely: every branch, stream, key and row.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_node::{BranchStatus, Error, Space, SqlOptions, SqlResult};
use anabranch_sql::Value;

use super::model::{BranchNumber, Model, Row, View};
use super::operation::Mark;

/// A difference, in words; or an error where none may be.
pub(crate) type Difference = String;

fn failed(what: &str) -> impl FnOnce(Error) -> Difference + '_ {
    move |error| format!("{what} failed: {} ({error})", error.kind)
}

/// Compares everything.
pub(crate) fn space(space: &Space, model: &Model) -> Result<(), Difference> {
    branches(space, model)?;
    for branch in model.open() {
        self::branch(space, model, branch)?;
    }
    Ok(())
}

fn branches(space: &Space, model: &Model) -> Result<(), Difference> {
    let found = space.branches().map_err(failed("listing branches"))?;
    let mut open = BTreeMap::new();
    for branch in found {
        match branch.status {
            BranchStatus::Open => {
                // The count tells what no view shows yet: an own value equal to the parent's.
                open.insert(branch.name, branch.own_records);
            }
            BranchStatus::Closing => return Err(format!("`{}` is left closing", branch.name)),
            _ => {}
        }
    }
    let expected = model.open().into_iter().map(|branch| model.branch(branch));
    let expected: BTreeMap<_, _> =
        expected.map(|branch| (branch.name.clone(), branch.own_count())).collect();
    if open == expected {
        Ok(())
    } else {
        Err(format!("open branches with their own records are {open:?}, not {expected:?}"))
    }
}

/// Compares one open branch.
pub(crate) fn branch(space: &Space, model: &Model, branch: BranchNumber) -> Result<(), Difference> {
    let name = &model.branch(branch).name;
    let view = model.view(branch);
    let on_branch = |difference: Difference| format!("on `{name}`: {difference}");
    streams(space, name, &view).map_err(on_branch)?;
    keys(space, name, &view).map_err(on_branch)?;
    tables(space, name, &view).map_err(on_branch)
}

fn streams(space: &Space, name: &str, view: &View) -> Result<(), Difference> {
    let listed = space.streams(name).map_err(failed("listing streams"))?;
    let listed = listed.into_iter().filter(|stream| !stream.keyed && stream.length > 0);
    let listed: BTreeMap<_, _> = listed.map(|stream| (stream.stream, stream.length)).collect();
    let expected: BTreeMap<_, _> = view
        .streams
        .iter()
        .filter(|(_, records)| !records.is_empty())
        .map(|(stream, records)| (stream.clone(), records.len() as u64))
        .collect();
    if listed != expected {
        return Err(format!("stream lengths are {listed:?}, not {expected:?}"));
    }
    for (stream, expected) in &view.streams {
        let found = read(space, name, stream)?;
        let pairs = found.iter().zip(expected);
        if let Some(at) = pairs.into_iter().position(|(found, expected)| found != expected) {
            let (found, expected) = (text(&found[at]), text(&expected[at]));
            return Err(format!("record {at} of `{stream}` is `{found}`, not `{expected}`"));
        }
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            return Err(format!("`{stream}` has {found} records, not {expected}"));
        }
    }
    Ok(())
}

/// Reads a stream to its end, checking that offsets are dense and indexes ascend.
pub(crate) fn read(space: &Space, branch: &str, stream: &str) -> Result<Vec<Vec<u8>>, Difference> {
    let mut records = Vec::new();
    loop {
        let start = records.len() as u64;
        let page = space.read(branch, stream, start, 500).map_err(failed("reading"))?;
        for record in page.records {
            if record.offset != records.len() as u64 {
                let (found, expected) = (record.offset, records.len());
                return Err(format!("an offset of `{stream}` is {found}, not {expected}"));
            }
            records.push(record.value);
        }
        if records.len() as u64 >= page.length {
            return Ok(records);
        }
        if records.len() as u64 == start {
            return Err(format!("`{stream}` ends at {start} before its length {}", page.length));
        }
    }
}

fn keys(space: &Space, name: &str, view: &View) -> Result<(), Difference> {
    let none = BTreeMap::new();
    let listed = space.streams(name).map_err(failed("listing streams"))?;
    let listed = listed.into_iter().filter(|stream| stream.keyed).map(|stream| stream.stream);
    let streams: BTreeSet<String> = listed.chain(view.keys.keys().cloned()).collect();
    for stream in &streams {
        let expected = view.keys.get(stream).unwrap_or(&none);
        let found = space.scan(name, stream, b"", None, 10_000).map_err(failed("scanning"))?;
        let found: BTreeMap<_, _> = found.into_iter().map(|key| (key.key, key.value)).collect();
        if found == *expected {
            continue;
        }
        for key in found.keys().chain(expected.keys()) {
            if found.get(key) != expected.get(key) {
                let show = |value: Option<&Vec<u8>>| {
                    value.map_or("absent".to_owned(), |value| format!("`{}`", text(value)))
                };
                let (found, expected) = (show(found.get(key)), show(expected.get(key)));
                let key = text(key);
                return Err(format!("key `{key}` of `{stream}` is {found}, not {expected}"));
            }
        }
    }
    Ok(())
}

fn tables(space: &Space, name: &str, view: &View) -> Result<(), Difference> {
    let listed = space.tables(name).map_err(failed("listing tables"))?;
    let listed: BTreeSet<_> = listed.into_iter().map(|table| table.table).collect();
    let expected: BTreeSet<_> = view.tables.keys().cloned().collect();
    if listed != expected {
        return Err(format!("tables are {listed:?}, not {expected:?}"));
    }
    for (table, expected) in &view.tables {
        let sql = format!("SELECT id, text, number FROM {table} ORDER BY id");
        let options = SqlOptions { read_only: true, ..SqlOptions::default() };
        let result = space.sql(name, &sql, &[], &options, &anabranch_node::Origin::actor("sim"));
        let result = result.map_err(failed("selecting"))?;
        if let Some(behind) = &result.behind {
            return Err(format!("tables are behind: {behind}"));
        }
        let found = rows(&result)?;
        for id in found.keys().chain(expected.keys()) {
            let (found, expected) = (found.get(id), expected.get(id));
            if found != expected {
                return Err(format!("row {id} of `{table}` is {found:?}, not {expected:?}"));
            }
        }
    }
    Ok(())
}

fn rows(result: &SqlResult) -> Result<BTreeMap<i64, Row>, Difference> {
    let mut rows = BTreeMap::new();
    for row in &result.rows {
        let [Value::Integer(id), Value::Text(text), Value::Integer(number)] = row.as_slice() else {
            return Err(format!("a row of other types: {row:?}"));
        };
        rows.insert(*id, (text.clone(), *number));
    }
    Ok(rows)
}

/// The history is gapless, and holds the chain values seen before: the order never changed.
pub(crate) fn history(space: &Space, marks: &[Mark]) -> Result<(), Difference> {
    let entries = space.history(None, None, usize::MAX).map_err(failed("reading the history"))?;
    let mut next = space.status().index + 1;
    let mut chain = BTreeMap::new();
    for entry in &entries {
        let end = entry.index + entry.count;
        if end != next {
            return Err(format!("the history jumps from {end} to {next}"));
        }
        chain.insert(end - 1, entry.chain.as_str());
        next = entry.index;
    }
    if next != 1 {
        return Err(format!("the history begins at {next}"));
    }
    for mark in marks.iter().filter(|mark| mark.index > 0) {
        let found = chain.get(&mark.index).copied();
        if found != Some(mark.chain.as_str()) {
            let (index, expected) = (mark.index, &mark.chain);
            return Err(format!("the chain at {index} is {found:?}, was {expected}"));
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(40) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.into_owned(),
    }
}
