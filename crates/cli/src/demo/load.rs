//! The first chapter: the extract, on a fork, past the checks, to main.
//!
//! Main gets empty tables and checks first, so that the load itself has to pass them. The source
//! has faults that the checks find: the first promotion is refused, the fork is cleaned by a rule
//! that is written down in the data, and then everything lands at once.

use std::time::{Duration, Instant};

use anabranch_log::Kind;
use anabranch_node::{ForkKind, Policy, Space, SqlOptions, Transaction};
use anabranch_sql::Value;

use super::actor::{Actor, Attempt, two_places};
use super::data::{FLIGHT_ROW, Flights, SOURCES, insert};
use super::error::{DemoError, Doing, expect, expect_equal};
use super::output::DemoOutput;
use super::render;
use super::schema::{CHECKS, FORGET_AIRCRAFT, INDEXES, TABLES, set_aside};
use super::story::Load;
use super::time::Day;

/// Stream of departures.
pub(crate) const DEPARTURES: &str = "departures";
/// Rows inserted at once, and inserted by one transaction, while loading.
const ROWS_AT_ONCE: usize = 5_000;
const ROWS_A_COMMIT: u64 = 50_000;
/// Records of one append while loading.
const RECORDS_AN_APPEND: usize = 2_000;
/// Rows of the check that the story shows.
const EXAMPLES: usize = 3;
/// Flights of the extract, for the progress bar only.
const FLIGHTS_OF_THE_YEAR: u64 = 336_776;

/// The chapter, and the records that have still to arrive.
pub(crate) struct Loaded {
    pub(crate) load: Load,
    pub(crate) later: Vec<Vec<u8>>,
    /// First day whose departures arrive later.
    pub(crate) later_from: Day,
}

/// Days at the end whose departures are not loaded: they arrive while the demo runs.
pub(crate) fn days_later(days: u32) -> u32 {
    days.div_ceil(60)
}

/// Loads the first `days` days of the year.
pub(crate) fn load(
    space: &Space,
    days: u32,
    out: &mut dyn DemoOutput,
) -> Result<Loaded, DemoError> {
    render::load(out)?;
    let started = Instant::now();
    let owner = Actor::new(space, "you", "set up the space");
    prepare(&owner)?;
    let loader = Actor::new(space, "load", "load the flights of 2013");
    loader.fork(ForkKind::Frozen, None)?;
    let later_from = Day::of_year(days - days_later(days));
    let mut filled = small_tables(&loader)?;
    let (flights, departures, later) = flights(&loader, days, later_from, out)?;
    filled.push(("flights", flights));
    let filling = started.elapsed();
    render::filled(out, &filled, departures)?;

    let found = loader.number("load", &format!("SELECT count(*) FROM ({})", CHECKS[0].1), &[])?;
    let (first, first_verdict) = loader.promote(Policy::Fail)?;
    let (examples, set_aside, landed) = match first {
        Attempt::Landed(_) => {
            expect_equal("the number of aircraft in two places", &found, &0)?;
            (Vec::new(), 0, first_verdict.clone())
        }
        Attempt::Refused(kind, preview) => {
            expect_equal("the kind of refusal", &kind, &Kind::CheckFailed)?;
            expect(found > 0, "the check refuses only what it finds", found)?;
            let mut examples = two_places(&preview.checks);
            expect(!examples.is_empty(), "the refusal shows what the check found", "nothing")?;
            examples.truncate(EXAMPLES);
            let set_aside = clean(&loader)?;
            (examples, set_aside, loader.land(Policy::Fail)?.1)
        }
    };
    filled.push(("set_aside", set_aside));
    let tables = verified_tables(&owner, &filled)?;
    let on_main = owner.length("main", DEPARTURES)?;
    expect_equal("the number of departures on main", &on_main, &departures)?;
    // So much at once is worth one: the journal of the load is not needed any more.
    space.checkpoint(&owner.origin()).doing("take a checkpoint")?;
    let rows = tables.iter().map(|(_, rows)| rows).sum();
    let load = Load {
        rows,
        tables,
        departures,
        later_from: later_from.to_string(),
        first: first_verdict,
        found,
        examples,
        set_aside,
        landed,
        fill_seconds: filling.as_secs_f64(),
        fill_per_second: per_second(rows + departures, filling),
        seconds: started.elapsed().as_secs_f64(),
    };
    render::loaded(out, &load)?;
    Ok(Loaded { load, later, later_from })
}

/// Gives main its empty tables and its checks.
fn prepare(owner: &Actor) -> Result<(), DemoError> {
    owner.run("main", TABLES, &[])?;
    for (name, sql) in CHECKS {
        let added = owner.space.add_check("main", name, sql, &owner.origin());
        added.doing(format!("add the check `{name}`"))?;
    }
    Ok(())
}

