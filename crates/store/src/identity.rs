//! Whose directory this is: `identity.a` and `identity.b`, written once, equal.
//!
//! Content of the envelope: space 16 bytes, node u64, length of the name u32, name (UTF-8).
//!
//! The identity is the last thing written when a space is created: while there is none, whatever
//! else is in the directory belongs to an unfinished creation.

use crate::copies;
use crate::disk::Disk;
use crate::format::envelope;
use crate::format::fields::{Fields, count32};
use crate::{Damage, OpenError, Structure};

/// Longest name of a space in bytes.
pub const NAME_BYTES_MAX: usize = 255;

pub(crate) const NAME: &str = "identity";

/// Who a directory belongs to; never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Drawn at random when the space is created; stamped on every file of the space.
    pub space: [u8; 16],
    /// The name users call the space by (1 to 255 bytes).
    pub name: String,
    /// The replica that owns the directory.
    pub node: u64,
}

impl Identity {
    fn encode(&self) -> Vec<u8> {
        let mut content = self.space.to_vec();
        content.extend_from_slice(&self.node.to_le_bytes());
        content.extend_from_slice(&count32(self.name.len()).to_le_bytes());
        content.extend_from_slice(self.name.as_bytes());
        content
    }

    pub(crate) fn decode(content: &[u8]) -> Option<Self> {
        let mut fields = Fields(content);
        let (space, node) = (fields.array()?, fields.u64()?);
        let length = fields.count(1)?;
        let name = String::from_utf8(fields.bytes(length)?.to_vec()).ok()?;
        fields.end()?;
        valid(&name).then_some(Self { space, name, node })
    }
}

fn valid(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}

/// Writes both copies, durably. `Exists` when there already is an identity.
pub fn create(disk: &dyn Disk, identity: &Identity) -> Result<(), OpenError> {
    if !valid(&identity.name) {
        return Err(OpenError::InvalidOption { what: "the name of a space has 1 to 255 bytes" });
    }
    for copy in copies::read(disk, NAME, envelope::IDENTITY)? {
        if !copy.missing() {
            return Err(OpenError::Exists { file: copy.file });
        }
    }
    copies::write(disk, NAME, envelope::IDENTITY, &identity.encode())
        .map_err(|error| OpenError::io(NAME, error))
}

/// Reads the identity and writes a bad copy again from the other; says which. `Missing` when there
/// is none.
pub fn load(disk: &dyn Disk) -> Result<(Identity, Vec<Damage>), OpenError> {
    let (identity, found) = read(disk)?;
    let mut repaired = Vec::new();
    for copy in &found {
        if let Some(damage) = copy.damage(Structure::Identity) {
            copies::repair(disk, copy, envelope::IDENTITY, &identity.encode())?;
            repaired.push(damage);
        }
    }
    Ok((identity, repaired))
}

/// Reads without repairing.
pub(crate) fn read(disk: &dyn Disk) -> Result<(Identity, [copies::Copy; 2]), OpenError> {
    let found = copies::read(disk, NAME, envelope::IDENTITY)?;
    if found.iter().all(copies::Copy::missing) {
        return Err(OpenError::Missing { file: found[0].file.clone() });
    }
    let bad = found.iter().find(|copy| copy.content.is_err() && !copy.missing());
    match [&found[0].content, &found[1].content] {
        [Ok(a), Ok(b)] if a != b => Err(found[1].error(Structure::Identity)),
        [Ok(content), _] | [_, Ok(content)] => match Identity::decode(content) {
            Some(identity) => Ok((identity, found)),
            None => Err(found[0].error(Structure::Identity)),
        },
        _ => Err(bad.unwrap_or(&found[0]).error(Structure::Identity)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    fn sample() -> Identity {
        Identity { space: [5; 16], name: "shop".to_owned(), node: 1 }
    }

    #[test]
    fn golden() {
        let content = sample().encode();
        crate::format::check::golden(
            &content,
            "05050505050505050505050505050505010000000000000004000000",
        );
        assert_eq!(&content[28..], b"shop");
    }

    #[test]
    fn created_once() {
        let disk = MemoryDisk::new();
        assert!(matches!(load(&disk), Err(OpenError::Missing { .. })));
        create(&disk, &sample()).unwrap();
        assert!(matches!(create(&disk, &sample()), Err(OpenError::Exists { .. })));
        assert_eq!(load(&disk).unwrap(), (sample(), vec![]));
        for name in ["", &"x".repeat(256)] {
            let identity = Identity { name: name.to_owned(), ..sample() };
            let disk = MemoryDisk::new();
            assert!(matches!(create(&disk, &identity), Err(OpenError::InvalidOption { .. })));
        }
        let longest = Identity { name: "x".repeat(255), ..sample() };
        let disk = MemoryDisk::new();
        create(&disk, &longest).unwrap();
        assert_eq!(load(&disk).unwrap().0, longest);
    }

    #[test]
    fn one_copy_is_enough() {
        for copy in ["identity.a", "identity.b"] {
            let disk = MemoryDisk::new();
            create(&disk, &sample()).unwrap();
            disk.damage(copy, 20, |bytes| bytes[0] ^= 1);
            let (identity, repaired) = load(&disk).unwrap();
            assert_eq!((identity, repaired.len(), &*repaired[0].file), (sample(), 1, copy));
            assert_eq!(load(&disk).unwrap().1, [], "repaired");
        }
        let disk = MemoryDisk::new();
        create(&disk, &sample()).unwrap();
        for copy in ["identity.a", "identity.b"] {
            disk.damage(copy, 60, |bytes| bytes[0] ^= 1);
        }
        assert!(matches!(load(&disk), Err(OpenError::Damaged(_))));
    }
}
