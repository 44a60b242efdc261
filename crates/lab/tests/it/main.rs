//! Crashes: simulated ones and real ones.

mod kill;
mod mutants;
mod scenarios;
mod sim;
