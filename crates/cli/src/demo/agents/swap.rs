//! The third agent: gives an aircraft to a second flight while it is under way, and is refused.

use anabranch_log::Kind;
use anabranch_node::ForkKind;
use anabranch_sql::Value;

use super::{FlightKey, Scene};
use crate::demo::actor::{Actor, plain, two_places};
use crate::demo::error::{DemoError, Doing, expect, expect_equal};
use crate::demo::story::Swap;

/// Two flights of one airline; the second leaves while the first is under way.
struct Pair {
    first: FlightKey,
    aircraft: String,
    second: FlightKey,
    aircraft_before: String,
}

const AIRCRAFT: &str = "SELECT coalesce(tailnum, 'none') FROM flights \
                        WHERE (day, carrier, flight, origin) = (?1, ?2, ?3, ?4)";

pub(super) fn run(scene: &Scene) -> Result<Swap, DemoError> {
    let agent = Actor::new(&scene.space, "swap", "swap two aircraft");
    let mut work = agent.fork(ForkKind::Live, None)?;
    let pair = find(&agent, scene)?;
    let sql = "UPDATE flights SET tailnum = ?5 \
               WHERE (day, carrier, flight, origin) = (?1, ?2, ?3, ?4)";
    let mut params = scene.key(&pair.second);
    params.push(Value::from(pair.aircraft.as_str()));
    let changed = agent.run("swap", sql, &params)?.changes;
    expect_equal("the number of flights with another aircraft", &changed, &1)?;
    let (to, from) = (pair.second.name(), pair.first.name());
    work.steps.push((
        format!(
            "UPDATE flights: {to} gets {}, the aircraft of {from}, and not the reverse",
            pair.aircraft
        ),
        changed,
    ));

    let (preview, refused) = agent.refused(Kind::CheckFailed)?;
    let found = two_places(&preview.checks);
    let named = found
        .iter()
        .any(|row| row.aircraft == pair.aircraft && (row.flight == to || row.other == to));
    expect(named, format!("the check finds {} on {to}", pair.aircraft), format!("{found:?}"))?;
    let discarded = agent.space.discard("swap", &agent.origin()).doing("discard `swap`")?;
    let on_main = agent.ask("main", AIRCRAFT, &scene.key(&pair.second))?;
    let on_main = on_main.first().and_then(|row| row.first()).map(plain).unwrap_or_default();
    expect_equal(&format!("the aircraft of {to} on main"), &on_main, &pair.aircraft_before)?;
    Ok(Swap { work, refused, found, discarded })
}

fn find(agent: &Actor, scene: &Scene) -> Result<Pair, DemoError> {
    // Flights at most half an hour late: nobody else changes those.
    let late =
        |flight: &str| format!("unixepoch({flight}.dep) - unixepoch({flight}.sched_dep) <= 1800");
    let sql = format!(
        "SELECT a.carrier, a.flight, a.origin, a.tailnum, b.flight, b.tailnum \
         FROM flights a JOIN flights b ON b.day = a.day AND b.carrier = a.carrier \
           AND b.origin = a.origin AND b.tailnum <> a.tailnum \
           AND unixepoch(b.dep) > unixepoch(a.dep) + 3600 \
           AND unixepoch(b.dep) < unixepoch(a.arr) - 3600 \
         WHERE a.day = ?1 AND b.arr IS NOT NULL AND {} AND {} \
         ORDER BY a.dep, a.carrier, a.flight, b.dep, b.flight LIMIT 1",
        late("a"),
        late("b")
    );
    let rows = agent.ask("swap", &sql, &[scene.day()])?;
    match rows.first().map(Vec::as_slice) {
        Some(
            [
                Value::Text(carrier),
                Value::Integer(first),
                Value::Text(origin),
                Value::Text(aircraft),
                Value::Integer(second),
                Value::Text(aircraft_before),
            ],
        ) => {
            let key = |flight: i64| FlightKey {
                carrier: carrier.clone(),
                flight,
                origin: origin.clone(),
            };
            Ok(Pair {
                first: key(*first),
                aircraft: aircraft.clone(),
                second: key(*second),
                aircraft_before: aircraft_before.clone(),
            })
        }
        other => Err(DemoError::Expectation {
            expected: format!("two flights of one airline overlap on {}", scene.day),
            found: format!("{other:?}"),
        }),
    }
}
