//! Tests of the replica through its public interface.

mod codec;
mod desk;
mod restart;
mod schedules;
mod transcripts;
