//! The simulator's only source of chance: xoshiro256**, seeded with SplitMix64.
//!
//! The same seed gives the same draws on every machine and in every run. Independent parts take
//! their own generator with [`Random::fork`], so that a change of one part does not shift the
//! draws of the others.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator for a seed; every seed is good.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        let mut mixer = seed;
        let mut next = || {
            mixer = mixer.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(mixer)
        };
        Random { state: [next(), next(), next(), next()] }
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "the field's word for a generator's step")]
    pub fn next(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A generator of its own for another part.
    #[must_use]
    pub fn fork(&mut self) -> Random {
        Random::new(self.next())
    }

    /// A number in `0..bound`. The bias of the remainder is below 2^-32 for the bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing to choose from");
        self.next() % bound
    }

    /// A number in `first..=last`.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        assert!(first <= last, "nothing to choose from");
        first + self.below(last - first + 1)
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let count = items.len() as u64;
        &items[usize::try_from(self.below(count)).expect("below the length")]
    }

    /// One of the items, each as likely as its weight says.
    pub fn weighted<T: Copy>(&mut self, items: &[(T, u64)]) -> T {
        let total = items.iter().map(|(_, weight)| weight).sum();
        let mut at = self.below(total);
        for (item, weight) in items {
            if at < *weight {
                return *item;
            }
            at -= weight;
        }
        unreachable!("the weights add up to the total")
    }
}

/// The finalizer of SplitMix64: every bit of the input moves every bit of the output.
#[must_use]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut random = Random::new(7);
        let mut seen = [0; 5];
        for _ in 0..1_000 {
            let drawn = random.between(10, 14);
            seen[usize::try_from(drawn - 10).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        let mut heavy = 0;
        for _ in 0..1_000 {
            heavy += u64::from(random.weighted(&[(0, 1), (1, 9)]) == 1);
        }
        assert!((850..950).contains(&heavy), "{heavy}");
    }
}
