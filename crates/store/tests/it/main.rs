//! The store as a whole: a small space in memory and on disk, damaged in every place.

mod crash;
mod fixture;
mod flips;
mod real;
