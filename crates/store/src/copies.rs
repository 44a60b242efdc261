//! Small files kept twice, as `name.a` and `name.b`.
//!
//! One intact copy is enough. A bad or missing one is written again at the next opening, so that
//! two independent faults have to fall between two openings to lose the content.

use std::io;

use crate::disk::{Disk, Open, read_all, replace};
use crate::format::Fault;
use crate::format::envelope::{self, Magic};
use crate::{Damage, OpenError, Structure};

/// What is in one copy.
pub(crate) struct Copy {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// `Absent` when there is no such file.
    pub(crate) content: Result<Vec<u8>, Fault>,
}

/// Reads `name.a` and `name.b`.
pub(crate) fn read(disk: &dyn Disk, name: &str, magic: Magic) -> Result<[Copy; 2], OpenError> {
    Ok([read_one(disk, format!("{name}.a"), magic)?, read_one(disk, format!("{name}.b"), magic)?])
}

fn read_one(disk: &dyn Disk, file: String, magic: Magic) -> Result<Copy, OpenError> {
    let bytes = match disk.open(&file, Open::Read) {
        Ok(open) => {
            let read = open.drop_cache().and_then(|()| read_all(&*open));
            read.map_err(|error| OpenError::io(&*file, error))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Copy { file, bytes: 0, content: Err(Fault::Absent) });
        }
        Err(error) => return Err(OpenError::io(file, error)),
    };
    let content = match envelope::decode(magic, &bytes) {
        Ok(content) => Ok(content.to_vec()),
        Err(Fault::Absent) => Err(Fault::Bad("all zero")),
        Err(fault) => Err(fault),
    };
    Ok(Copy { file, bytes: bytes.len() as u64, content })
}

/// Writes both copies, one after the other, each durably.
pub(crate) fn write(disk: &dyn Disk, name: &str, magic: Magic, content: &[u8]) -> io::Result<()> {
    let bytes = envelope::encode(magic, content);
    replace(disk, "", &format!("{name}.a"), &bytes)?;
    replace(disk, "", &format!("{name}.b"), &bytes)
}

impl Copy {
    /// The damage of a copy that is not intact.
    pub(crate) fn damage(&self, structure: Structure) -> Option<Damage> {
        let fault = self.content.as_ref().err()?;
        let what = if *fault == Fault::Absent { "the file is missing" } else { fault.what() };
        Some(Damage::new(&*self.file, 0, self.bytes, structure, what))
    }

    pub(crate) fn missing(&self) -> bool {
        self.content == Err(Fault::Absent)
    }

    /// Why neither copy can be used.
    pub(crate) fn error(&self, structure: Structure) -> OpenError {
        match self.content {
            Err(Fault::Version(found)) => OpenError::Version { file: self.file.clone(), found },
            _ => OpenError::Damaged(self.damage(structure).unwrap_or_else(|| {
                Damage::new(&*self.file, 0, self.bytes, structure, "the copies differ")
            })),
        }
    }
}

/// Writes a copy again from the other's content.
pub(crate) fn repair(
    disk: &dyn Disk,
    copy: &Copy,
    magic: Magic,
    content: &[u8],
) -> Result<(), OpenError> {
    replace(disk, "", &copy.file, &envelope::encode(magic, content))
        .map_err(|error| OpenError::io(&*copy.file, error))
}
