//! Time rules of the flight extract: from New York's and other airports' clocks to universal time.
//!
//! The extract has local times of day (`1255`) and delays in minutes. Everything that is compared
//! across airports has to be on one clock, so the demo stores universal time, to the minute.
//!
//! Rules, all exact for 2013 and none asking the machine's time zone:
//! - New York is five hours behind, four in summer: from 10 March 07:00 to 3 November 06:00.
//! - The clock of another airport is its standard offset, plus one hour in the same summer if the
//!   airport follows the US rule.
//! - A time of day that falls twice when the clocks change is the first of the two, and one that is
//!   left out is read as standard time; the extract schedules nothing in those hours.
//! - A flight takes less than a day: the scheduled arrival is the first moment after the scheduled
//!   departure at which the destination's clock shows the arrival time.

use std::fmt;

/// Minutes of one day.
const DAY: i64 = 24 * 60;
/// Days from 1970-01-01 to 2013-01-01.
const DAYS_TO_2013: i64 = 15_706;
/// Days before each month of 2013, which is no leap year.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
const DAYS_IN: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// First minute of summer time, universal time: 10 March, 02:00 in New York.
const SUMMER_START: Minute = Minute((DAYS_TO_2013 + 31 + 28 + 9) * DAY + 7 * 60);
/// First minute after it: 3 November, 02:00 summer time in New York.
const SUMMER_END: Minute = Minute((DAYS_TO_2013 + 304 + 2) * DAY + 6 * 60);

/// Minutes that New York's standard time is ahead of universal time.
pub(crate) const NEW_YORK_OFFSET: i64 = -5 * 60;

/// A day of 2013 on New York's calendar: 0 is 1 January.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(i64);

impl Day {
    /// Days of 2013.
    pub(crate) const COUNT: u32 = 365;

    /// The day with this number in its month; both from 1.
    pub(crate) fn new(month: u32, day: u32) -> Option<Day> {
        let month = usize::try_from(month.checked_sub(1)?).ok()?;
        let within = (1..=*DAYS_IN.get(month)?).contains(&i64::from(day));
        within.then(|| Day(DAYS_BEFORE[month] + i64::from(day) - 1))
    }

    /// The day with this number in the year, from 0.
    pub(crate) fn of_year(number: u32) -> Day {
        Day(i64::from(number))
    }

    /// Number in the year, from 0.
    pub(crate) fn number(self) -> i64 {
        self.0
    }

    /// The minute at which the day begins in New York.
    pub(crate) fn start(self) -> Minute {
        self.at(0)
    }

    /// The minute at which New York's clock shows this time of that day, in minutes.
    pub(crate) fn at(self, minutes: i64) -> Minute {
        let standard = Minute((DAYS_TO_2013 + self.0) * DAY + minutes - NEW_YORK_OFFSET);
        let summer = standard.plus(-60);
        if summer.is_summer() { summer } else { standard }
    }
}

impl fmt::Display for Day {
    /// `2013-03-08`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(DAYS_TO_2013 + self.0);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// A moment in universal time, to the minute: minutes since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minute(i64);

impl Minute {
    /// The moment so many minutes later, or earlier if negative.
    pub(crate) fn plus(self, minutes: i64) -> Minute {
        Minute(self.0 + minutes)
    }

    /// Whether the United States have summer time.
    pub(crate) fn is_summer(self) -> bool {
        (SUMMER_START..SUMMER_END).contains(&self)
    }

    /// The first moment after `self` at which a clock `offset` minutes ahead shows `time_of_day`.
    pub(crate) fn next_at(self, time_of_day: i64, offset: i64) -> Minute {
        let wait = (time_of_day - offset - self.0).rem_euclid(DAY);
        self.plus(if wait == 0 { DAY } else { wait })
    }

