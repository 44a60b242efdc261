//! The bytes of an [`Outcome`] and of a [`Refusal`].
//!
//! | structure | bytes |
//! |---|---|
//! | outcome | `O`, 1, tag 1, then its fields in the order of declaration |
//! | refusal | `R`, 1, tag 1, then its fields in the order of declaration |
//!
//! Inside a state the same tags and fields stand without the two header bytes, and a byte 0
//! (outcome) or 1 (refusal) before them. Tags are never given another meaning.

use super::{Malformed, Reader, Wire, decode, encode, write_count};
use crate::{Closed, Field, Invalid, Outcome, Refusal, limits};

const OUTCOME_HEADER: [u8; 2] = [b'O', 1];
const REFUSAL_HEADER: [u8; 2] = [b'R', 1];

impl Outcome {
    /// The outcome's bytes, at most [`limits::OUTCOME_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(OUTCOME_HEADER, self, Wire::write)
    }

    /// Reads what [`Outcome::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Outcome, Malformed> {
        decode(OUTCOME_HEADER, bytes, Wire::read)
    }
}

impl Refusal {
    /// The refusal's bytes, at most [`limits::OUTCOME_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(REFUSAL_HEADER, self, Wire::write)
    }

    /// Reads what [`Refusal::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Refusal, Malformed> {
        decode(REFUSAL_HEADER, bytes, Wire::read)
    }
}

/// Writes and reads an enum whose fields all have one encoding.
macro_rules! wire_enum {
    ($type:ident, $what:literal, {
        $($tag:literal => $variant:ident $(($inner:ident))? $({ $($field:ident),* })?,)*
    }) => {
        impl Wire for $type {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$variant $(($inner))? $({ $($field),* })? => {
                        out.push($tag);
                        $($inner.write(out);)?
                        $($($field.write(out);)*)?
                    })*
                }
            }

            fn read(from: &mut Reader<'_>) -> Result<$type, Malformed> {
                match from.tag()? {
                    $($tag => {
                        $(let $inner = Wire::read(from)?;)?
                        $($(let $field = Wire::read(from)?;)*)?
                        Ok($type::$variant $(($inner))? $({ $($field),* })?)
                    })*
                    tag => from.unknown($what, tag),
                }
            }
        }
    };
}

wire_enum!(Outcome, "outcome", {
    0 => Appended { index, offset },
    1 => Put { index },
    2 => Number { index, value },
    3 => Forked { branch, index },
    4 => Closing { index },
    5 => Promoted { index, into, records, keys },
    6 => Discarded { index },
    7 => Reopened { index },
    8 => Committed { index },
    9 => Done { index },
    10 => Session { session, index },
    11 => Checkpointed { index },
});

wire_enum!(Closed, "end of a branch", {
    0 => Promoted { into, at },
    1 => Discarded { at },
    2 => Expired { at },
});

wire_enum!(Invalid, "invalid argument", {
    0 => Empty(field),
    1 => Characters(field),
    2 => SeqAnswered,
    3 => SessionNeverGiven,
    4 => TtlZero,
    5 => LiveForkAt,
    6 => ForkPosition { oldest, newest },
    7 => Main,
    8 => TargetWithin,
    9 => ParentVersion,
    10 => TakeFork,
    11 => UnknownCheck,
});

wire_enum!(Refusal, "refusal", {
    0 => UnknownBranch { name },
    1 => UnknownBranchId { branch },
    2 => BranchClosed { branch, how },
    3 => BranchClosing { branch },
    4 => NameTaken { name, branch },
    5 => CheckTaken { branch },
    6 => Invalid(invalid),
    7 => TooLarge { field, size, max },
    8 => Conflict { listed, count },
    9 => OffsetMismatch { expected, actual },
    10 => VersionMismatch { expected, actual },
    11 => NotANumber { index },
    12 => NumberOverflow { value, delta },
    13 => BaseMoved { branch, base, current },
    14 => TablesMoved { branch, expected, current },
    15 => ChecksMoved { branch, at },
    16 => TableRootGone { oldest_valid, newest_valid },
    17 => NotClosing { branch, closing },
    18 => UsedSince { branch, last_used },
    19 => NeedsTarget { branch, parent },
    20 => SessionExpired { session },
    21 => OutcomeForgotten { session, seq },
    22 => WindowFull { session },
    23 => TooManySessions { count },
    24 => TooManyBranches { count },
    25 => TooDeep { depth },
    26 => TooManyStreams { branch, count },
    27 => TooManyChecks { branch, count },
});

wire_enum!(Field, "field", {
    0 => BranchName,
    1 => StreamName,
    2 => Key,
    3 => Record,
    4 => Value,
    5 => Batch,
    6 => BatchBytes,
    7 => Actor,
    8 => Intent,
    9 => Owner,
    10 => CheckName,
    11 => CheckSql,
    12 => Summary,
    13 => Body,
    14 => LeaveOut,
    15 => Overwrite,
    16 => Conflicts,
});

/// The conflicting keys that a refusal lists.
impl Wire for Vec<(crate::StreamName, crate::Key)> {
    fn write(&self, out: &mut Vec<u8>) {
        write_count(self.len(), out);
        for (stream, key) in self {
            stream.write(out);
            key.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count(Field::Conflicts, limits::CONFLICTS_LISTED, 10)?;
        (0..count).map(|_| Ok((Wire::read(from)?, Wire::read(from)?))).collect()
    }
}

impl Wire for Result<Outcome, Refusal> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Ok(outcome) => {
                out.push(0);
                outcome.write(out);
            }
            Err(refusal) => {
                out.push(1);
                refusal.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.tag()? {
            0 => Ok(Ok(Outcome::read(from)?)),
            1 => Ok(Err(Refusal::read(from)?)),
            tag => from.unknown("result", tag),
        }
    }
}
