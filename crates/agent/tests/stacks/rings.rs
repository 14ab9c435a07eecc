//! Rings of the kernel: no record is torn where the ring goes round, and what did not fit is told.

use std::time::{Duration, Instant};

use unhex_agent::clock::monotonic_nanos;
use unhex_agent::perf_events::{
    Event, PerProcessor, Record, Ring, SampledRegisters, Settings, Stamped,
};
use unhex_testkit::run;

use crate::privileges::may_follow_all_processes;

const DEADLINE: Duration = Duration::from_mins(1);
const STACK_BYTES: u32 = 4096;

/// Fifteen samples fit into a ring of it.
const RING_BYTES: usize = 128 << 10;

/// Ten thousand samples a second of each processor.
fn opened() -> PerProcessor {
    let settings = Settings::samples(100_000, SampledRegisters::TO_UNWIND, STACK_BYTES);
    let rings = PerProcessor::open(settings, RING_BYTES).unwrap();
    rings.events().try_for_each(Event::enable).unwrap();
    rings
}

/// Gives the processors something to do.
fn work() {
    let end = Instant::now() + Duration::from_millis(1);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[test]
fn records_are_whole_and_in_order_however_often_the_ring_goes_round() {
    if !may_follow_all_processes() {
        return;
    }
    let mut rings = opened();
    let (mut passed_bytes, mut samples) = (0, 0);
    run::poll("ten rounds", DEADLINE, || {
        work();
        rings.rings().for_each(Ring::update);
        let now = monotonic_nanos();
        while let Some((time, ring)) = rings.earliest(u64::MAX) {
            let bytes = ring.peek().unwrap();
            passed_bytes += bytes.len();
            let size = bytes.len();
            let stamped = Stamped::parse(bytes, SampledRegisters::TO_UNWIND).unwrap();
            assert_eq!(stamped.time_nanos, time);
            assert!(time <= now, "{time} is after {now}");
            if let Record::Sampled(sample) = &stamped.record {
                samples += 1;
                assert!(sample.stack.len() <= sample.stack_room_bytes);
                assert_eq!(sample.registers.is_none(), sample.stack_room_bytes == 0);
                assert!(sample.stack_room_bytes <= STACK_BYTES.try_into().unwrap());
            }
            ring.skip(size);
        }
        rings.rings().for_each(Ring::release);
        (passed_bytes >= 20 * RING_BYTES && samples > 100).then_some(())
    });
}

#[test]
fn the_earliest_record_of_all_rings_comes_first_and_none_that_is_newer_than_asked_for() {
    if !may_follow_all_processes() {
        return;
    }
    let mut rings = opened();
    run::poll("samples", DEADLINE, || {
        work();
        rings.rings().for_each(Ring::update);
        let until = monotonic_nanos();
        work();
        rings.rings().for_each(Ring::update);
        let mut times = Vec::new();
        while let Some((time, ring)) = rings.earliest(until) {
            times.push(time);
            let size = ring.peek().unwrap().len();
            ring.skip(size);
        }
        assert!(times.is_sorted(), "{times:?}");
        assert!(times.iter().all(|&time| time <= until), "{times:?}");
        let newer = rings.rings().filter_map(|ring| ring.next_time()).min();
        assert!(newer.is_none_or(|newer| newer > until));
        rings.rings().for_each(Ring::release);
        (times.len() > 5 && newer.is_some()).then_some(())
    });
}

#[test]
fn what_did_not_fit_is_told_as_lost() {
    if !may_follow_all_processes() {
        return;
    }
    let mut rings = opened();
    let mut lost = 0;
    run::poll("lost samples", DEADLINE, || {
        // Some hundred samples.
        (0..20).for_each(|_| work());
        for ring in rings.rings() {
            ring.update();
            while let Some(bytes) = ring.peek() {
                let size = bytes.len();
                if let Some(Record::Lost(count)) =
                    Stamped::parse(bytes, SampledRegisters::TO_UNWIND).map(|stamped| stamped.record)
                {
                    lost += count;
                }
                ring.skip(size);
            }
            ring.release();
        }
        (lost > 0).then_some(())
    });
}
