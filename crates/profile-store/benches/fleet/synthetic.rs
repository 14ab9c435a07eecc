//! The fleet that benches measure: who has which stack how often, the same in every run.
//!
//! 40 hosts of 64 cores are 40 % busy and sampled 19 times a second: 19,456 samples a second, 70 million an hour, 1.7 thousand million a day. How often a
//! stack of the 20,000 of a service is seen falls with its rank as `1/rank^1.05`. Half of the hosts run version 2.3, the others 2.4. How many samples of a
//! stack a host has in a minute is drawn from Poisson's distribution, so that an hour has 14 to 20 million rows of 60 s, each of three to five samples.

use unhex_pprof::StackHash;

pub(crate) const HOSTS: u64 = 40;
pub(crate) const VERSIONS: [&str; 2] = ["2.3", "2.4"];
/// Of a service.
pub(crate) const STACKS: u64 = 20_000;
/// Of all hosts together.
pub(crate) const SAMPLES_PER_SECOND: u64 = HOSTS * 64 * 19 * 2 / 5;
/// CPU time of one sample: 19 Hz.
pub(crate) const PERIOD_NANOS: i64 = 52_631_578;

const EXPONENT: f64 = 1.05;
/// From here on the normal distribution is as good as Poisson's.
const NORMAL_FROM: f64 = 50.0;

/// The version that a host runs.
pub(crate) fn version_of(host: u64) -> usize {
    usize::from(host >= HOSTS / 2)
}

/// The number of a stack, as evenly spread as a hash is.
pub(crate) fn stack_hash(stack: u64) -> StackHash {
    let spread = u128::from(stack + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    StackHash(spread.to_be_bytes())
}

/// Numbers that look random and are the same in every run (splitmix64).
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    pub(crate) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// How often something happens that happens `mean` times on average.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "far below 2^63, and rounded on purpose"
    )]
    pub(crate) fn poisson(&mut self, mean: f64) -> i64 {
        if mean >= NORMAL_FROM {
            let (a, b) = (self.part(), self.part());
            let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
            return (mean + normal * mean.sqrt()).round().max(0.0) as i64;
        }
        let limit = (-mean).exp();
        let (mut product, mut count) = (self.part(), 0);
        while product > limit {
            product *= self.part();
            count += 1;
        }
        count
    }
}

/// Which stack is how frequent.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// The share of each rank and of all before it.
    sums: Vec<f64>,
}

impl Ranks {
    pub(crate) fn new(stacks: u64) -> Self {
        let weights = (1..=stacks).map(|rank| (rank as f64).powf(-EXPONENT));
        let mut total = 0.0;
        let sums = weights.map(|weight| {
            total += weight;
            total
        });
        let mut sums: Vec<f64> = sums.collect();
        for sum in &mut sums {
            *sum /= total;
        }
        Self { sums }
    }

    /// The share of a rank, from 0.
    pub(crate) fn share(&self, rank: usize) -> f64 {
        let of = |rank: usize| self.sums.get(rank).copied().unwrap_or(1.0);
        of(rank) - rank.checked_sub(1).map_or(0.0, of)
    }

    /// A rank, the frequent ones more often.
    pub(crate) fn draw(&self, numbers: &mut Numbers) -> u64 {
        let part = numbers.part();
        self.sums.partition_point(|sum| *sum < part) as u64
    }
}
