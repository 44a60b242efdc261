//! A stream: one record per line, or one JSON object per line.

use std::io::Write;

use anabranch_client::{Client, StreamRecord};

use super::{Context, Output};
use crate::args::{Export, ExportFormat};
use crate::failure::{Failure, Outcome};

pub(super) fn export(
    context: &Context,
    client: &Client,
    (branch, stream): (&str, &str),
    args: &Export,
) -> Outcome<u64> {
    let lines = match args.format {
        None | Some(ExportFormat::Lines) => true,
        Some(ExportFormat::Jsonl) => false,
        Some(ExportFormat::Csv) => {
            let hint = "a stream is written as lines or jsonl";
            return Err(Failure::usage("csv is for tables", hint));
        }
    };
    let mut output = Output::open(&context.printer, args.output.as_deref())?;
    let bar = context.printer.progress(stream, None);
    // Records that come while we write are left for the next time.
    let end = client.read(branch, stream, 0, 0)?.length;
    let (mut next, mut bytes) = (0, 0);
    while next < end {
        let limit = usize::try_from(end - next).unwrap_or(usize::MAX);
        let page = client.read(branch, stream, next, limit)?;
        let Some(last) = page.records.last().map(|record| record.offset) else { break };
        for record in page.records {
            bytes += record.value.as_ref().len() as u64;
            write(&mut output, &record, lines)?;
        }
        bar.set_position(bytes);
        next = last + 1;
    }
    bar.finish_and_clear();
    output.finish()?;
    Ok(next)
}

fn write(output: &mut Output<'_>, record: &StreamRecord, lines: bool) -> Outcome<()> {
    let written = if lines {
        if record.value.as_ref().contains(&b'\n') {
            let message = format!("the record at offset {} holds a newline", record.offset);
            return Err(Failure::usage(message, "write it with --format jsonl"));
        }
        output.write_all(record.value.as_ref())
    } else {
        serde_json::to_writer(&mut *output, record).map_err(std::io::Error::from)
    };
    written.and_then(|()| output.write_all(b"\n")).map_err(|error| output.failed(error))
}
