//! Somebody who works on the space: a name, a reason, and the calls that the demo needs.
//!
//! Each call is timed where the story tells the time, and an unexpected refusal names the step.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anabranch_log::Kind;
use anabranch_node::{
    Against, ChangeKind, CheckResult, ForkKind, ForkRequest, Origin, Policy, Preview,
    PromoteOptions, Promoted, Space, SqlOptions, SqlResult, TableDiff,
};
use anabranch_sql::Value;
use serde_json::Value as Json;

use super::error::{DemoError, Doing, expect};
use super::schema::TWO_PLACES;
use super::story::{Changes, RowChange, TableChanges, TwoPlaces, Verdict, Work};

/// Rows of each kind that a story shows of a diff.
const ROWS_SHOWN: usize = 2;
/// Rows asked of a diff: deletions come first, and some of the others should be among them.
const ROWS_ASKED: usize = 2_000;

/// Somebody who works on the space.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) space: Space,
    name: &'static str,
    intent: String,
}

/// An attempt to promote, whatever came of it.
pub(crate) enum Attempt {
    Landed(Promoted),
    Refused(Kind, Box<Preview>),
}

impl Actor {
    pub(crate) fn new(space: &Space, name: &'static str, intent: impl Into<String>) -> Actor {
        Actor { space: space.clone(), name, intent: intent.into() }
    }

    pub(crate) fn origin(&self) -> Origin {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Origin { time_ms, ..Origin::actor(self.name).because(self.intent.clone()) }
    }

    /// Forks main, and begins the record of this actor's work.
    pub(crate) fn fork(&self, kind: ForkKind, at: Option<u64>) -> Result<Work, DemoError> {
        let started = Instant::now();
        self.fork_as(self.name, kind, at)?;
        Ok(Work {
            agent: self.name.to_owned(),
            intent: self.intent.clone(),
            kind: match kind {
                ForkKind::Live => "live",
                ForkKind::Frozen => "frozen",
            },
            fork_ms: ms(started.elapsed()),
            steps: Vec::new(),
        })
    }

    /// Forks main under a name.
    pub(crate) fn fork_as(
        &self,
        name: &str,
        kind: ForkKind,
        at: Option<u64>,
    ) -> Result<(), DemoError> {
        let request = ForkRequest {
            parent: "main".to_owned(),
            name: name.to_owned(),
            kind,
            at,
            owner: self.name.to_owned(),
            ttl_ms: None,
        };
        self.space.fork(&request, &self.origin()).doing(format!("fork main as `{name}`"))?;
        Ok(())
    }

    /// Runs statements on a branch.
    pub(crate) fn run(
        &self,
        branch: &str,
        sql: &str,
        params: &[Value],
    ) -> Result<SqlResult, DemoError> {
        let options = SqlOptions::default();
        let result = self.space.sql(branch, sql, params, &options, &self.origin());
        result.doing(format!("run SQL on `{branch}`: {sql}"))
    }

    /// Asks a branch.
    pub(crate) fn ask(
        &self,
        branch: &str,
        sql: &str,
        params: &[Value],
    ) -> Result<Vec<Vec<Value>>, DemoError> {
        let options = SqlOptions { read_only: true, ..SqlOptions::default() };
        let result = self.space.sql(branch, sql, params, &options, &self.origin());
        let result = result.doing(format!("ask `{branch}`: {sql}"))?;
        expect(!result.truncated, "an answer is complete", sql)?;
        expect(result.behind.is_none(), format!("`{branch}` fits its parent"), sql)?;
        Ok(result.rows)
    }

    /// Asks a branch for one number.
    pub(crate) fn number(
        &self,
        branch: &str,
        sql: &str,
        params: &[Value],
    ) -> Result<u64, DemoError> {
        let rows = self.ask(branch, sql, params)?;
        match rows.first().and_then(|row| row.first()) {
            Some(Value::Integer(number)) if *number >= 0 => Ok(number.unsigned_abs()),
            other => Err(DemoError::Expectation {
                expected: format!("`{sql}` returns a count"),
                found: format!("{other:?}"),
            }),
        }
    }

    /// Sets a key of the stream `gates`.
    pub(crate) fn set_gate(&self, branch: &str, key: &str, gate: &str) -> Result<(), DemoError> {
        let put = self.space.put(branch, "gates", key.as_bytes(), gate.as_bytes(), &self.origin());
        put.map(drop).doing(format!("put a key on `{branch}`"))
    }

    /// Reads a key of the stream `gates`.
    pub(crate) fn gate(&self, branch: &str, key: &str) -> Result<String, DemoError> {
        let read = self.space.get(branch, "gates", key.as_bytes());
        let found = read.doing(format!("get a key of `{branch}`"))?;
        let value = found.map(|found| String::from_utf8_lossy(&found.value).into_owned());
        Ok(value.unwrap_or_else(|| "none".to_owned()))
    }

    /// Length of a stream, as a branch sees it.
    pub(crate) fn length(&self, branch: &str, stream: &str) -> Result<u64, DemoError> {
        let page = self.space.read(branch, stream, 0, 1).doing(format!("read `{branch}`"))?;
        Ok(page.length)
    }

    /// What this actor's fork changed.
    pub(crate) fn changes(&self) -> Result<Changes, DemoError> {
        let started = Instant::now();
        let diff = self.space.diff(self.name, Against::Base, ROWS_ASKED);
        let diff = diff.doing(format!("see the diff of `{}`", self.name))?;
        let ms = ms(started.elapsed());
        let tables = diff.tables.iter().map(table_changes).collect();
        Ok(Changes { tables, streams: diff.streams, ms })
    }

