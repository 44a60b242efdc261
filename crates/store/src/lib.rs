//! Bytes on disk: journal, chunks, history, checkpoints, recovery, verify.
