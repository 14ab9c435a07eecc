//! Work that many wait for is done once, and goes on when those who wait leave.
//!
//! The work is a task of its own, counted by a tracker so that a stop waits for it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// The result of a flight; `None` when its task was cut off or panicked.
pub(crate) type Landing<V> = Shared<BoxFuture<'static, Option<V>>>;

/// At most one running task per key.
pub(crate) struct SingleFlight<K, V> {
    flights: Arc<Mutex<HashMap<K, Landing<V>>>>,
    tasks: TaskTracker,
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// No flights yet; tasks will be counted by `tasks`.
    pub(crate) fn new(tasks: TaskTracker) -> Self {
        Self {
            flights: Arc::default(),
            tasks,
        }
    }

    /// The flight of `key`, if it runs.
    pub(super) fn running(&self, key: &K) -> Option<Landing<V>> {
        self.flights.lock().get(key).cloned()
    }

    /// Joins the flight of `key`, or starts one with the future that `work` makes.
    pub(crate) fn join<F>(&self, key: K, work: impl FnOnce() -> F) -> Landing<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&key) {
            return flight.clone();
        }
        let (sender, landing) = oneshot::channel();
        let mut landed = Landed {
            key: key.clone(),
            flights: Arc::clone(&self.flights),
            sender: Some(sender),
        };
        let future = work();
        let flight: Landing<V> = landing.map(Result::ok).boxed().shared();
        flights.insert(key, flight.clone());
        // A runtime that shuts down drops the task within `spawn`, and the guard takes the lock.
        drop(flights);
        // The guard removes the flight also when the task panics.
        self.tasks.spawn(async move {
            let value = future.await;
            let sender = landed.sender.take();
            drop(landed);
            // Nobody may wait any more.
            drop(sender.map(|sender| sender.send(value)));
        });
        flight
    }
}

impl<K, V> fmt::Debug for SingleFlight<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SingleFlight({} flights)", self.flights.lock().len())
    }
}

/// Removes its flight when dropped.
struct Landed<K: Eq + Hash, V> {
    key: K,
    flights: Arc<Mutex<HashMap<K, Landing<V>>>>,
    /// Dropped after the flight is removed, so that whoever sees no result may start anew.
    sender: Option<oneshot::Sender<V>>,
}

impl<K: Eq + Hash, V> Drop for Landed<K, V> {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn the_first_client_leaves_and_the_second_gets_the_result_of_the_same_work() {
        let flights: SingleFlight<u8, u8> = SingleFlight::new(TaskTracker::new());
        let gate = Arc::new(Semaphore::new(0));
        let runs = Arc::new(AtomicUsize::new(0));
        let work = || {
            let (gate, runs) = (Arc::clone(&gate), Arc::clone(&runs));
            async move {
                runs.fetch_add(1, Ordering::Relaxed);
                gate.acquire().await.unwrap().forget();
                7
            }
        };
        drop(flights.join(1, work));
        let second = flights.join(1, work);
        gate.add_permits(1);
        assert_eq!(second.await, Some(7));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert!(flights.flights.lock().is_empty());
    }

    #[test]
    fn a_flight_that_begins_while_the_runtime_shuts_down_holds_up_nobody() {
        struct JoinsWhenDropped(Arc<SingleFlight<u8, u8>>, std::sync::mpsc::Sender<()>);
        impl Drop for JoinsWhenDropped {
            fn drop(&mut self) {
                drop(self.0.join(1, || async { 1 }));
                self.1.send(()).unwrap();
            }
        }
        let (joined, hears) = std::sync::mpsc::channel();
        // A deadlock must not hang the test, so it has a thread of its own.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            let flights = Arc::new(SingleFlight::new(TaskTracker::new()));
            let late = JoinsWhenDropped(flights, joined);
            runtime.spawn(async move {
                std::future::pending::<()>().await;
                drop(late);
            });
            drop(runtime);
        });
        hears
            .recv_timeout(std::time::Duration::from_secs(20))
            .unwrap();
    }

    #[tokio::test]
    async fn a_flight_that_panics_ends_and_the_next_one_starts_anew() {
        let flights: SingleFlight<u8, u8> = SingleFlight::new(TaskTracker::new());
        assert_eq!(flights.join(1, || async { panic!("as told") }).await, None);
        assert_eq!(flights.join(1, || async { 2 }).await, Some(2));
    }
}
