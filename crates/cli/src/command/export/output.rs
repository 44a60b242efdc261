//! Where an export goes: stdout, or a file that appears under its name when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::printer::Printer;

/// A file that is being written, or stdout.
pub(super) struct Output<'a> {
    writer: Box<dyn Write + 'a>,
    file: Option<Unfinished>,
}

struct Unfinished {
    part: PathBuf,
    path: PathBuf,
    /// Another handle of the part, to make it durable.
    handle: File,
}

impl<'a> Output<'a> {
    pub(super) fn open(printer: &'a Printer, path: Option<&Path>) -> Outcome<Output<'a>> {
        let Some(path) = path else {
            return Ok(Output { writer: Box::new(printer.writer()), file: None });
        };
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let failed = |error| Failure::file(&part, &error);
        let file = File::create(&part).map_err(failed)?;
        let handle = file.try_clone().map_err(failed)?;
        Ok(Output {
            writer: Box::new(BufWriter::new(file)),
            file: Some(Unfinished { part: part.clone(), path: path.to_owned(), handle }),
        })
    }

    /// What a failed write means here.
    pub(super) fn failed(&self, error: io::Error) -> Failure {
        match &self.file {
            Some(file) => Failure::file(&file.part, &error),
            None => Failure::from(error),
        }
    }

    /// Completes the file: durable, then under its name.
    pub(super) fn finish(mut self) -> Outcome<()> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| self.failed(error))?;
        let Some(file) = self.file.take() else { return Ok(()) };
        let done = file.handle.sync_all().and_then(|()| std::fs::rename(&file.part, &file.path));
        done.map_err(|error| Failure::file(&file.path, &error))
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        // Not finished: leave nothing that looks like an export.
        if let Some(file) = self.file.take() {
            let _ = std::fs::remove_file(&file.part);
        }
    }
}
