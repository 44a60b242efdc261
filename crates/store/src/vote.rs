//! What Raft must never forget: `vote.a` and `vote.b`.
//!
//! Content of the envelope: space 16 bytes, sequence u64, term u64, voted for u64, commit u64.
//!
//! Both copies are written for every vote, one after the other, each in place and synced, so a
//! durable vote always has two copies; the newest intact one counts. A crash in between leaves the
//! other copy one vote behind, which the next opening makes good. (Alternating between the files
//! would leave every vote with one copy only, and a single damaged byte would bring back the one
//! before it: a second vote in the same term.)

use std::sync::Arc;

use crate::copies;
use crate::disk::{Disk, DiskFile, Open};
use crate::format::envelope;
use crate::format::fields::Fields;
use crate::{Damage, OpenError, Poisoned, Structure, WriteError};

pub(crate) const NAME: &str = "vote";

/// Term and vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The newest term seen.
    pub term: u64,
    /// Whom this replica voted for in `term`; 0 is nobody.
    pub voted_for: u64,
    /// A Raft index known to be committed: a hint, as old as the last vote written.
    pub commit: u64,
}

/// The two files, open.
pub struct VoteFile {
    files: [Arc<dyn DiskFile>; 2],
    space: [u8; 16],
    sequence: u64,
    vote: Vote,
    poisoned: bool,
}

fn encode(space: [u8; 16], sequence: u64, vote: Vote) -> Vec<u8> {
    let mut content = space.to_vec();
    for field in [sequence, vote.term, vote.voted_for, vote.commit] {
        content.extend_from_slice(&field.to_le_bytes());
    }
    content
}

pub(crate) fn decode(content: &[u8]) -> Option<([u8; 16], u64, Vote)> {
    let mut fields = Fields(content);
    let (space, sequence) = (fields.array()?, fields.u64()?);
    let vote = Vote { term: fields.u64()?, voted_for: fields.u64()?, commit: fields.u64()? };
    fields.end()?;
    Some((space, sequence, vote))
}

impl VoteFile {
    /// Creates both copies with the default vote, durably; replaces what an unfinished creation of
    /// the space left.
    pub fn create(disk: &dyn Disk, space: [u8; 16]) -> Result<Self, OpenError> {
        copies::write(disk, NAME, envelope::VOTE, &encode(space, 1, Vote::default()))
            .map_err(|error| OpenError::io(NAME, error))?;
        Ok(Self::open(disk, space)?.0)
    }

    /// Reads the newest intact copy and makes the other equal to it; says what was repaired.
    pub fn open(disk: &dyn Disk, space: [u8; 16]) -> Result<(Self, Vec<Damage>), OpenError> {
        let (sequence, vote, owner, found) = read(disk)?;
        if owner != space {
            return Err(OpenError::OtherSpace { file: found[0].file.clone() });
        }
        let content = encode(space, sequence, vote);
        let mut repaired = Vec::new();
        for copy in &found {
            if copy.content.as_ref() != Ok(&content) {
                copies::repair(disk, copy, envelope::VOTE, &content)?;
                repaired.extend(copy.damage(Structure::Vote));
            }
        }
        let open = |copy: &copies::Copy| {
            let opened = disk.open(&copy.file, Open::Write);
            opened.map_err(|error| OpenError::io(&*copy.file, error))
        };
        let files = [open(&found[0])?, open(&found[1])?];
        // Whatever was read may be in the cache only.
        for (file, copy) in files.iter().zip(&found) {
            file.sync_data().map_err(|error| OpenError::io(&*copy.file, error))?;
        }
        Ok((Self { files, space, sequence, vote, poisoned: false }, repaired))
    }

    /// The current vote.
    pub fn vote(&self) -> Vote {
        self.vote
    }

