//! Rounds of latencies and rates, and how they are shown.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies of one round of one variant, and how long the round took.
#[derive(Clone, Debug)]
pub(super) struct Round {
    latencies: Histogram<u64>,
    elapsed: Duration,
}

impl Round {
    pub(super) fn new() -> Round {
        let latencies = Histogram::new(3).expect("three digits are supported");
        Round { latencies, elapsed: Duration::ZERO }
    }

    pub(super) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.latencies.record(nanos).expect("the histogram resizes itself");
    }

    pub(super) fn took(mut self, elapsed: Duration) -> Round {
        self.elapsed = elapsed;
        self
    }

    pub(super) fn add(&mut self, other: &Round) {
        self.latencies.add(&other.latencies).expect("the histogram resizes itself");
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts below 2^52")]
        let count = self.latencies.len() as f64;
        count / self.elapsed.as_secs_f64().max(1e-9)
    }

    #[expect(clippy::cast_precision_loss, reason = "nanoseconds below 2^52")]
    fn micros(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1_000.0
    }
}

/// All rounds of one variant.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds(Vec<Round>);

impl Rounds {
    pub(super) fn push(&mut self, round: Round) {
        self.0.push(round);
    }

    fn of(&self, measure: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.0.iter().map(measure).collect())
    }

    pub(super) fn rate(&self) -> Spread {
        self.of(Round::per_second)
    }

    pub(super) fn p50(&self) -> Spread {
        self.of(|round| round.micros(0.5))
    }

    pub(super) fn p99(&self) -> Spread {
        self.of(|round| round.micros(0.99))
    }

    /// Rate per second, p50 and p99 in microseconds, as cells.
    pub(super) fn cells(&self) -> [String; 3] {
        [self.rate().show(0), self.p50().show(1), self.p99().show(1)]
    }
}

/// Median and range over rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    lowest: f64,
    highest: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Spread {
        assert!(!values.is_empty(), "there is at least one round");
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Spread { median, lowest: values[0], highest: values[values.len() - 1] }
    }

    pub(super) fn show(self, digits: usize) -> String {
        let Spread { median, lowest, highest } = self;
        format!("{median:.digits$} [{lowest:.digits$} .. {highest:.digits$}]")
    }
}

/// A ratio as a percentage.
pub(super) fn percent(part: f64, whole: f64) -> String {
    format!("{:.0} %", 100.0 * part / whole.max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(spread.show(1), "2.0 [1.0 .. 3.0]");
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).show(1), "2.5 [1.0 .. 4.0]");
    }

    #[test]
    fn rates_and_quantiles() {
        let mut round = Round::new();
        for micros in 1..=100 {
            round.record(Duration::from_micros(micros));
        }
        let mut rounds = Rounds::default();
        rounds.push(round.took(Duration::from_secs(2)));
        assert_eq!(rounds.rate().show(0), "50 [50 .. 50]");
        assert!((rounds.p50().median - 50.0).abs() < 1.0);
        assert!((rounds.p99().median - 99.0).abs() < 1.0);
    }
}
