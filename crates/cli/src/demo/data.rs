//! The flight extract of `data/`, packed into this program and read row by row.
//!
//! The form is described in `data/README.md`: CSV with one header line, an empty field is NULL.
//! The four small tables are taken as they are, column by column. Of the flights, times become
//! universal time (see [`super::time`]), and what can be computed from them is left out.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_sql::Value;
use serde::Serialize;

use super::time::{Day, Minute, time_of_day};

/// A table of the extract, and which of its columns go where.
pub(crate) struct Source {
    /// Name of the table, and of the file.
    pub(crate) table: &'static str,
    packed: &'static [u8],
    /// Name in the file, name in the table, type.
    columns: &'static [(&'static str, &'static str, Type)],
}

/// What the text of a field becomes.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Integer,
    Real,
    /// `2013-01-01T06:00:00Z` becomes `2013-01-01 06:00`.
    Moment,
}

const AIRPORTS: Source = Source {
    table: "airports",
    packed: include_bytes!("../../../../data/airports.csv.zst"),
    columns: &[
        ("faa", "faa", Type::Text),
        ("name", "name", Type::Text),
        ("lat", "latitude", Type::Real),
        ("lon", "longitude", Type::Real),
        ("alt", "altitude_feet", Type::Integer),
        ("tz", "offset_hours", Type::Integer),
        ("dst", "summer_rule", Type::Text),
        ("tzone", "time_zone", Type::Text),
    ],
};

/// The tables that are taken as they are, in the order in which they are loaded.
pub(crate) const SOURCES: [Source; 4] = [
    Source {
        table: "airlines",
        packed: include_bytes!("../../../../data/airlines.csv.zst"),
        columns: &[("carrier", "carrier", Type::Text), ("name", "name", Type::Text)],
    },
    AIRPORTS,
    Source {
        table: "planes",
        packed: include_bytes!("../../../../data/planes.csv.zst"),
        columns: &[
            ("tailnum", "tailnum", Type::Text),
            ("year", "built", Type::Integer),
            ("type", "type", Type::Text),
            ("manufacturer", "manufacturer", Type::Text),
            ("model", "model", Type::Text),
            ("engines", "engines", Type::Integer),
            ("seats", "seats", Type::Integer),
            ("speed", "speed_mph", Type::Integer),
            ("engine", "engine", Type::Text),
        ],
    },
    Source {
        table: "weather",
        packed: include_bytes!("../../../../data/weather.csv.zst"),
        columns: &[
            ("origin", "origin", Type::Text),
            ("time_hour", "hour", Type::Moment),
            ("temp", "temperature_f", Type::Real),
            ("dewp", "dew_point_f", Type::Real),
            ("humid", "humidity_percent", Type::Real),
            ("wind_dir", "wind_degrees", Type::Integer),
            ("wind_speed", "wind_mph", Type::Real),
            ("wind_gust", "gust_mph", Type::Real),
            ("precip", "rain_inches", Type::Real),
            ("pressure", "pressure_millibar", Type::Real),
            ("visib", "visibility_miles", Type::Real),
        ],
    },
];

const FLIGHTS: &[u8] = include_bytes!("../../../../data/flights.csv.zst");
const FLIGHT_COLUMNS: [&str; 13] = [
    "carrier",
    "flight",
    "origin",
    "dest",
    "distance",
    "sched_dep_time",
    "sched_arr_time",
    "tailnum",
    "month",
    "day",
    "dep_delay",
    "arr_delay",
    "air_time",
];
/// Columns of the table that [`Flight::row`] fills, in order.
pub(crate) const FLIGHT_ROW: [&str; 12] = [
    "day",
    "carrier",
    "flight",
    "origin",
    "dest",
    "tailnum",
    "sched_dep",
    "sched_arr",
    "dep",
    "arr",
    "air_minutes",
    "distance",
];

/// A field that is not what the extract promises: the program was built from damaged files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    file: &'static str,
    /// Line of the unpacked file, from 1; 0 where there is none.
    line: u64,
    what: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.csv is malformed, line=`{}`: {}", self.file, self.line, self.what)
    }
}

impl std::error::Error for Malformed {}