    /// Replaces the vote; durable in both copies on return. The term never goes back. A failure
    /// poisons: which vote a restart finds is unknown.
    pub fn write(&mut self, vote: Vote) -> Result<(), WriteError> {
        assert!(vote.term >= self.vote.term, "terms only grow");
        if self.poisoned {
            return Err(Poisoned.into());
        }
        let content = encode(self.space, self.sequence + 1, vote);
        let bytes = envelope::encode(envelope::VOTE, &content);
        for file in &self.files {
            if let Err(error) = file.write_at(&bytes, 0).and_then(|()| file.sync_data()) {
                self.poisoned = true;
                return Err(WriteError::io(NAME, error));
            }
        }
        self.sequence += 1;
        self.vote = vote;
        Ok(())
    }
}

/// The newest intact copy (sequence, vote, space) and both copies, without repairing.
pub(crate) fn read(disk: &dyn Disk) -> Result<(u64, Vote, [u8; 16], [copies::Copy; 2]), OpenError> {
    let mut found = copies::read(disk, NAME, envelope::VOTE)?;
    let mut newest: Option<(u64, Vote, [u8; 16])> = None;
    for copy in &mut found {
        let Ok(content) = &copy.content else { continue };
        match decode(content) {
            Some((space, sequence, vote)) => {
                if newest.is_none_or(|newest| newest.0 < sequence) {
                    newest = Some((sequence, vote, space));
                }
            }
            None => copy.content = Err(crate::format::Fault::Bad("fields out of bounds")),
        }
    }
    match newest {
        Some((sequence, vote, space)) => Ok((sequence, vote, space, found)),
        None if found.iter().all(copies::Copy::missing) => {
            // An identity without a vote: somebody removed both files.
            Err(found[0].error(Structure::Vote))
        }
        None => Err(found
            .iter()
            .find(|copy| !copy.missing())
            .unwrap_or(&found[0])
            .error(Structure::Vote)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CrashKeeps, MemoryDisk};

    const SPACE: [u8; 16] = [7; 16];

    fn vote(term: u64) -> Vote {
        Vote { term, voted_for: 1, commit: term * 10 }
    }

    #[test]
    fn golden() {
        crate::format::check::golden(
            &encode(SPACE, 3, Vote { term: 4, voted_for: 5, commit: 6 }),
            concat!(
                "070707070707070707070707070707070300000000000000",
                "040000000000000005000000000000000600000000000000",
            ),
        );
    }

    #[test]
    fn the_newest_vote_survives_any_single_flip() {
        let disk = MemoryDisk::new();
        let mut file = VoteFile::create(&disk, SPACE).unwrap();
        assert_eq!(file.vote(), Vote::default());
        for term in 1..4 {
            file.write(vote(term)).unwrap();
        }
        for copy in ["vote.a", "vote.b"] {
            for at in 0..disk.bytes(copy).unwrap().len() as u64 {
                let disk = disk.after_crash(CrashKeeps::Synced);
                disk.damage(copy, at, |bytes| bytes[0] ^= 0x40);
                let (file, repaired) = VoteFile::open(&disk, SPACE).unwrap();
                assert_eq!(file.vote(), vote(3));
                assert_eq!(repaired[0].file, copy);
                assert_eq!(VoteFile::open(&disk, SPACE).unwrap().1, []);
            }
        }
        assert!(matches!(VoteFile::open(&disk, [0; 16]), Err(OpenError::OtherSpace { .. })));
    }

    #[test]
    fn a_crash_at_any_step_keeps_the_old_vote_or_the_new_one() {
        let origin = MemoryDisk::new();
        VoteFile::create(&origin, SPACE).unwrap().write(vote(1)).unwrap();
        for step in 0.. {
            for seed in 0..20 {
                let disk = origin.after_crash(CrashKeeps::Everything);
                let mut file = VoteFile::open(&disk, SPACE).unwrap().0;
                disk.fail_after(step);
                let written = file.write(vote(2));
                let found = VoteFile::open(&disk.after_crash(CrashKeeps::Some(seed)), SPACE);
                let found = found.unwrap().0.vote();
                if written.is_ok() {
                    assert_eq!(found, vote(2));
                    if seed == 19 {
                        return;
                    }
                } else {
                    assert!(found == vote(1) || found == vote(2));
                    assert!(matches!(file.write(vote(3)), Err(WriteError::Poisoned(_))));
                }
            }
        }
    }
}
