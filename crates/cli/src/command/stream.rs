//! `append`, `read`, `tail`, `streams`.

use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;

use anabranch_client::{Bytes, StreamRecord};
use anabranch_log::limits;
use serde_json::json;

use super::Context;
use crate::args::{Append, Read, Streams, Tail};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

pub(crate) fn append(context: &Context, args: &Append) -> Outcome {
    if !args.records.is_empty() {
        let connection = context.connect()?;
        let records = args.records.iter().map(|record| Bytes::from(record.as_str())).collect();
        let mut sender = Sender::new(context, &connection, args)?;
        sender.send(records)?;
        return sender.finish();
    }
    let path = args.file.as_deref().unwrap_or(Path::new("-"));
    if args.file.is_none() && std::io::stdin().is_terminal() {
        context.printer.note("reading records from the terminal, one per line; Ctrl-D ends");
    }
    let mut reader = BufReader::new(super::open(path)?);
    let connection = context.connect_numbered()?;
    let mut sender = Sender::new(context, &connection, args)?;
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut line_number = 0u64;
    while let Some(record) = next_line(&mut reader, path)? {
        line_number += 1;
        if record.len() > limits::RECORD_BYTES {
            let message = format!("line {line_number} is longer than 1 MiB");
            let hint = "the records before it were appended; split this one";
            return Err(Failure::usage(message, hint));
        }
        let full =
            batch.len() == limits::BATCH_RECORDS || bytes + record.len() > limits::BATCH_BYTES;
        // What is not there yet must not keep back what is: a pipe may be slow.
        if full || (reader_is_live(args) && reader.buffer().is_empty() && !batch.is_empty()) {
            sender.send(std::mem::take(&mut batch))?;
            bytes = 0;
        }
        bytes += record.len();
        batch.push(Bytes(record));
    }
    if !batch.is_empty() {
        sender.send(batch)?;
    }
    sender.finish()
}

/// Whether the input may pause: anything but a named file.
fn reader_is_live(args: &Append) -> bool {
    args.file.is_none()
}

/// The next line without its newline; `None` at the end.
pub(crate) fn next_line(reader: &mut impl BufRead, path: &Path) -> Outcome<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let limit = limits::RECORD_BYTES as u64 + 2;
    let read = std::io::Read::take(&mut *reader, limit).read_until(b'\n', &mut line);
    if read.map_err(|error| Failure::file(path, &error))? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(Some(line))
}

/// Sends batches and counts them.
struct Sender<'a> {
    context: &'a Context,
    connection: &'a Connection,
    branch: String,
    stream: &'a str,
    position: bool,
    expect: Option<u64>,
    count: u64,
}

impl<'a> Sender<'a> {
    fn new(
        context: &'a Context,
        connection: &'a Connection,
        args: &'a Append,
    ) -> Outcome<Sender<'a>> {
        let branch = connection.branch(&args.on.target)?.to_owned();
        Ok(Sender {
            context,
            connection,
            branch,
            stream: &args.stream,
            position: args.position,
            expect: args.expect,
            count: 0,
        })
    }

    fn send(&mut self, records: Vec<Bytes>) -> Outcome<()> {
        let count = records.len() as u64;
        let printer = &self.context.printer;
        if self.position || self.expect.is_some() {
            // Of several batches, each follows the one before.
            let expect = self.expect.map(|length| length + self.count);
            let at = self.connection.append_at(&self.branch, self.stream, records, expect)?;
            if self.position {
                let value = json!({ "index": at.index, "offset": at.offset, "count": count });
                printer.answer(&value, &format!("index {} offset {}", at.index, at.offset))?;
            }
        } else {
            self.connection.append(&self.branch, self.stream, records)?;
        }
        self.count += count;
        Ok(())
    }

    fn finish(self) -> Outcome {
        let printer = &self.context.printer;
        if printer.is_json() {
            if !self.position {
                printer.json(&json!({ "count": self.count }))?;
            }
        } else {
            let plural = if self.count == 1 { "" } else { "s" };
            let (stream, branch) = (self.stream, &self.branch);
            printer.note(&format!("appended {} record{plural} to {stream}@{branch}", self.count));
        }
        Ok(Exit::Done)
    }
}

fn print(context: &Context, record: &StreamRecord, long: bool) -> Outcome<()> {
    if context.printer.is_json() {
        return context.printer.json(record);
    }
    if long {
        let place = format!("{}\t{}\t", record.offset, record.index);
        context.printer.bytes(place.as_bytes(), false)?;
    }
    context.printer.bytes(record.value.as_ref(), true)
}

pub(crate) fn read(context: &Context, args: &Read) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let mut next = args.start;
    // What is appended while we read is not waited for: the first page tells the end.
    let mut end = args.count.map_or(u64::MAX, |count| args.start.saturating_add(count));
    while next < end {
        let limit = usize::try_from(end - next).unwrap_or(usize::MAX);
        let page = connection.read(branch, &args.stream, next, limit)?;
        end = end.min(page.length);
        let Some(last) = page.records.last().map(|record| record.offset) else { break };
        for record in page.records.iter().filter(|record| record.offset < end) {
            print(context, record, args.long)?;
        }
        next = last + 1;
    }
    Ok(Exit::Done)
}

pub(crate) fn tail(context: &Context, args: &Tail) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(Exit::Done);
    }
    for record in connection.tail(branch, &args.stream, args.start) {
        print(context, &record?, args.long)?;
        context.printer.flush()?;
        left -= 1;
        if left == 0 {
            break;
        }
    }
    Ok(Exit::Done)
}

pub(crate) fn list(context: &Context, args: &Streams) -> Outcome {
    let connection = context.connect()?;
    let streams = connection.streams(connection.branch(&args.on.target)?)?;
    if context.printer.is_json() {
        streams.iter().try_for_each(|stream| context.printer.json(stream))?;
        return Ok(Exit::Done);
    }
    let kind = |keyed| if keyed { "keyed" } else { "plain" }.to_owned();
    let rows: Vec<Vec<String>> = streams
        .into_iter()
        .map(|info| vec![info.stream, kind(info.keyed), info.length.to_string()])
        .collect();
    context.printer.table(&["stream", "kind", "length"], &rows)?;
    Ok(Exit::Done)
}
