//! What a forkable log is: vocabulary, branch tree, sessions and the deterministic state.
