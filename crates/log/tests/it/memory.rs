//! What an idle fork costs in memory.

use anabranch_log::*;

use crate::support::{MAIN, fork_of};

/// Bytes of an idle fork, counted from the structures that hold it: its branch, its name (shared
/// with the map of names), its owner, and a slot of the map in half-full nodes.
fn idle_fork_bytes(name: &str, owner: &str) -> usize {
    let allocation = |bytes: usize| bytes.next_multiple_of(16) + 8;
    let counters = 2 * size_of::<usize>();
    let slot = size_of::<BranchName>() + size_of::<BranchId>();
    size_of::<Branch>()
        + allocation(counters + name.len())
        + allocation(owner.len())
        + 2 * slot
        + slot / 2
}

#[test]
fn an_idle_fork_costs_at_most_400_bytes() {
    assert!(size_of::<Branch>() <= 160, "a branch has {} bytes", size_of::<Branch>());
    let bytes = idle_fork_bytes("agents/restock/2026-07-16/0042", "restock-planner@example");
    assert!(bytes <= 400, "an idle fork has {bytes} bytes");
}

#[test]
fn many_forks_of_one_branch_stay_cheap_to_make_and_to_write_beside() {
    let mut state = State::new();
    let started = (0..100_000u64).map(|i| fork_of(MAIN, &format!("f{i}"), ForkKind::Live, None));
    for operation in started {
        assert!(state.apply(&crate::support::entry(operation)).outcome.is_ok());
    }
    assert_eq!(state.branches().count(), 100_001);
    let orders = StreamName::new("orders").unwrap();
    for _ in 0..1000 {
        let append = crate::support::append_of(MAIN, "orders", 1);
        assert!(state.apply(&crate::support::entry(append)).outcome.is_ok());
    }
    let last = state.resolve(&BranchName::new("f99999").unwrap()).unwrap();
    assert_eq!(state.length(last, &orders), 1000);
    assert!(state.branch(last).unwrap().own_records() == 0, "nothing was copied into the fork");
    let before = state.encode().len();
    let append = crate::support::append_of(MAIN, "orders", 1);
    assert!(state.apply(&crate::support::entry(append)).outcome.is_ok());
    assert_eq!(state.encode().len(), before, "an append in a run leaves nothing per fork");
}
