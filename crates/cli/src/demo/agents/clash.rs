//! The second agent: changes what the desk changes on main meanwhile, and is shown both.

use std::sync::mpsc::{Receiver, Sender};

use anabranch_log::Kind;
use anabranch_node::{ForkKind, Policy, Preview};
use anabranch_sql::Value;
use serde_json::Value as Json;

use super::{FIRST_GATE, Scene};
use crate::demo::actor::{Actor, json, plain};
use crate::demo::error::{DemoError, expect_equal};
use crate::demo::story::{BothChanged, Clash};

/// Held flights that the desk changes, too.
const ON_MAIN: usize = 2;
/// Minutes by which each side moves a flight.
const ON_FORK_MINUTES: u32 = 20;
const ON_MAIN_MINUTES: u32 = 10;
/// Gates of the first held flight.
const FORK_GATE: &str = "B31";
pub(crate) const MAIN_GATE: &str = "C4";

/// Steps of the desk, for the story.
pub(super) type Steps = Vec<(String, u64)>;

/// The person on main: moves two of the held flights, and the gate of one.
pub(super) fn desk(scene: &Scene) -> Result<Steps, DemoError> {
    let desk = Actor::new(&scene.space, "desk", "runway 4L closed");
    let moved = hold(&desk, scene, "main", ON_MAIN, ON_MAIN_MINUTES)?;
    expect_equal("the number of flights moved on main", &moved, &(ON_MAIN as u64))?;
    desk.set_gate("main", &scene.held[0].name(), MAIN_GATE)?;
    Ok(vec![
        (format!("UPDATE flights: leave {ON_MAIN_MINUTES} minutes later"), moved),
        (format!("put gates/{} = {MAIN_GATE}", scene.held[0].name()), 1),
    ])
}

pub(super) fn run(
    scene: &Scene,
    edited: &Sender<()>,
    moved: &Receiver<Steps>,
) -> Result<Clash, DemoError> {
    let agent = Actor::new(&scene.space, "clash", "late connections");
    let key = scene.held[0].name();
    let mut work = agent.fork(ForkKind::Frozen, None)?;
    let held = hold(&agent, scene, "clash", scene.held.len(), ON_FORK_MINUTES)?;
    expect_equal("the number of flights held", &held, &(scene.held.len() as u64))?;
    agent.set_gate("clash", &key, FORK_GATE)?;
    work.steps.push((format!("UPDATE flights: leave {ON_FORK_MINUTES} minutes later"), held));
    work.steps.push((format!("put gates/{key} = {FORK_GATE}"), 1));
    // Now the desk moves; if it fails, it has an error of its own to tell.
    let desk_is_gone = edited.send(()).is_err();
    expect_equal("the desk is gone", &desk_is_gone, &false)?;
    let meanwhile = moved.recv().map_err(|_| DemoError::Panicked("desk"))?;

    let (preview, refused) = agent.refused(Kind::Conflict)?;
    let conflicts = both_changed(&preview);
    verify(scene, &conflicts)?;
    let (promoted, settled) = agent.land(Policy::Parent)?;
    let left_out = promoted.settled.len() + promoted.left_out.len();
    let rows_landed = promoted.rows.0 + promoted.rows.1 + promoted.rows.2;
    expect_equal("rows and keys left out", &left_out, &(ON_MAIN + 1))?;
    expect_equal("rows landed", &rows_landed, &((scene.held.len() - ON_MAIN) as u64))?;
    verify_main(&agent, scene)?;
    Ok(Clash {
        work,
        meanwhile,
        refused,
        conflicts,
        settled,
        rows_landed,
        left_out: left_out as u64,
    })
}

/// Moves the planned departure of the first `count` held flights; returns how many it moved.
fn hold(
    actor: &Actor,
    scene: &Scene,
    branch: &str,
    count: usize,
    minutes: u32,
) -> Result<u64, DemoError> {
    let marks = vec!["(?, ?, ?, ?)"; count].join(", ");
    let sql = format!(
        "UPDATE flights \
         SET sched_dep = strftime('%Y-%m-%d %H:%M', sched_dep, '+{minutes} minutes') \
         WHERE (day, carrier, flight, origin) IN (VALUES {marks})"
    );
    let params: Vec<Value> =
        scene.held.iter().take(count).flat_map(|flight| scene.key(flight)).collect();
    Ok(actor.run(branch, &sql, &params)?.changes)
}

