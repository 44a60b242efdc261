//! Breaking things on purpose: simulator, faults, workloads, benchmarks.
//!
//! - [`sim`]: one node over a disk that crashes at any operation; everything from one seed.
//! - [`kill`]: a real process, killed at random moments.
//! - [`bench`]: measured programs, with the environment they ran in.

pub mod bench;
pub mod kill;
pub mod sim;
