//! The extract as this program reads it, against facts of `data/README.md`.

use super::*;

fn packed(text: &str) -> &'static [u8] {
    let bytes = zstd::encode_all(text.as_bytes(), 1).expect("memory takes any bytes");
    Box::leak(bytes.into_boxed_slice())
}

fn source(text: &str) -> Source {
    let columns = &[
        ("a", "a", Type::Text),
        ("b", "bee", Type::Integer),
        ("c", "c", Type::Real),
        ("at", "at", Type::Moment),
    ];
    Source { table: "sample", packed: packed(text), columns }
}

#[test]
fn fields_become_values_and_empty_ones_null() {
    let sample = source("c,a,skip,at,b\n1.5,x,9,2013-01-01T06:00:00Z,-7\n,,,,\n");
    let expected = [
        vec![
            Value::from("x"),
            Value::Integer(-7),
            Value::Real(1.5),
            Value::from("2013-01-01 06:00"),
        ],
        vec![Value::Null, Value::Null, Value::Null, Value::Null],
    ];
    assert_eq!(sample.rows().expect("a good file"), expected);
    assert_eq!(sample.insert(), "INSERT INTO sample (a, bee, c, at) VALUES (?, ?, ?, ?)");
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let told = |text: &str| source(text).rows().expect_err("a bad file").to_string();
    assert_eq!(told("a,b,c\n"), "sample.csv is malformed, line=`1`: no column `at`");
    assert_eq!(told(""), "sample.csv is malformed, line=`1`: no header");
    assert_eq!(
        told("a,b,c,at\nx,1,2,\nx,NA,2,\n"),
        "sample.csv is malformed, line=`3`: `NA` is not a number in range"
    );
    assert!(told("a,b,c,at\nx,1,2,noon\n").ends_with("line=`2`: `noon` is no moment"));
    assert!(told("a,b,c,at\nx,1\n").contains("line=`2`"));
}

#[test]
fn bytes_that_are_not_packed_are_an_error() {
    let broken = Source { packed: b"a,b,c,at\n", ..source("") };
    assert!(broken.rows().is_err());
}

#[test]
fn the_extract_has_all_rows() {
    let counts: Vec<_> = SOURCES
        .iter()
        .map(|source| (source.table, source.rows().expect("the extract is intact").len()))
        .collect();
    let expected = [("airlines", 16), ("airports", 1458), ("planes", 3322), ("weather", 26115)];
    assert_eq!(counts, expected);
}

fn flights(days: u32) -> Vec<Flight> {
    let flights = Flights::open(days).expect("the extract is intact");
    flights.map(|flight| flight.expect("the extract is intact")).collect()
}

#[test]
fn flights_stand_in_the_order_of_the_stream() {
    let flights = flights(3);
    assert_eq!(flights.len(), 842 + 943 + 914);
    assert!(flights.is_sorted_by_key(Flight::moment));
    assert_eq!(
        flights[0].row(),
        [
            Value::from("2013-01-01"),
            Value::from("UA"),
            Value::Integer(1545),
            Value::from("EWR"),
            Value::from("IAH"),
            Value::from("N14228"),
            Value::from("2013-01-01 10:15"),
            Value::from("2013-01-01 14:19"),
            Value::from("2013-01-01 10:17"),
            Value::from("2013-01-01 14:30"),
            Value::Integer(227),
            Value::Integer(1400),
        ]
    );
    assert_eq!(
        String::from_utf8(flights[0].record()).expect("JSON is UTF-8"),
        concat!(
            r#"{"flight":"UA 1545","from":"EWR","to":"IAH","scheduled":"2013-01-01T10:15Z","#,
            r#""left":"2013-01-01T10:17Z","aircraft":"N14228"}"#
        )
    );
}

#[test]
fn every_flight_of_the_year_obeys_the_time_rules() {
    let mut count = 0;
    let mut cancelled = 0;
    for flight in Flights::open(Day::COUNT).expect("the extract is intact") {
        let flight = flight.expect("the extract is intact");
        count += 1;
        cancelled += u32::from(flight.dep.is_none());
        // The time rules know nothing of `air_time`: that no flight lands before it could have,
        // in any of a hundred destinations and both summers' ends, is evidence for them.
        if let (Some(dep), Some(arr), Some(air)) = (flight.dep, flight.arr, flight.air_minutes) {
            assert!(dep.plus(air) <= arr, "{flight:?}");
        }
        assert!(flight.sched_dep < flight.sched_arr, "{flight:?}");
    }
    assert_eq!((count, cancelled), (336_776, 8_255));
}
