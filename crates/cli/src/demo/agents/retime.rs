//! The first agent: makes the timetable of one day what was really flown, and lands.

use anabranch_node::{ForkKind, Policy};
use anabranch_sql::Value;

use super::{LATE, Scene};
use crate::demo::actor::{Actor, plain};
use crate::demo::error::{DemoError, Doing, expect, expect_equal};
use crate::demo::story::{Changes, Retime};

/// Stream of notices to passengers.
const NOTICES: &str = "notices";

pub(super) fn run(scene: &Scene) -> Result<Retime, DemoError> {
    let agent = Actor::new(&scene.space, "retime", "plan as flown");
    let mut work = agent.fork(ForkKind::Frozen, None)?;
    let retime = format!(
        "UPDATE flights SET sched_dep = dep, \
           sched_arr = strftime('%Y-%m-%d %H:%M', sched_arr, ({LATE} / 60) || ' minutes') \
         WHERE day = ?1 AND {LATE} > 3600"
    );
    let late = format!(
        "SELECT carrier || ' ' || flight, dep FROM flights \
         WHERE day = ?1 AND {LATE} > 3600 ORDER BY dep, carrier, flight"
    );
    let notices = agent.ask("retime", &late, &[scene.day()])?;
    let retimed = agent.run("retime", &retime, &[scene.day()])?.changes;
    work.steps
        .push(("UPDATE flights: planned departure = real one, if over 1 h late".into(), retimed));
    let sql = "DELETE FROM flights WHERE day = ?1 AND dep IS NULL";
    let deleted = agent.run("retime", sql, &[scene.day()])?.changes;
    work.steps.push(("DELETE FROM flights: those that were cancelled".into(), deleted));
    let sent = notify(&agent, &notices)?;
    work.steps.push((format!("append to stream {NOTICES}: one record per changed flight"), sent));
    expect_equal("the number of retimed flights", &retimed, &scene.late)?;
    expect_equal("the number of deleted flights", &deleted, &scene.cancelled)?;

    let changes = agent.changes()?;
    verify_diff(&changes, retimed, deleted, sent)?;
    let (promoted, verdict) = agent.land(Policy::Fail)?;
    expect_equal("what landed (rows)", &promoted.rows, &(0, retimed, deleted))?;
    expect_equal("what landed (records)", &promoted.records, &sent)?;
    let (flights, late) = scene.counts(&agent, "main")?;
    expect_equal("flights of the day on main", &flights, &(scene.flights - deleted))?;
    expect_equal("late flights of the day on main", &late, &0)?;
    expect_equal("the number of notices on main", &agent.length("main", NOTICES)?, &sent)?;
    Ok(Retime {
        work,
        day: scene.day.clone(),
        mean_delay_minutes: scene.mean_delay_minutes,
        changes,
        verdict,
    })
}

/// One record per flight whose time changes; returns how many.
fn notify(agent: &Actor, flights: &[Vec<Value>]) -> Result<u64, DemoError> {
    let mut records = Vec::with_capacity(flights.len());
    for flight in flights {
        let told: Vec<String> = flight.iter().map(plain).collect();
        let notice = serde_json::json!({ "flight": told.first(), "now_leaves": told.get(1) });
        records.push(notice.to_string().into_bytes());
    }
    let count = records.len() as u64;
    let appended = agent.space.append("retime", NOTICES, records, &agent.origin());
    appended.doing("append notices")?;
    Ok(count)
}

fn verify_diff(
    changes: &Changes,
    updates: u64,
    deletes: u64,
    records: u64,
) -> Result<(), DemoError> {
    let counted: Vec<_> = changes
        .tables
        .iter()
        .map(|table| (table.table.as_str(), table.inserts, table.updates, table.deletes))
        .collect();
    expect_equal("the diff's tables", &counted, &vec![("flights", 0, updates, deletes)])?;
    expect_equal("the diff's streams", &changes.streams, &vec![(NOTICES.to_owned(), records)])?;
    let deletions = changes.tables.iter().flat_map(|table| &table.rows);
    let shown = deletions.filter(|row| row.kind == "delete").count();
    expect(shown > 0, "the diff shows deletions", shown)
}
