//! Who is served when.

use std::time::Duration;

use super::*;
use crate::metrics::{Metrics, QueueClass};

fn queue(total: u64) -> FairQueue {
    let meter = Metrics::new().queue(QueueClass::Debuginfod);
    FairQueue::new(Supply::of(total), meter)
}

fn client(number: u8) -> ClientKey {
    ClientKey::of(IpAddr::from([192, 0, 2, number]))
}

/// Lines somebody up whose turn is written down.
fn ask(
    queue: &FairQueue,
    (who, amount): (u8, u64),
    order: &Arc<Mutex<Vec<u8>>>,
) -> tokio::task::JoinHandle<()> {
    let (queue, order) = (queue.clone(), Arc::clone(order));
    tokio::spawn(async move {
        let share = queue.take(client(who), amount, None).await.unwrap();
        order.lock().push(who);
        tokio::task::yield_now().await;
        drop(share);
    })
}

#[tokio::test]
async fn clients_are_served_in_turns_however_many_requests_one_has() {
    let queue = queue(1);
    let first = queue.take(client(9), 1, None).await.unwrap();
    let order = Arc::default();
    let mut asking: Vec<_> = (0..20).map(|_| ask(&queue, (1, 1), &order)).collect();
    tokio::task::yield_now().await;
    asking.push(ask(&queue, (2, 1), &order));
    asking.push(ask(&queue, (3, 1), &order));
    tokio::task::yield_now().await;
    drop(first);
    for one in asking {
        one.await.unwrap();
    }
    assert_eq!(order.lock()[..4], [1, 2, 3, 1]);
    assert_eq!(order.lock().len(), 22);
    assert_eq!(format!("{queue:?}"), "FairQueue(1 free, 0 waiting)");
}

#[tokio::test]
async fn one_client_leaves_some_for_the_next_one() {
    let queue = queue(8);
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(queue.take(client(1), 1, None).await.unwrap());
    }
    let soon = || Some(Instant::now() + Duration::from_millis(20));
    let refused = queue.take(client(1), 1, soon()).await.unwrap_err();
    assert_eq!(refused, QueueError::TooLong);
    let waiting = queue.take(client(1), 1, None);
    tokio::pin!(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // Neither those who wait nor those who hold are in the way of somebody else.
    let other = queue.take(client(2), 2, soon()).await.unwrap();
    drop(held.pop());
    held.push(waiting.await.unwrap());
    drop((other, held));
    assert_eq!(format!("{queue:?}"), "FairQueue(8 free, 0 waiting)");
}

#[tokio::test]
async fn a_large_request_is_not_overtaken_for_ever() {
    let queue = queue(4);
    let small = queue.take(client(1), 1, None).await.unwrap();
    let large = queue.take(client(2), 99, None);
    tokio::pin!(large);
    assert!(futures_util::poll!(&mut large).is_pending());
    let late = queue.take(client(3), 1, None);
    tokio::pin!(late);
    assert!(futures_util::poll!(&mut late).is_pending());
    drop(small);
    let mut all = large.await.unwrap();
    assert_eq!(all.amount(), 4);
    all.shrink_to(3);
    assert_eq!(late.await.unwrap().amount(), 1);
}

#[tokio::test]
async fn whoever_leaves_is_not_waited_for() {
    let queue = queue(4);
    let held = queue.take(client(1), 2, None).await.unwrap();
    {
        let large = queue.take(client(2), 4, None);
        tokio::pin!(large);
        assert!(futures_util::poll!(&mut large).is_pending());
        let behind = queue.take(client(3), 1, None);
        tokio::pin!(behind);
        assert!(futures_util::poll!(&mut behind).is_pending());
    }
    let soon = Some(Instant::now() + Duration::from_secs(5));
    assert!(queue.take(client(4), 2, soon).await.is_ok());
    drop(held);
    assert_eq!(format!("{queue:?}"), "FairQueue(4 free, 0 waiting)");
}

#[test]
fn a_network_of_ipv6_is_one_client() {
    let key = |text: &str| ClientKey::of(text.parse().unwrap());
    assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
}

#[test]
fn no_client_is_the_server_itself() {
    for address in ["::1", "::", "0.0.0.0", "127.0.0.1", "fe80::1"] {
        let client = ClientKey::of(address.parse().unwrap());
        assert_ne!(client, ClientKey::SERVER, "{address}");
    }
}

#[test]
fn one_client_may_have_three_quarters_and_all_of_less_than_four() {
    let most = |total| Supply::of(total).per_client_max;
    assert_eq!([1, 2, 3, 4, 5, 8].map(most), [1, 2, 3, 3, 4, 6]);
}
