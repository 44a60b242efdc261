//! Tests through the public interface: the model twin, random schedules, and single rules.

mod codec;
mod memory;
mod model;
mod rules;
mod schedule;
mod sessions;
mod support;
