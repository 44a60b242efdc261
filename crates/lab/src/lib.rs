//! Breaking things on purpose: simulator, faults, workloads, benchmarks.