/// Base, ours and theirs of every column and key in which the sides differ.
fn both_changed(preview: &Preview) -> Vec<BothChanged> {
    let mut found = Vec::new();
    for conflict in &preview.conflicts {
        let side = |image: &Option<Vec<Value>>, place: usize| {
            image.as_ref().and_then(|image| image.get(place)).map_or(Json::Null, json)
        };
        let key: Vec<String> = conflict.key.iter().map(plain).collect();
        for (place, column) in conflict.columns.iter().enumerate() {
            let (ours, theirs) = (side(&conflict.ours, place), side(&conflict.theirs, place));
            if ours != theirs {
                found.push(BothChanged {
                    place: conflict.table.clone(),
                    key: key.join(" "),
                    column: column.clone(),
                    base: side(&conflict.base, place),
                    ours,
                    theirs,
                });
            }
        }
    }
    let value = |bytes: &Option<Vec<u8>>| match bytes {
        Some(bytes) => Json::from(String::from_utf8_lossy(bytes).into_owned()),
        None => Json::Null,
    };
    found.extend(preview.key_conflicts.iter().map(|conflict| BothChanged {
        place: conflict.stream.clone(),
        key: String::from_utf8_lossy(&conflict.key).into_owned(),
        column: "value".to_owned(),
        base: value(&conflict.base),
        ours: value(&conflict.ours),
        theirs: value(&conflict.theirs),
    }));
    found
}

/// The refusal names the rows and the key that both changed, and nothing else.
fn verify(scene: &Scene, conflicts: &[BothChanged]) -> Result<(), DemoError> {
    let (keys, rows): (Vec<_>, Vec<_>) =
        conflicts.iter().partition(|conflict| conflict.place == "gates");
    let mut found: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    found.sort_unstable();
    let mut expected: Vec<String> = Vec::new();
    for flight in &scene.held[..ON_MAIN] {
        let key: Vec<String> = scene.key(flight).iter().map(plain).collect();
        expected.push(key.join(" "));
    }
    expected.sort_unstable();
    expect_equal(
        "the list of rows changed on both sides",
        &found,
        &expected.iter().map(String::as_str).collect(),
    )?;
    let columns = rows.iter().all(|row| row.column == "sched_dep");
    expect_equal("only the planned departure differs", &columns, &true)?;
    let keys: Vec<_> = keys.iter().map(|key| (&key.base, &key.ours, &key.theirs)).collect();
    let gates = [FIRST_GATE, FORK_GATE, MAIN_GATE].map(Json::from);
    expect_equal("the key changed on both sides", &keys, &vec![(&gates[0], &gates[1], &gates[2])])
}

/// Main has its own version where both changed something, and the fork's everywhere else.
fn verify_main(agent: &Actor, scene: &Scene) -> Result<(), DemoError> {
    expect_equal(
        "the gate on main",
        &agent.gate("main", &scene.held[0].name())?,
        &MAIN_GATE.to_owned(),
    )?;
    let moved = "SELECT (unixepoch(a.sched_dep) - unixepoch(?5)) / 60 FROM flights a \
                 WHERE (day, carrier, flight, origin) = (?1, ?2, ?3, ?4)";
    for (place, flight) in scene.held.iter().enumerate() {
        let mut params = scene.key(flight);
        params.push(Value::from(scene.planned[place].as_str()));
        let minutes = agent.number("main", moved, &params)?;
        let expected = if place < ON_MAIN { ON_MAIN_MINUTES } else { ON_FORK_MINUTES };
        let what = format!("minutes by which {} moved on main", flight.name());
        expect_equal(&what, &minutes, &u64::from(expected))?;
    }
    Ok(())
}
