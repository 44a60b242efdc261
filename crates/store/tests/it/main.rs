//! The store as a whole: a small space in memory and on disk, damaged in every place.

mod crash;
mod findings;
mod fixture;
mod flips;
mod noise;
mod real;
