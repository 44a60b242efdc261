//! `history`.

use std::time::{Duration, UNIX_EPOCH};

use anabranch_client::{HistoryEntry, HistoryQuery};

use super::Context;
use crate::args::History;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn run(context: &Context, args: &History) -> Outcome {
    let connection = context.connect()?;
    let branch = match &args.target {
        Some(target) => Some(connection.branch(target)?.to_owned()),
        None => None,
    };
    let entries = collect(&connection, branch, args.before, args.count)?;
    let printer = &context.printer;
    if printer.is_json() {
        entries.iter().try_for_each(|entry| printer.json(entry))?;
        return Ok(Exit::Done);
    }
    let row = |entry: &HistoryEntry| {
        let mut what = format!("{} {}", entry.kind, entry.detail);
        if !entry.intent.is_empty() {
            what = format!("{what} — {}", entry.intent);
        }
        let mut row = vec![
            entry.index.to_string(),
            moment(entry.time_ms),
            entry.branch.clone(),
            entry.actor.clone(),
            what.trim().to_owned(),
        ];
        if args.chain {
            row.push(entry.chain.clone());
        }
        row
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let mut header = vec!["index", "time (UTC)", "branch", "actor", "what"];
    if args.chain {
        header.push("chain");
    }
    printer.table(&header, &rows)?;
    Ok(Exit::Done)
}

/// Pages until there are enough.
fn collect(
    connection: &Connection,
    branch: Option<String>,
    before: Option<u64>,
    count: usize,
) -> Outcome<Vec<HistoryEntry>> {
    let mut entries: Vec<HistoryEntry> = Vec::new();
    let mut query = HistoryQuery { branch, before, limit: None };
    while entries.len() < count {
        query.limit = Some(count - entries.len());
        let page = connection.history(&query)?;
        let Some(last) = page.last() else { break };
        query.before = Some(last.index);
        entries.extend(page);
    }
    Ok(entries)
}

/// A wall clock as `2026-12-01 03:12:13`, UTC.
fn moment(time_ms: u64) -> String {
    if time_ms == 0 {
        return "-".to_owned();
    }
    let since = (UNIX_EPOCH + Duration::from_millis(time_ms))
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (days, second) = (since / 86_400, since % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The Gregorian date of a day counted from 1970-01-01, in eras of 400 years that begin in March,
/// so that the leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (time_ms, text) in [
            (0, "-"),
            (1, "1970-01-01 00:00:00"),
            (951_782_400_000, "2000-02-29 00:00:00"),
            (1_709_251_199_999, "2024-02-29 23:59:59"),
            (1_796_094_733_000, "2026-12-01 03:12:13"),
            (4_107_542_400_000, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(moment(time_ms), text);
        }
        // Never fails, whatever a client's clock says.
        assert!(moment(u64::MAX).len() > 10);
    }
}
