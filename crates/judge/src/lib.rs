//! The judge of histories: pure, shares no code with what it judges.
//!
//! This first part judges *durability of a log*: clients append records one after the other, some
//! appends are acknowledged, some fail for certain, some have an unknown outcome (a crash, a lost
//! answer). Afterwards somebody reads the log. [`durability::judge`] says whether what was read is
//! possible: every acknowledged record there, once, in the order of its client and of real time;
//! nothing there that was refused or never written.
//!
//! It cannot see: reads that were too old while the run went on (only the final read counts), and
//! records of different clients that overlapped in time and were ordered either way, which is
//! allowed.

pub mod durability;
