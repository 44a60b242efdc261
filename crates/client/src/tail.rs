//! Following a stream: server-sent events, resumed where they broke off.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use anabranch_api::Problem;
use anabranch_api::http::{StreamRecord, TailQuery, TailStart};
use anabranch_log::{Happened, Kind};

use crate::connect::Failed;
use crate::retry::pause_before;
use crate::{Client, Error, Result};

/// The server sends a comment at least every ten seconds.
const SILENCE: Duration = Duration::from_secs(40);
/// Longest line: a record of 1 MiB as JSON escapes, and room to spare.
const LINE_BYTES: u64 = 8 << 20;

/// Records of a stream, in order, without gaps or repetition, for as long as it is asked.
///
/// `next` waits for a record. A lost connection is resumed; after [`crate::Options::attempts`] in a
/// row without a record, or when the server says no, the last item is an error.
pub struct Tail {
    client: Client,
    path: String,
    /// Offset of the next record, once known.
    next: Option<u64>,
    failures: u32,
    reader: Option<BufReader<ureq::BodyReader<'static>>>,
    ended: bool,
}

impl Tail {
    pub(crate) fn new(client: Client, path: String, start: Option<u64>) -> Tail {
        Tail { client, path, next: start, failures: 0, reader: None, ended: false }
    }

    fn step(&mut self) -> std::result::Result<Option<StreamRecord>, Failed> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let query = TailQuery { start: self.next };
                let body = self.client.shared.http.stream(&self.path, &query, SILENCE)?;
                none.insert(BufReader::new(body))
            }
        };
        let lost = |what: String| Failed::Lost(Error::new(Kind::Unavailable, Happened::No, what));
        let event = read_event(reader).map_err(|error| lost(format!("tail broke off: {error}")))?;
        let bad = |error: serde_json::Error| lost(format!("tail was not understood: {error}"));
        match event.name.as_str() {
            "start" => {
                let start: TailStart = serde_json::from_str(&event.data).map_err(bad)?;
                self.next = Some(start.offset);
                Ok(None)
            }
            "record" => {
                let record: StreamRecord = serde_json::from_str(&event.data).map_err(bad)?;
                self.next = Some(record.offset + 1);
                Ok(Some(record))
            }
            "problem" => {
                let problem: Problem = serde_json::from_str(&event.data).map_err(bad)?;
                Err(Failed::Answered(problem))
            }
            _ => Ok(None),
        }
    }
}

impl Iterator for Tail {
    type Item = Result<StreamRecord>;

    fn next(&mut self) -> Option<Result<StreamRecord>> {
        while !self.ended {
            match self.step() {
                Ok(Some(record)) => {
                    self.failures = 0;
                    return Some(Ok(record));
                }
                Ok(None) => {}
                Err(Failed::Answered(problem)) => {
                    self.ended = true;
                    return Some(Err(problem.into()));
                }
                Err(failed) => {
                    self.reader = None;
                    self.failures += 1;
                    // Nothing was ever heard from there: waiting will not help.
                    let deaf = matches!(failed, Failed::NotSent(_)) && self.next.is_none();
                    if deaf || self.failures >= self.client.shared.attempts {
                        self.ended = true;
                        return Some(Err(failed.into()));
                    }
                    std::thread::sleep(pause_before(self.failures));
                }
            }
        }
        None
    }
}

#[derive(Debug, Default, PartialEq)]
struct Event {
    name: String,
    data: String,
}

/// The next event; comments and ids are skipped. The end of the stream is an error.
fn read_event(reader: &mut impl BufRead) -> std::io::Result<Event> {
    let mut event = Event::default();
    loop {
        let mut line = String::new();
        let read = reader.by_ref().take(LINE_BYTES).read_line(&mut line)?;
        if !line.ends_with('\n') {
            let what = if read as u64 == LINE_BYTES { "line too long" } else { "end of stream" };
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what));
        }
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            if !event.name.is_empty() || !event.data.is_empty() {
                return Ok(event);
            }
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut event.name),
            "data" => {
                if !event.data.is_empty() {
                    event.data.push('\n');
                }
                event.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart() {
        let text = ": hello\n\nevent: record\nid: 3\ndata: {\"a\":\ndata:1}\n\nevent:x\r\n\r\nda";
        let mut reader = text.as_bytes();
        let event = read_event(&mut reader).unwrap();
        assert_eq!(event, Event { name: "record".into(), data: "{\"a\":\n1}".into() });
        assert_eq!(read_event(&mut reader).unwrap().name, "x");
        assert!(read_event(&mut reader).is_err());
    }
}
