//! Sans-IO replication: unordered log and Raft order entries as one step function.
