//! Settings of one replica, checked before anything runs.

use std::fmt;

use anabranch_log::NodeId;

use crate::order::MAX_BATCH;

/// Settings of one replica. They are not stored; each start may choose others, except `node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This replica, not 0.
    pub node: NodeId,
    /// All voters, this replica among them.
    pub voters: Vec<NodeId>,
    /// Source of every choice that looks random. Equal seeds and events give equal effects.
    pub seed: u64,
    /// Ticks without a leader before an election may start; more than `heartbeat_ticks`.
    pub election_ticks: u16,
    /// Ticks between two signs of life of a leader, at least 1.
    pub heartbeat_ticks: u16,
    /// Durable unordered records that make the leader propose an order in the background, at
    /// least 1. Fewer wait for a tick, a read or [`crate::Event::Order`]. With 1 the order of a
    /// flush always rides the next flush.
    pub order_at: usize,
    /// Most records in one order entry, 1 to [`MAX_BATCH`].
    pub batch_max: usize,
}

impl Config {
    /// One voter alone, with the usual values.
    #[must_use]
    pub fn single(node: NodeId, seed: u64) -> Config {
        Config {
            node,
            voters: vec![node],
            seed,
            election_ticks: 10,
            heartbeat_ticks: 1,
            order_at: 1,
            batch_max: MAX_BATCH,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.node.0 == 0 {
            return Err(ConfigError::NodeZero);
        }
        if self.voters != [self.node] {
            return Err(ConfigError::Voters { count: self.voters.len() });
        }
        if self.heartbeat_ticks == 0 || self.election_ticks <= self.heartbeat_ticks {
            return Err(ConfigError::Ticks);
        }
        if self.order_at == 0 || !(1..=MAX_BATCH).contains(&self.batch_max) {
            return Err(ConfigError::Batch);
        }
        Ok(())
    }
}

/// Why settings are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Node 0 means "nobody" in a vote.
    NodeZero,
    /// This version runs one voter, and that is the node itself.
    Voters {
        /// Voters given.
        count: usize,
    },
    /// `heartbeat_ticks` is 0, or `election_ticks` is not above it.
    Ticks,
    /// `order_at` is 0, or `batch_max` is not in 1 to [`MAX_BATCH`].
    Batch,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::NodeZero => f.write_str("node 0 names nobody"),
            ConfigError::Voters { count } => {
                write!(f, "the only voter must be the node itself, voters={count}")
            }
            ConfigError::Ticks => {
                f.write_str("election ticks must exceed heartbeat ticks, both > 0")
            }
            ConfigError::Batch => write!(f, "order_at must be > 0, batch_max in 1 to {MAX_BATCH}"),
        }
    }
}

impl std::error::Error for ConfigError {}