    /// As the stream writes it: `2013-03-08T13:57Z`.
    pub(crate) fn rfc3339(self) -> String {
        format!("{}T{}Z", &self.to_string()[..10], &self.to_string()[11..])
    }
}

impl fmt::Display for Minute {
    /// `2013-03-08 13:57`: what SQLite's date functions read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0.div_euclid(DAY));
        let minutes = self.0.rem_euclid(DAY);
        write!(f, "{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Minutes since midnight of a time written `517`, `1255` or `2400`.
pub(crate) fn time_of_day(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let minutes = number / 100 * 60 + number % 100;
    ((0..=2400).contains(&number) && number % 100 < 60).then_some(minutes)
}

/// Year, month and day of a day counted from 1970-01-01, on the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin on 1 March here, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(month: u32, day: u32, time: &str) -> String {
        let day = Day::new(month, day).expect("a day of 2013");
        day.at(time_of_day(time).expect("a time")).to_string()
    }

    #[test]
    fn new_york_is_five_hours_behind_and_four_in_summer() {
        assert_eq!(at(1, 1, "517"), "2013-01-01 10:17");
        assert_eq!(at(3, 10, "159"), "2013-03-10 06:59");
        assert_eq!(at(3, 10, "300"), "2013-03-10 07:00");
        assert_eq!(at(3, 10, "230"), "2013-03-10 07:30");
        assert_eq!(at(11, 3, "100"), "2013-11-03 05:00");
        assert_eq!(at(11, 3, "200"), "2013-11-03 07:00");
        assert_eq!(at(7, 4, "2400"), "2013-07-05 04:00");
        assert_eq!(at(12, 31, "2359"), "2014-01-01 04:59");
    }

    #[test]
    fn summer_begins_and_ends_at_the_minute() {
        assert_eq!(SUMMER_START.to_string(), "2013-03-10 07:00");
        assert_eq!(SUMMER_END.to_string(), "2013-11-03 06:00");
        assert!(SUMMER_START.is_summer() && !SUMMER_START.plus(-1).is_summer());
        assert!(SUMMER_END.plus(-1).is_summer() && !SUMMER_END.is_summer());
    }

    #[test]
    fn days_outside_the_year_are_none() {
        assert_eq!(Day::new(1, 1).map(Day::number), Some(0));
        assert_eq!(Day::new(12, 31).map(Day::number), Some(364));
        for (month, day) in [(0, 1), (13, 1), (2, 29), (4, 31), (1, 0)] {
            assert_eq!(Day::new(month, day), None, "{month}-{day}");
        }
        assert_eq!(Day::of_year(364).to_string(), "2013-12-31");
    }

    #[test]
    fn times_of_day_are_hours_and_minutes() {
        assert_eq!(time_of_day("0"), Some(0));
        assert_eq!(time_of_day("517"), Some(317));
        assert_eq!(time_of_day("2400"), Some(1440));
        for wrong in ["", "2401", "1260", "-5", "12:55", "NA"] {
            assert_eq!(time_of_day(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_arrival_is_the_first_such_moment_at_the_destination() {
        // New York 05:15 to Houston 08:19, six hours behind universal time.
        let left = Day::new(1, 1).expect("a day").at(5 * 60 + 15);
        assert_eq!(left.next_at(8 * 60 + 19, -360).to_string(), "2013-01-01 14:19");
        // An evening flight lands on the next day; Honolulu has no summer time.
        let left = Day::new(7, 1).expect("a day").at(21 * 60);
        assert_eq!(left.next_at(60, -600).to_string(), "2013-07-02 11:00");
        // The same moment again is a day later, never now.
        assert_eq!(left.next_at(21 * 60, -240), left.plus(DAY));
    }

    #[test]
    fn text_forms() {
        let moment = Day::new(3, 8).expect("a day").at(8 * 60 + 57);
        assert_eq!(moment.to_string(), "2013-03-08 13:57");
        assert_eq!(moment.rfc3339(), "2013-03-08T13:57Z");
    }
}