impl Source {
    /// The statement that inserts one row.
    pub(crate) fn insert(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(_, name, _)| *name).collect();
        insert(self.table, &names)
    }

    /// All rows, in the order of the file.
    pub(crate) fn rows(&self) -> Result<Vec<Vec<Value>>, Malformed> {
        let mut reader = Reader::new(self.table, self.packed)?;
        let header = reader.header()?;
        let mut places = Vec::with_capacity(self.columns.len());
        for (from, _, kind) in self.columns {
            let place = header.iter().position(|name| name == from);
            let place = place.ok_or_else(|| reader.malformed(format!("no column `{from}`")))?;
            places.push((place, *kind));
        }
        let mut rows = Vec::new();
        while reader.next()? {
            let row: Result<Vec<Value>, Malformed> =
                places.iter().map(|(place, kind)| reader.value(*place, *kind)).collect();
            rows.push(row?);
        }
        Ok(rows)
    }
}

/// `INSERT INTO table (a, b) VALUES (?, ?)`
pub(crate) fn insert(table: &str, columns: &[&str]) -> String {
    let marks = vec!["?"; columns.len()].join(", ");
    format!("INSERT INTO {table} ({}) VALUES ({marks})", columns.join(", "))
}

/// Clocks of the airports: minutes ahead of universal time, and whether there is summer time.
pub(crate) struct Clocks(BTreeMap<String, (i64, bool)>);

impl Clocks {
    /// Reads them from the airports of the extract.
    pub(crate) fn read() -> Result<Clocks, Malformed> {
        let mut clocks = BTreeMap::new();
        for row in AIRPORTS.rows()? {
            if let [Value::Text(faa), .., Value::Integer(hours), Value::Text(rule), _] = &row[..] {
                clocks.insert(faa.clone(), (hours * 60, rule == "A"));
            }
        }
        // Puerto Rico and the Virgin Islands are destinations, but no airports of the extract.
        for faa in ["BQN", "PSE", "SJU", "STT"] {
            clocks.entry(faa.to_owned()).or_insert((-4 * 60, false));
        }
        Ok(Clocks(clocks))
    }

    /// Minutes that the airport's clock is ahead of universal time at that moment.
    fn offset(&self, faa: &str, at: Minute) -> Option<i64> {
        let (standard, summer) = self.0.get(faa)?;
        Some(standard + if *summer && at.is_summer() { 60 } else { 0 })
    }
}

/// One flight: planned, and as it was flown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    /// The day it was to leave, in New York.
    pub(crate) day: Day,
    carrier: String,
    number: i64,
    origin: String,
    dest: String,
    tailnum: Option<String>,
    sched_dep: Minute,
    sched_arr: Minute,
    /// `None`: it was cancelled.
    dep: Option<Minute>,
    /// `None`: cancelled, diverted, or not recorded.
    arr: Option<Minute>,
    air_minutes: Option<i64>,
    distance: i64,
}

/// A record of the stream `departures`.
#[derive(Serialize)]
struct Departure<'a> {
    flight: String,
    from: &'a str,
    to: &'a str,
    scheduled: String,
    /// `None`: cancelled.
    left: Option<String>,
    aircraft: Option<&'a str>,
}

impl Flight {
    /// The row of the table, in the order of [`FLIGHT_ROW`].
    pub(crate) fn row(&self) -> Vec<Value> {
        let moment = |at: Option<Minute>| at.map_or(Value::Null, |at| Value::Text(at.to_string()));
        vec![
            Value::Text(self.day.to_string()),
            Value::from(self.carrier.as_str()),
            Value::Integer(self.number),
            Value::from(self.origin.as_str()),
            Value::from(self.dest.as_str()),
            self.tailnum.as_deref().map_or(Value::Null, Value::from),
            moment(Some(self.sched_dep)),
            moment(Some(self.sched_arr)),
            moment(self.dep),
            moment(self.arr),
            self.air_minutes.map_or(Value::Null, Value::Integer),
            Value::Integer(self.distance),
        ]
    }

    /// The record of the stream: JSON.
    pub(crate) fn record(&self) -> Vec<u8> {
        let departure = Departure {
            flight: format!("{} {}", self.carrier, self.number),
            from: &self.origin,
            to: &self.dest,
            scheduled: self.sched_dep.rfc3339(),
            left: self.dep.map(Minute::rfc3339),
            aircraft: self.tailnum.as_deref(),
        };
        serde_json::to_vec(&departure).expect("text and options have a JSON form")
    }

    /// When it left; for a cancelled one, when it should have. The stream is in this order.
    pub(crate) fn moment(&self) -> Minute {
        self.dep.unwrap_or(self.sched_dep)
    }
}

/// The flights of the first `days` days of the year, in the order of the stream.
pub(crate) struct Flights {
    reader: Reader,
    clocks: Clocks,
    days: u32,
}

