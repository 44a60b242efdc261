//! Own records of one branch in one stream, as runs: what a view is computed from.

/// A run of own records: consecutive indexes that stand next to each other in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Index at which the run joined the branch. Equal to `first` if its records were appended
    /// one by one (record `k` joined at `first + k`); above all its records' indexes if it was
    /// spliced in by a promotion (all joined at `at`).
    pub(crate) at: u64,
    /// Index of the first record; record `k` has `first + k`.
    pub(crate) first: u64,
    /// Number of records, at least 1.
    pub(crate) count: u64,
    /// Own records in the runs before it.
    pub(crate) own_before: u64,
    /// Length of the parent's part of the view when it joined. Never falls from run to run.
    pub(crate) parent_len: u64,
}

impl Run {
    pub(crate) fn is_plain(&self) -> bool {
        self.at == self.first
    }

    /// Offset of its first record in the view.
    pub(crate) fn start(&self) -> u64 {
        self.parent_len + self.own_before
    }

    /// Index at which its last record joined.
    pub(crate) fn last_joined(&self) -> u64 {
        if self.is_plain() { self.at + self.count - 1 } else { self.at }
    }

    /// How many of its records had joined at index `bound` (inclusive).
    fn joined(&self, bound: u64) -> u64 {
        if bound < self.at {
            0
        } else if self.is_plain() {
            self.count.min(bound - self.at + 1)
        } else {
            self.count
        }
    }
}

/// Runs in the order in which they joined, hence also in the order of their offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(pub(crate) Vec<Run>);

/// Where an offset of a view leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// An own record: its index, and how many records with the following indexes follow.
    Own { index: u64, count: u64 },
    /// A record of the parent's view: its offset there, and after how many the next own record
    /// comes (`u64::MAX` if none does).
    Parent { offset: u64, count: u64 },
}

impl Runs {
    /// Own records.
    pub(crate) fn total(&self) -> u64 {
        self.0.last().map_or(0, |run| run.own_before + run.count)
    }

    /// Own records that had joined at index `bound` (inclusive).
    pub(crate) fn total_at(&self, bound: u64) -> u64 {
        if self.0.last().is_none_or(|run| run.last_joined() <= bound) {
            return self.total();
        }
        let after = self.0.partition_point(|run| run.at <= bound);
        match after.checked_sub(1).and_then(|i| self.0.get(i)) {
            Some(run) => run.own_before + run.joined(bound),
            None => 0,
        }
    }

    /// Adds records that join at `at`, behind `parent_len` records of the parent's view.
    pub(crate) fn push(&mut self, at: u64, first: u64, count: u64, parent_len: u64) {
        assert!(count > 0 && first <= at, "a run has records and they are not of the future");
        let own_before = self.total();
        let run = Run { at, first, count, own_before, parent_len };
        if let Some(last) = self.0.last_mut() {
            assert!(last.last_joined() <= at && last.parent_len <= parent_len, "views only grow");
            let adjacent = last.first + last.count == first && last.parent_len == parent_len;
            let together = if run.is_plain() { last.is_plain() } else { last.at == at };
            if adjacent && together {
                last.count += count;
                return;
            }
        }
        self.0.push(run);
    }

    /// What stands at an offset of the view. The offset must lie within the view.
    pub(crate) fn find(&self, offset: u64) -> Hit {
        let after = self.0.partition_point(|run| run.start() <= offset);
        let next = self.0.get(after).map_or(u64::MAX, Run::start);
        let Some(run) = after.checked_sub(1).and_then(|i| self.0.get(i)) else {
            return Hit::Parent { offset, count: next - offset };
        };
        let within = offset - run.start();
        if within < run.count {
            Hit::Own { index: run.first + within, count: run.count - within }
        } else {
            Hit::Parent { offset: offset - run.own_before - run.count, count: next - offset }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Runs {
        let mut runs = Runs::default();
        runs.push(5, 5, 1, 2); // offset 2
        runs.push(6, 6, 2, 2); // offsets 3, 4: merged with the first
        runs.push(20, 9, 3, 4); // spliced: offsets 7, 8, 9
        runs.push(20, 12, 1, 4); // the same splice, adjacent: offset 10
        runs.push(20, 15, 1, 4); // the same splice, apart: offset 11
        runs
    }

    #[test]
    fn adjacent_runs_of_one_kind_merge() {
        let run = |at, first, count, own_before, parent_len| Run {
            at,
            first,
            count,
            own_before,
            parent_len,
        };
        assert_eq!(runs().0, [run(5, 5, 3, 0, 2), run(20, 9, 4, 3, 4), run(20, 15, 1, 7, 4)]);
        let mut apart = Runs::default();
        apart.push(5, 5, 1, 2);
        apart.push(6, 6, 1, 3);
        assert_eq!(apart.0.len(), 2, "the parent grew in between");
        let mut kinds = Runs::default();
        kinds.push(20, 9, 1, 0);
        kinds.push(30, 10, 1, 0);
        assert_eq!(kinds.0.len(), 2, "two promotions stay two runs");
    }

    #[test]
    fn offsets_lead_to_own_records_or_the_parent() {
        let runs = runs();
        assert_eq!(runs.find(0), Hit::Parent { offset: 0, count: 2 });
        assert_eq!(runs.find(1), Hit::Parent { offset: 1, count: 1 });
        assert_eq!(runs.find(2), Hit::Own { index: 5, count: 3 });
        assert_eq!(runs.find(4), Hit::Own { index: 7, count: 1 });
        assert_eq!(runs.find(5), Hit::Parent { offset: 2, count: 2 });
        assert_eq!(runs.find(7), Hit::Own { index: 9, count: 4 });
        assert_eq!(runs.find(11), Hit::Own { index: 15, count: 1 });
        assert_eq!(runs.find(12), Hit::Parent { offset: 4, count: u64::MAX - 12 });
    }

    #[test]
    fn counts_as_of_an_index_split_plain_runs_and_keep_splices_whole() {
        let runs = runs();
        let counts: Vec<u64> = [4, 5, 6, 7, 8, 19, 20, 21].map(|b| runs.total_at(b)).into();
        assert_eq!(counts, [0, 1, 2, 3, 3, 3, 8, 8]);
        assert_eq!(runs.total(), 8);
        assert_eq!(Runs::default().total_at(7), 0);
    }
}
