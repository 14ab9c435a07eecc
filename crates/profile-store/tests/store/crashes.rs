//! A replica that dies at any change, done or not, and a store that fails at any operation: the table has each row once afterwards, and the next
//! replica goes on.

use std::sync::Arc;

use jiff::SignedDuration;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use unhex_profile_store::objects::Objects;

use crate::fleet::{Now, Reader, at_once, replica, rows};
use crate::ingested::{Row, hour, minute, put, sums_of};
use crate::replicas::keys;
use crate::watched::{Last, Watched};

/// What comes before each crash: three segments, of which `compacted` are compacted already, and a day passes if they are to be swept.
async fn prepared(objects: &Objects, now: &Now, compacted: u64) -> Vec<Row> {
    now.set(minute(70));
    let mut all = Vec::new();
    for segment in 0..3 {
        let rows = rows(segment, 15);
        put(objects, now.publish(u8::try_from(segment).unwrap()), &rows).await;
        all.extend(rows);
        if segment + 1 == compacted {
            now.pass(10);
            let (sound, _spill) = replica(objects, now, at_once());
            sound.compact(hour()).await.unwrap().unwrap();
        }
    }
    now.pass(10);
    all
}

/// Lets a replica die after each number of changes, until one lives. How many died.
async fn die_everywhere(compacted: u64, days: i64, last: Last) -> i64 {
    for after in 0.. {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let sound = Objects::over(Arc::clone(&store));
        let now = Now::at(minute(70));
        let all = prepared(&sound, &now, compacted).await;
        now.set(now.now() + SignedDuration::from_hours(25 * days));
        let expected = sums_of(&all);
        let dying = Watched::stopping(store, after, last);
        let (dies, _spill) = replica(&Objects::over(dying), &now, at_once());
        let round = dies.round().await;
        let lived = round.as_ref().is_ok_and(|round| round.failed == 0);
        let reader = Reader::of(&sound, &now);
        let what = format!("{last:?} after {after} changes: {round:?}");
        let expected = [expected.clone(), expected];
        assert_eq!(reader.sums_by_hand(hour()).await, expected, "{what}");
        let (heir, _spill) = replica(&sound, &now, at_once());
        for _ in 0..2 {
            assert_eq!(heir.round().await.unwrap().failed, 0, "{what}");
            assert_eq!(reader.sums_by_hand(hour()).await, expected, "{what}");
            now.pass(25 * 60);
        }
        assert_eq!(
            keys(&sound).await.len(),
            3,
            "{what}: two outputs and a record"
        );
        if lived {
            return after;
        }
    }
    unreachable!("one lives at last")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_change_of_a_compaction_loses_nothing_and_doubles_nothing() {
    for last in [Last::Fails, Last::IsLost] {
        let died = die_everywhere(0, 0, last).await;
        assert_eq!(died, 3, "two outputs and a record");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_change_of_a_second_compaction_and_the_sweep_after_it_does_no_harm() {
    for last in [Last::Fails, Last::IsLost] {
        let died = die_everywhere(2, 1, last).await;
        assert!(died > 4, "{died}: removals, two outputs and a record");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_fails_is_never_taken_for_absence() {
    for at in 0.. {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let sound = Objects::over(Arc::clone(&store));
        let now = Now::at(minute(70));
        let all = prepared(&sound, &now, 2).await;
        let failing = Watched::failing_once(store, at);
        let (unlucky, _spill) = replica(&Objects::over(Arc::clone(&failing) as _), &now, at_once());
        let round = unlucky.round().await;
        let reader = Reader::of(&sound, &now);
        let expected = sums_of(&all);
        let found = reader.sums_by_hand(hour()).await;
        assert_eq!(
            found,
            [expected.clone(), expected],
            "operation {at}: {round:?}"
        );
        if failing.operations() <= at {
            assert!(round.is_ok_and(|round| round.failed == 0 && round.compacted == 1));
            assert!(at > 12, "{at}: LISTs, reads, three PUTs");
            return;
        }
        let failed = round.map_or(1, |round| round.failed);
        assert_eq!(failed, 1, "operation {at}");
    }
}