impl Flights {
    pub(crate) fn open(days: u32) -> Result<Flights, Malformed> {
        let mut reader = Reader::new("flights", FLIGHTS)?;
        if reader.header()? != FLIGHT_COLUMNS {
            return Err(reader.malformed("other columns than expected"));
        }
        Ok(Flights { reader, clocks: Clocks::read()?, days })
    }

    fn read(&mut self) -> Result<Option<Flight>, Malformed> {
        while self.reader.next()? {
            let month = self.reader.number(8)?;
            let day = self.reader.number(9)?;
            let day = Day::new(month, day).ok_or_else(|| self.reader.malformed("no such day"))?;
            if day.number() < i64::from(self.days) {
                return self.flight(day).map(Some);
            }
        }
        Ok(None)
    }

    fn flight(&self, day: Day) -> Result<Flight, Malformed> {
        let reader = &self.reader;
        let text = |place: usize| reader.field(place).map(str::to_owned);
        let optional = |place: usize| -> Result<Option<i64>, Malformed> {
            if reader.field(place)?.is_empty() { Ok(None) } else { reader.number(place).map(Some) }
        };
        let time = |place: usize| {
            let time = time_of_day(reader.field(place)?);
            time.ok_or_else(|| reader.malformed("no time of day"))
        };
        let dest = text(3)?;
        let sched_dep = day.at(time(5)?);
        let offset = self.clocks.offset(&dest, sched_dep);
        let offset = offset.ok_or_else(|| reader.malformed(format!("unknown airport `{dest}`")))?;
        let sched_arr = sched_dep.next_at(time(6)?, offset);
        Ok(Flight {
            day,
            carrier: text(0)?,
            number: reader.number(1)?,
            origin: text(2)?,
            dest,
            tailnum: Some(text(7)?).filter(|tailnum| !tailnum.is_empty()),
            sched_dep,
            sched_arr,
            dep: optional(10)?.map(|delay| sched_dep.plus(delay)),
            arr: optional(11)?.map(|delay| sched_arr.plus(delay)),
            air_minutes: optional(12)?,
            distance: reader.number(4)?,
        })
    }
}

impl Iterator for Flights {
    type Item = Result<Flight, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A packed CSV file, unpacked as it is read.
struct Reader {
    file: &'static str,
    csv: csv::Reader<zstd::stream::read::Decoder<'static, std::io::BufReader<&'static [u8]>>>,
    row: csv::StringRecord,
    line: u64,
}

impl Reader {
    fn new(file: &'static str, packed: &'static [u8]) -> Result<Reader, Malformed> {
        let unpacked = zstd::stream::read::Decoder::new(packed).map_err(|error| Malformed {
            file,
            line: 0,
            what: error.to_string(),
        })?;
        let csv = csv::ReaderBuilder::new().has_headers(false).from_reader(unpacked);
        Ok(Reader { file, csv, row: csv::StringRecord::new(), line: 0 })
    }

    fn header(&mut self) -> Result<Vec<String>, Malformed> {
        if !self.next()? {
            return Err(self.malformed("no header"));
        }
        Ok(self.row.iter().map(str::to_owned).collect())
    }

    /// Moves to the next line; false at the end.
    fn next(&mut self) -> Result<bool, Malformed> {
        self.line += 1;
        self.csv.read_record(&mut self.row).map_err(|error| self.malformed(error.to_string()))
    }

    fn malformed(&self, what: impl Into<String>) -> Malformed {
        Malformed { file: self.file, line: self.line, what: what.into() }
    }

    fn field(&self, place: usize) -> Result<&str, Malformed> {
        self.row.get(place).ok_or_else(|| self.malformed(format!("no field {}", place + 1)))
    }

    fn number<N: std::str::FromStr>(&self, place: usize) -> Result<N, Malformed> {
        let text = self.field(place)?;
        text.parse().map_err(|_| self.malformed(format!("`{text}` is not a number in range")))
    }

    fn value(&self, place: usize, kind: Type) -> Result<Value, Malformed> {
        let text = self.field(place)?;
        if text.is_empty() {
            return Ok(Value::Null);
        }
        match kind {
            Type::Text => Ok(Value::from(text)),
            Type::Integer => self.number(place).map(Value::Integer),
            Type::Real => self.number(place).map(Value::Real),
            Type::Moment => match text.strip_suffix(":00Z").map(|text| text.replace('T', " ")) {
                Some(moment) if moment.len() == 16 => Ok(Value::Text(moment)),
                _ => Err(self.malformed(format!("`{text}` is no moment"))),
            },
        }
    }
}

#[cfg(test)]
mod tests;