/// The four tables that are taken as they are; in one transaction.
fn small_tables(loader: &Actor) -> Result<Vec<(&'static str, u64)>, DemoError> {
    let mut filled = Vec::new();
    let options = SqlOptions::default();
    let begun = loader.space.begin("load", &options, &loader.origin());
    let mut transaction = begun.doing("begin to load")?;
    for source in &SOURCES {
        let rows = source.rows()?;
        let changed = transaction.run_many(&source.insert(), &rows);
        let changed = changed.doing(format!("load {}", source.table))?;
        expect_equal("the number of rows loaded", &changed, &(rows.len() as u64))?;
        filled.push((source.table, changed));
    }
    transaction.commit().doing("commit the small tables")?;
    Ok(filled)
}

/// The flights, as rows and as records; returns the number of each and the records left over.
fn flights(
    loader: &Actor,
    days: u32,
    later_from: Day,
    out: &mut dyn DemoOutput,
) -> Result<(u64, u64, Vec<Vec<u8>>), DemoError> {
    let total = FLIGHTS_OF_THE_YEAR * u64::from(days) / u64::from(Day::COUNT);
    let until = later_from.start();
    let mut table = FlightTable { loader, transaction: None, rows: Vec::new(), done: 0 };
    let (mut records, mut later) = (Vec::new(), Vec::new());
    let mut departures = 0;
    for flight in Flights::open(days)? {
        let flight = flight?;
        if flight.moment() < until {
            records.push(flight.record());
        } else {
            later.push(flight.record());
        }
        if records.len() == RECORDS_AN_APPEND {
            departures += append(loader, std::mem::take(&mut records))?;
            out.progress("flights and departures", table.done.min(total - 1), total);
        }
        table.push(flight.row())?;
    }
    departures += append(loader, records)?;
    let flights = table.finish()?;
    // After the rows: an index is made faster from sorted rows than row by row.
    loader.run("load", INDEXES, &[])?;
    out.progress("flights and departures", total, total);
    Ok((flights, departures, later))
}

fn append(loader: &Actor, records: Vec<Vec<u8>>) -> Result<u64, DemoError> {
    let count = records.len() as u64;
    if count > 0 {
        let appended = loader.space.append("load", DEPARTURES, records, &loader.origin());
        appended.doing("append departures to the fork")?;
    }
    Ok(count)
}

/// The table of flights on the fork while it is filled.
struct FlightTable<'a> {
    loader: &'a Actor,
    transaction: Option<Transaction>,
    /// Not inserted yet.
    rows: Vec<Vec<Value>>,
    /// Rows inserted.
    done: u64,
}

impl FlightTable<'_> {
    fn push(&mut self, row: Vec<Value>) -> Result<(), DemoError> {
        self.rows.push(row);
        if self.rows.len() < ROWS_AT_ONCE {
            return Ok(());
        }
        self.insert()?;
        if self.done.is_multiple_of(ROWS_A_COMMIT) { self.commit() } else { Ok(()) }
    }

    fn insert(&mut self) -> Result<(), DemoError> {
        let transaction = match &mut self.transaction {
            Some(transaction) => transaction,
            none => {
                let options = SqlOptions::default();
                let begun = self.loader.space.begin("load", &options, &self.loader.origin());
                none.insert(begun.doing("begin to load flights")?)
            }
        };
        let changed = transaction.run_many(&insert("flights", &FLIGHT_ROW), &self.rows);
        let changed = changed.doing("load flights")?;
        expect_equal("the number of flights loaded", &changed, &(self.rows.len() as u64))?;
        self.done += changed;
        self.rows.clear();
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DemoError> {
        if let Some(transaction) = self.transaction.take() {
            transaction.commit().doing("commit flights")?;
        }
        Ok(())
    }

    /// Inserts and commits what is left; returns the number of rows.
    fn finish(mut self) -> Result<u64, DemoError> {
        self.insert()?;
        self.commit()?;
        Ok(self.done)
    }
}

/// Takes the aircraft off every flight that left while it was under way; returns how many.
fn clean(loader: &Actor) -> Result<u64, DemoError> {
    let moved = loader.run("load", &set_aside(), &[])?.changes;
    let cleaned = loader.run("load", FORGET_AIRCRAFT, &[])?.changes;
    expect_equal("the number of flights without their aircraft", &cleaned, &moved)?;
    Ok(moved)
}

/// Tables of main with their rows: all that was loaded, and nothing else.
fn verified_tables(
    owner: &Actor,
    filled: &[(&'static str, u64)],
) -> Result<Vec<(String, u64)>, DemoError> {
    let tables = owner.space.tables("main").doing("list the tables of main")?;
    let mut listed = Vec::new();
    for (name, rows) in filled {
        let found = tables.iter().find(|table| table.table == *name).map(|table| table.rows);
        expect_equal(&format!("the number of rows of {name} on main"), &found, &Some(*rows))?;
        listed.push(((*name).to_owned(), *rows));
    }
    expect_equal("the number of tables on main", &tables.len(), &filled.len())?;
    Ok(listed)
}

fn per_second(count: u64, time: Duration) -> u64 {
    let nanos = time.as_nanos().max(1);
    u64::try_from(u128::from(count) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_days_are_left_to_arrive_and_some_are_loaded() {
        assert_eq!(per_second(336_776, Duration::from_millis(1500)), 224_517);
        assert_eq!([1, 2, 3, 60, 61, 365].map(days_later), [1, 1, 1, 1, 2, 7]);
    }
}
