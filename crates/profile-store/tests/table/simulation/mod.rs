//! Replicas that ingest, compact, delete, sweep and read at once, each a step at a time in an order that a
//! seed decides, with LISTs of many pages, stalls of hours, and deaths between any two writes.
//!
//! Each reading has every row once that was acknowledged before it began, as samples and as totals, none
//! that was deleted before, and none twice; no file that it needs is gone. With the naive rule, or
//! without one of the bounds that the fold relies on, the same simulation finds rows that count twice or not at
//! all: so it can fail.

mod compactor;
mod ingester;
mod reader;
mod world;

use jiff::SignedDuration;

use compactor::{Compactor, Sweeper};
use ingester::{Deleter, Ingester};
use reader::Reader;
use world::{Found, World};

use crate::rule::Rule;

/// Steps of one run, all replicas together.
const STEPS: usize = 800;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) rule: Rule,
    /// Whether contents are sent again, rows deleted and objects swept.
    pub(crate) is_whole: bool,
    /// Whether a publish is given up when it is too old.
    pub(crate) gives_up: bool,
    /// How much too early the sweeper is.
    pub(crate) sweeps_early: SignedDuration,
    /// The longest time between two steps, which is rare.
    pub(crate) stall_hours: usize,
}

/// Ours, with all that happens.
const WHOLE: Config = Config {
    rule: Rule::Closure,
    is_whole: true,
    gives_up: true,
    sweeps_early: SignedDuration::ZERO,
    stall_hours: 20,
};

/// One of the replicas, or a part of one.
trait Replica {
    /// Goes on by one access to the store.
    fn step(&mut self, world: &mut World);

    /// Whether it is done with what it began, or died.
    fn is_idle(&self) -> bool;
}

fn run(config: Config, seed: u64) -> Found {
    let mut world = World::new(config, seed);
    let mut replicas: Vec<Box<dyn Replica>> = vec![
        Box::new(Ingester::default()),
        Box::new(Ingester::default()),
        Box::new(Compactor::default()),
        Box::new(Compactor::default()),
        Box::new(Compactor::default()),
        Box::new(Reader::default()),
        Box::new(Reader::default()),
    ];
    if config.is_whole {
        replicas.push(Box::new(Sweeper::default()));
        replicas.push(Box::new(Sweeper::default()));
        replicas.push(Box::new(Deleter));
    }
    for _ in 0..STEPS {
        world.pass_time();
        let who = world.random.below(replicas.len());
        replicas[who].step(&mut world);
    }
    if config.is_whole {
        come_to_rest(&mut world);
    }
    world.found
}

/// Everybody stopped; what is left to compact and to sweep is done, in some days.
///
/// Then nothing is left but what counts, and the last tombstones of an hour that expired are gone, too.
fn come_to_rest(world: &mut World) {
    world.is_at_rest = true;
    for _ in 0..4 {
        world.now += SignedDuration::from_hours(48);
        finish(&mut Compactor::default(), world);
        finish(&mut Sweeper::default(), world);
        finish(&mut Reader::default(), world);
    }
    world.check_rest();
}

/// Has somebody begin something, and bring it to its end.
fn finish(replica: &mut impl Replica, world: &mut World) {
    replica.step(world);
    while !replica.is_idle() {
        replica.step(world);
    }
}

/// What many runs found together.
fn found(config: Config, seeds: std::ops::Range<u64>) -> Found {
    let mut all = Found::default();
    for seed in seeds {
        all.add(run(config, seed));
    }
    all
}

#[test]
fn no_reading_misses_an_acknowledged_row_or_has_one_twice() {
    let found = found(WHOLE, 0..60);
    assert_eq!(found.wrong, [""; 0], "of {} readings", found.readings);
    assert_eq!(found.left_over, [""; 0]);
    // What could go wrong did happen.
    assert!(found.readings > 500, "{found:?}");
    assert!(found.published > 300, "{found:?}");
    assert!(found.resent > 100, "{found:?}");
    assert!(found.given_up > 100, "{found:?}");
    assert!(found.deaths > 100, "{found:?}");
    assert!(found.rejected > 100, "{found:?}");
    assert!(found.swept > 3_000, "{found:?}");
    assert!(found.deleted > 50, "{found:?}");
}

#[test]
fn the_naive_rule_counts_rows_twice() {
    let naive = Config {
        rule: Rule::Naive,
        is_whole: false,
        ..WHOLE
    };
    let wrong = found(naive, 0..40);
    assert!(
        wrong.wrong.iter().any(|what| what.contains("2 times")),
        "{wrong:?}"
    );
    let ours = Config {
        rule: Rule::Closure,
        ..naive
    };
    let right = found(ours, 0..40);
    assert_eq!(right.wrong, [""; 0], "of {} readings", right.readings);
}

#[test]
fn a_sweeper_that_is_a_day_too_early_loses_rows() {
    let early = Config {
        sweeps_early: SignedDuration::from_hours(24),
        ..WHOLE
    };
    let found = found(early, 0..20);
    assert!(!found.wrong.is_empty(), "of {} readings", found.readings);
}

#[test]
fn a_publish_that_never_gives_up_loses_rows() {
    let patient = Config {
        gives_up: false,
        stall_hours: 60,
        ..WHOLE
    };
    let found = found(patient, 0..60);
    assert!(!found.wrong.is_empty(), "of {} readings", found.readings);
}