    /// Tries to promote this actor's fork. A refusal by a check or a conflict is an outcome.
    pub(crate) fn promote(&self, policy: Policy) -> Result<(Attempt, Verdict), DemoError> {
        let options = PromoteOptions { policy, ..PromoteOptions::default() };
        let started = Instant::now();
        let outcome = self.space.promote(self.name, &options, &self.origin());
        let ms = ms(started.elapsed());
        match outcome {
            Ok(promoted) => {
                let verdict = Verdict {
                    landed: true,
                    index: Some(promoted.index),
                    code: None,
                    message: None,
                    checks: told(&promoted.checks),
                    ms,
                };
                Ok((Attempt::Landed(promoted), verdict))
            }
            Err(mut error) => match (error.kind, error.preview.take()) {
                (kind @ (Kind::CheckFailed | Kind::Conflict), Some(preview)) => {
                    let verdict = Verdict {
                        landed: false,
                        index: None,
                        code: Some(kind.code()),
                        message: Some(error.message),
                        checks: told(&preview.checks),
                        ms,
                    };
                    Ok((Attempt::Refused(kind, preview), verdict))
                }
                (_, preview) => Err(DemoError::Space {
                    doing: format!("promote `{}`", self.name),
                    source: anabranch_node::Error { preview, ..error },
                }),
            },
        }
    }

    /// Promotes this actor's fork; a refusal is a failed expectation.
    pub(crate) fn land(&self, policy: Policy) -> Result<(Promoted, Verdict), DemoError> {
        match self.promote(policy)? {
            (Attempt::Landed(promoted), verdict) => {
                let passed = promoted.checks.iter().all(|check| check.passed);
                let ran = !promoted.checks.is_empty();
                let names = format!("{:?}", verdict.checks);
                expect(ran && passed, "every check of main passes on what lands", names)?;
                Ok((promoted, verdict))
            }
            (Attempt::Refused(..), verdict) => Err(DemoError::Expectation {
                expected: format!("`{}` lands", self.name),
                found: verdict.message.unwrap_or_default(),
            }),
        }
    }

    /// Tries to promote this actor's fork, which must be refused with this kind.
    pub(crate) fn refused(&self, expected: Kind) -> Result<(Preview, Verdict), DemoError> {
        match self.promote(Policy::Fail)? {
            (Attempt::Refused(kind, preview), verdict) if kind == expected => {
                Ok((*preview, verdict))
            }
            (_, verdict) => Err(DemoError::Expectation {
                expected: format!("`{}` is refused with `{}`", self.name, expected.code()),
                found: format!("{verdict:?}"),
            }),
        }
    }
}

/// A duration in milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The value at a quantile of sorted times, in milliseconds; 0 if there are none.
pub(crate) fn quantile(sorted: &[Duration], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().map_or(0.0, ms)
}

/// A value as JSON; bytes become hexadecimal text.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => Json::from(*number),
        Value::Real(number) => Json::from(*number),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Blob(_) => Json::from(value.to_literal()),
    }
}

/// A value as people write it: text without quotes.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_literal(),
    }
}

fn told(checks: &[CheckResult]) -> Vec<(String, bool)> {
    checks.iter().map(|check| (check.name.clone(), check.passed)).collect()
}

fn table_changes(diff: &TableDiff) -> TableChanges {
    let mut rows = Vec::new();
    for kind in [ChangeKind::Delete, ChangeKind::Update, ChangeKind::Insert] {
        for row in diff.rows.iter().filter(|row| row.kind == kind).take(ROWS_SHOWN) {
            let side = |image: &Option<Vec<Value>>, place: usize| {
                image.as_ref().and_then(|image| image.get(place)).map_or(Json::Null, json)
            };
            let columns = diff.columns.iter().enumerate().map(|(place, column)| {
                (column.clone(), side(&row.old, place), side(&row.new, place))
            });
            rows.push(RowChange {
                kind: match kind {
                    ChangeKind::Insert => "insert",
                    ChangeKind::Update => "update",
                    ChangeKind::Delete => "delete",
                },
                key: row.key.iter().map(json).collect(),
                columns: columns.filter(|(_, old, new)| old != new).collect(),
            });
        }
    }
    TableChanges {
        table: diff.table.clone(),
        inserts: diff.inserts,
        updates: diff.updates,
        deletes: diff.deletes,
        rows,
    }
}

/// What the check `aircraft_in_two_places` found, and how many rows it has seen.
pub(crate) fn two_places(checks: &[CheckResult]) -> Vec<TwoPlaces> {
    let Some(check) = checks.iter().find(|check| check.name == TWO_PLACES) else {
        return Vec::new();
    };
    let text = |row: &[Value], column: &str| {
        let place = check.columns.iter().position(|name| name == column);
        place.and_then(|place| row.get(place)).map(plain).unwrap_or_default()
    };
    let told = |row: &Vec<Value>| TwoPlaces {
        aircraft: text(row, "tailnum"),
        flight: text(row, "flight"),
        route: text(row, "route"),
        left: text(row, "dep"),
        arrived: text(row, "arr"),
        other: text(row, "other"),
        other_route: text(row, "other_route"),
        other_left: text(row, "other_dep"),
    };
    check.rows.iter().map(told).collect()
}
