//! Three agents at work at the same time, each on a fork of its own, and a person on main.
//!
//! What they do is chosen by asking the data: the worst day, flights of that day that were a
//! little late, two flights of one airline that overlap. They change different rows, except where
//! a clash is the point, so that their outcomes do not depend on who is faster.

mod clash;
mod retime;
mod swap;

use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};

use anabranch_node::Space;
use anabranch_sql::Value;

use super::actor::{Actor, plain};
use super::error::{DemoError, Doing, expect, expect_equal};
use super::load::DEPARTURES;
use super::story::{Clash, Retime, Swap};

pub(crate) use clash::MAIN_GATE;

/// Flights of one day, planned against flown: seconds late.
const LATE: &str = "(unixepoch(dep) - unixepoch(sched_dep))";
/// Flights that the second agent holds back.
const HELD: usize = 5;

/// A flight of the scene's day.
#[derive(Clone, Debug)]
pub(crate) struct FlightKey {
    pub(crate) carrier: String,
    pub(crate) flight: i64,
    pub(crate) origin: String,
}

impl FlightKey {
    /// `DL 120`
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.carrier, self.flight)
    }
}

/// What the agents work on, read from main before they begin.
pub(crate) struct Scene {
    pub(crate) space: Space,
    /// The day with the longest mean delay, of those whose departures are complete.
    pub(crate) day: String,
    pub(crate) mean_delay_minutes: f64,
    /// Flights of the day in the table.
    pub(crate) flights: u64,
    /// Of these, more than an hour late.
    pub(crate) late: u64,
    /// Of these, cancelled.
    pub(crate) cancelled: u64,
    /// Flights half an hour to an hour late, for the second agent.
    pub(crate) held: Vec<FlightKey>,
    /// Their planned departures, in the same order.
    pub(crate) planned: Vec<String>,
    /// An index of the past, and the length of the stream of departures there.
    pub(crate) past: (u64, u64),
}

/// Gate of the first held flight before anybody changes it.
pub(crate) const FIRST_GATE: &str = "B22";

impl Scene {
    /// Looks for the day and its flights, and gives one of them a gate.
    pub(crate) fn find(space: &Space, before: &str) -> Result<Scene, DemoError> {
        let you = Actor::new(space, "you", "look around");
        let (day, mean_delay_minutes) = worst_day(&you, before)?;
        let of_day = |condition: &str| {
            let sql = format!("SELECT count(*) FROM flights WHERE day = ?1{condition}");
            you.number("main", &sql, &[Value::from(day.as_str())])
        };
        let flights = of_day("")?;
        let late = of_day(&format!(" AND {LATE} > 3600"))?;
        let cancelled = of_day(" AND dep IS NULL")?;
        expect(late > 0 && cancelled > 0, "the day has late and cancelled flights", &day)?;
        let sql = format!(
            "SELECT carrier, flight, origin, sched_dep FROM flights \
             WHERE day = ?1 AND {LATE} BETWEEN 1801 AND 3600 \
             ORDER BY dep, carrier, flight LIMIT {HELD}"
        );
        let held = you.ask("main", &sql, &[Value::from(day.as_str())])?;
        let (held, planned): (Vec<FlightKey>, Vec<String>) =
            held.iter().filter_map(|row| flight_key(row)).unzip();
        expect_equal("the number of flights a little late", &held.len(), &HELD)?;
        let gates = Actor::new(space, "desk", "gate as planned");
        gates.set_gate("main", &held[0].name(), FIRST_GATE)?;
        let page = space.read("main", DEPARTURES, 0, 1).doing("read the departures")?;
        let past = (page.index, page.length);
        let space = space.clone();
        Ok(Scene { space, day, mean_delay_minutes, flights, late, cancelled, held, planned, past })
    }

    /// Flights of the day on a branch, and how many of them are more than an hour late.
    pub(crate) fn counts(&self, actor: &Actor, branch: &str) -> Result<(u64, u64), DemoError> {
        let sql = format!(
            "SELECT count(*), count(*) FILTER (WHERE {LATE} > 3600) FROM flights WHERE day = ?1"
        );
        let rows = actor.ask(branch, &sql, &[self.day()])?;
        match rows.first().map(Vec::as_slice) {
            Some([Value::Integer(flights), Value::Integer(late)]) => {
                Ok((flights.unsigned_abs(), late.unsigned_abs()))
            }
            other => Err(DemoError::Expectation {
                expected: "two counts come back".to_owned(),
                found: format!("{other:?}"),
            }),
        }
    }

    fn day(&self) -> Value {
        Value::from(self.day.as_str())
    }

    /// Parameters that name a flight: day, carrier, flight, origin.
    fn key(&self, flight: &FlightKey) -> Vec<Value> {
        vec![
            self.day(),
            Value::from(flight.carrier.as_str()),
            Value::Integer(flight.flight),
            Value::from(flight.origin.as_str()),
        ]
    }
}

fn worst_day(you: &Actor, before: &str) -> Result<(String, f64), DemoError> {
    let sql = format!(
        "SELECT day, avg({LATE}) / 60.0 AS delay FROM flights \
         WHERE day < ?1 AND dep IS NOT NULL GROUP BY day ORDER BY delay DESC, day LIMIT 1"
    );
    let rows = you.ask("main", &sql, &[Value::from(before)])?;
    match rows.first().map(Vec::as_slice) {
        Some([day, Value::Real(minutes)]) => Ok((plain(day), *minutes)),
        other => Err(DemoError::Expectation {
            expected: "some day had delays".to_owned(),
            found: format!("{other:?}"),
        }),
    }
}

fn flight_key(row: &[Value]) -> Option<(FlightKey, String)> {
    match row {
        [Value::Text(carrier), Value::Integer(flight), Value::Text(origin), planned] => {
            let (carrier, origin) = (carrier.clone(), origin.clone());
            Some((FlightKey { carrier, flight: *flight, origin }, plain(planned)))
        }
        _ => None,
    }
}

/// Runs the three agents and the desk at the same time.
pub(crate) fn run(scene: &Scene) -> Result<(Retime, Clash, Swap), DemoError> {
    let (edited, wait_edited) = mpsc::channel();
    let (moved, wait_moved) = mpsc::channel();
    std::thread::scope(|scope| {
        let retime = start(scope, "retime", move || retime::run(scene))?;
        let clash = start(scope, "clash", move || clash::run(scene, &edited, &wait_moved))?;
        let swap = start(scope, "swap", move || swap::run(scene))?;
        let desk = match wait_edited.recv() {
            // An agent that ended meanwhile has an error of its own to tell.
            Ok(()) => clash::desk(scene).map(|steps| drop(moved.send(steps))),
            Err(mpsc::RecvError) => Ok(()),
        };
        // If the desk failed, the agent must not wait for it.
        drop(moved);
        let retime = join(retime, "retime");
        let clash = join(clash, "clash");
        let swap = join(swap, "swap");
        desk?;
        Ok((retime?, clash?, swap?))
    })
}

type Running<'scope, T> = ScopedJoinHandle<'scope, Result<T, DemoError>>;

fn start<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    name: &str,
    work: impl FnOnce() -> Result<T, DemoError> + Send + 'scope,
) -> Result<Running<'scope, T>, DemoError> {
    let builder = std::thread::Builder::new().name(format!("demo-{name}"));
    builder.spawn_scoped(scope, work).map_err(DemoError::Thread)
}

fn join<T>(running: Running<'_, T>, name: &'static str) -> Result<T, DemoError> {
    running.join().map_err(|_| DemoError::Panicked(name))?
}
