//! Rows that cannot be taken: a file with line, reason and text, made when there is one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::Import;
use crate::failure::{Failure, Outcome};

/// Bytes of a bad row that are kept.
const TEXT_BYTES: usize = 64 << 10;

/// The file of bad rows.
pub(super) struct Rejects {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    count: u64,
    limit: u64,
}

impl Rejects {
    pub(super) fn new(args: &Import) -> Rejects {
        let path = args.rejects.clone().unwrap_or_else(|| {
            let mut name = if args.file == Path::new("-") {
                "stdin".into()
            } else {
                args.file.clone().into_os_string()
            };
            name.push(".rejects.jsonl");
            PathBuf::from(name)
        });
        Rejects { path, file: None, count: 0, limit: args.max_rejects }
    }

    /// Writes one bad row; fails when there are too many.
    pub(super) fn add(&mut self, into: &str, line: u64, reason: &str, text: &str) -> Outcome<()> {
        self.count += 1;
        if self.count > self.limit {
            self.finish()?;
            let message =
                format!("more than {} rows are bad; the last at line {line}: {reason}", self.limit);
            let hint = format!("see {}; raise --max-rejects to go on", self.path.display());
            return Err(Failure::usage(message, &hint));
        }
        let failed = |error| Failure::file(&self.path, &error);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(&self.path).map_err(failed)?)),
        };
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let entry = json!({ "into": into, "line": line, "reason": reason, "text": text[..end] });
        writeln!(file, "{entry}").map_err(failed)
    }

    /// Sends what is buffered.
    pub(super) fn finish(&mut self) -> Outcome<()> {
        match &mut self.file {
            Some(file) => file.flush().map_err(|error| Failure::file(&self.path, &error)),
            None => Ok(()),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Where they are, if there are any.
    pub(super) fn path(&self) -> Option<String> {
        self.file.as_ref().map(|_| self.path.display().to_string())
    }
}
