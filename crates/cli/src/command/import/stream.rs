//! Lines into a stream of the fork.

use std::io::{BufRead, BufReader, Read};

use anabranch_client::{Bytes, Client};
use anabranch_log::limits;
use serde::{Deserialize, Serialize};

use super::Context;
use super::reject::Rejects;
use crate::args::{Import, ImportFormat};
use crate::failure::{Failure, Outcome};

/// Longest line that is read: the largest record in its longest JSON form, and room for its frame.
const LINE_BYTES: u64 = 6 * limits::RECORD_BYTES as u64 + 1024;

/// What became of a stream.
#[derive(Serialize)]
pub(super) struct StreamReport {
    pub(super) stream: String,
    pub(super) records: u64,
}

/// A line as `export` and `read --json` write it.
#[derive(Deserialize)]
struct Exported {
    value: Bytes,
}

/// Appends every line.
pub(super) fn load(
    context: &Context,
    client: &Client,
    (fork, stream): (&str, &str),
    (args, format): (&Import, ImportFormat),
    rejects: &mut Rejects,
) -> Outcome<StreamReport> {
    let path = &args.file;
    let total = std::fs::metadata(path).ok().map(|data| data.len());
    let mut reader = BufReader::new(crate::command::open(path)?);
    let bar = context.printer.progress(stream, total);
    let mut report = StreamReport { stream: stream.to_owned(), records: 0 };
    let mut batch: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    let (mut number, mut position) = (0, 0);
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line);
        let read = read.map_err(|error| Failure::file(path, &error))? as u64;
        if read == 0 {
            break;
        }
        number += 1;
        position += read;
        bar.set_position(position);
        let ended = line.last() == Some(&b'\n');
        if ended {
            line.pop();
        } else if read == LINE_BYTES {
            let skipped = reader.skip_until(b'\n').map_err(|error| Failure::file(path, &error))?;
            position += skipped as u64;
        }
        let record = match record(line, format) {
            Ok(record) => record,
            Err((reason, line)) => {
                rejects.add(stream, number, &reason, &String::from_utf8_lossy(&line))?;
                continue;
            }
        };
        let size_bytes = record.0.len();
        if batch.len() == limits::BATCH_RECORDS || bytes + size_bytes > limits::BATCH_BYTES {
            report.records += batch.len() as u64;
            client.append(fork, stream, std::mem::take(&mut batch))?;
            bytes = 0;
        }
        bytes += size_bytes;
        batch.push(record);
    }
    if !batch.is_empty() {
        report.records += batch.len() as u64;
        client.append(fork, stream, batch)?;
    }
    bar.finish_and_clear();
    Ok(report)
}

fn record(line: Vec<u8>, format: ImportFormat) -> Result<Bytes, (String, Vec<u8>)> {
    let record = match format {
        ImportFormat::Jsonl => match serde_json::from_slice::<Exported>(&line) {
            Ok(exported) => exported.value,
            Err(error) => return Err((error.to_string(), line)),
        },
        _ => Bytes(line),
    };
    if record.0.len() > limits::RECORD_BYTES {
        return Err(("the record is larger than 1 MiB".to_owned(), record.0));
    }
    Ok(record)
}
