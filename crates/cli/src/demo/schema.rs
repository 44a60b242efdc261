//! Tables, index and checks of the demo, as SQL.
//!
//! Moments are text, universal time, to the minute (`2013-03-08 13:57`): they sort, and SQLite's
//! date functions read them.

/// Creates the empty tables.
pub(crate) const TABLES: &str = "\
CREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE airports (
  faa TEXT PRIMARY KEY, name TEXT NOT NULL, latitude REAL NOT NULL, longitude REAL NOT NULL,
  altitude_feet INTEGER NOT NULL, offset_hours INTEGER NOT NULL, summer_rule TEXT NOT NULL,
  time_zone TEXT
) WITHOUT ROWID;
CREATE TABLE planes (
  tailnum TEXT PRIMARY KEY, built INTEGER, type TEXT NOT NULL, manufacturer TEXT NOT NULL,
  model TEXT NOT NULL, engines INTEGER NOT NULL, seats INTEGER NOT NULL, speed_mph INTEGER,
  engine TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE weather (
  origin TEXT NOT NULL REFERENCES airports (faa), hour TEXT NOT NULL, temperature_f REAL,
  dew_point_f REAL, humidity_percent REAL, wind_degrees INTEGER, wind_mph REAL, gust_mph REAL,
  rain_inches REAL, pressure_millibar REAL, visibility_miles REAL, PRIMARY KEY (origin, hour)
) WITHOUT ROWID;
CREATE TABLE flights (
  day TEXT NOT NULL, carrier TEXT NOT NULL REFERENCES airlines (carrier), flight INTEGER NOT NULL,
  origin TEXT NOT NULL REFERENCES airports (faa), dest TEXT NOT NULL, tailnum TEXT,
  sched_dep TEXT NOT NULL, sched_arr TEXT NOT NULL, dep TEXT, arr TEXT, air_minutes INTEGER,
  distance INTEGER NOT NULL, PRIMARY KEY (day, carrier, flight, origin)
) WITHOUT ROWID;
CREATE TABLE set_aside (
  day TEXT NOT NULL, carrier TEXT NOT NULL, flight INTEGER NOT NULL, origin TEXT NOT NULL,
  tailnum TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (day, carrier, flight, origin)
) WITHOUT ROWID;";

/// What the checks search by. The first has every column that its check shows, and the partial
/// ones hold just the rows that theirs would find: none, on good tables.
pub(crate) const INDEXES: &str = "\
CREATE INDEX flights_by_aircraft ON flights (tailnum, dep, arr, dest);
CREATE INDEX flights_landed_early ON flights (day) WHERE arr <= dep OR sched_arr <= sched_dep;
CREATE INDEX flights_never_left ON flights (day) WHERE dep IS NULL AND arr IS NOT NULL;";

/// The check this demo is about.
pub(crate) const TWO_PLACES: &str = "aircraft_in_two_places";

/// Checks of main: each query must return no rows on what would land.
///
/// An aircraft is under way from leaving the gate until it arrives; both moments are known of
/// every flight that was neither cancelled nor diverted. All flights of the extract leave New
/// York, so one that leaves while its aircraft is still under way was not flown by that aircraft.
/// (`CROSS JOIN` keeps SQLite to the written order: for each flight, those during it.)
pub(crate) const CHECKS: [(&str, &str); 3] = [
    (
        TWO_PLACES,
        "SELECT b.tailnum, a.day, a.carrier || ' ' || a.flight AS flight, \
           a.origin || '-' || a.dest AS route, a.dep, a.arr, \
           b.carrier || ' ' || b.flight AS other, b.origin || '-' || b.dest AS other_route, \
           b.dep AS other_dep, b.day AS other_day, b.carrier AS other_carrier, \
           b.flight AS other_flight, b.origin AS other_origin \
         FROM flights a CROSS JOIN flights b \
           ON b.tailnum = a.tailnum AND b.dep >= a.dep AND b.dep < a.arr \
         WHERE b.arr IS NOT NULL \
           AND (b.dep, b.carrier, b.flight, b.origin) > (a.dep, a.carrier, a.flight, a.origin)",
    ),
    (
        "lands_before_it_leaves",
        "SELECT day, carrier, flight, origin, dep, arr FROM flights \
         WHERE arr <= dep OR sched_arr <= sched_dep",
    ),
    (
        "lands_without_leaving",
        "SELECT day, carrier, flight, origin FROM flights WHERE dep IS NULL AND arr IS NOT NULL",
    ),
];

/// Flights that are under way at the same time as an earlier one of the same aircraft.
pub(crate) fn set_aside() -> String {
    format!(
        "INSERT OR IGNORE INTO set_aside \
         SELECT other_day, other_carrier, other_flight, other_origin, tailnum, \
           'left ' || other_dep || ' while under way as ' || flight || ' until ' || arr \
         FROM ({})",
        CHECKS[0].1
    )
}

/// Takes the aircraft off the flights that were set aside.
pub(crate) const FORGET_AIRCRAFT: &str = "\
UPDATE flights SET tailnum = NULL WHERE (day, carrier, flight, origin) IN \
(SELECT day, carrier, flight, origin FROM set_aside)";
