//! Work of one class in bounded amounts, handed out in turns among the clients that wait.
//!
//! One line for all would let a client with two hundred requests stand before everybody else. So
//! each client has a line of its own, and whoever gives something back serves the next line. Of four
//! or more, one client alone never has all, as long as it needs less: who comes later finds something
//! free. Of fewer it may have all, and who comes later is served when the first is given back.

mod place;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::metrics::{QueueMeter, QueueOutcome};

pub use self::place::Place;

/// Requests that wait in one queue: each costs a few hundred bytes beside its connection.
const WAITING_MAX: usize = 16_384;

/// Whose turn it is: the server's own, or that of an address, of IPv6 the half that a network is
/// given whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(Option<Ipv6Addr>);

impl ClientKey {
    /// Of work that no client asked for.
    pub const SERVER: Self = Self(None);

    /// Of the client at an address.
    pub fn of(address: IpAddr) -> Self {
        Self(Some(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64),
        }))
    }
}

/// How much there is of what a queue hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// What all clients may have together.
    pub total: u64,
    /// What one of them may have, but for a single request that needs more.
    pub per_client_max: u64,
}

impl Supply {
    /// So much, of which one client may have three quarters, rounded up: of one to three all.
    pub fn of(total: u64) -> Self {
        let total = total.max(1);
        Self {
            total,
            per_client_max: total.saturating_sub(total / 4),
        }
    }
}

/// A queue; clones share it.
#[derive(Clone)]
pub struct FairQueue {
    shared: Arc<Shared>,
}

/// What was handed out; it is given back when this is dropped.
pub struct Share {
    shared: Arc<Shared>,
    client: ClientKey,
    amount: u64,
}

/// Why nothing was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// It was not one's turn in time.
    #[error("it was not its turn in time")]
    TooLong,
    /// Too many wait already.
    #[error("{WAITING_MAX} requests wait already")]
    Full,
}

struct Shared {
    supply: Supply,
    state: Mutex<State>,
    meter: QueueMeter,
}

struct State {
    free: u64,
    held: HashMap<ClientKey, u64>,
    lines: HashMap<ClientKey, VecDeque<Waiting>>,
    /// The clients that have a line, whose turn is next first.
    turns: VecDeque<ClientKey>,
    waiting: usize,
    number: u64,
}

struct Waiting {
    number: u64,
    amount: u64,
    sender: oneshot::Sender<Share>,
}

impl FairQueue {
    /// A queue for what there is, nobody in it.
    pub fn new(supply: Supply, meter: QueueMeter) -> Self {
        let state = State {
            free: supply.total,
            held: HashMap::new(),
            lines: HashMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
            number: 0,
        };
        let shared = Shared {
            supply,
            state: Mutex::new(state),
            meter,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// So much (at most all that there is), once it is this client's turn.
    ///
    /// # Errors
    /// If it is not by `deadline`, or too many wait.
    pub async fn take(
        &self,
        client: ClientKey,
        amount: u64,
        deadline: Option<Instant>,
    ) -> Result<Share, QueueError> {
        let amount = amount.clamp(1, self.shared.supply.total);
        let began = Instant::now();
        let (waits, receiver) = match self.line_up(client, amount)? {
            LinedUp::Served(share) => return Ok(share),
            LinedUp::Waits(waits, receiver) => (waits, receiver),
        };
        let received = match deadline {
            Some(deadline) => timeout_at(deadline, receiver).await.ok(),
            None => Some(receiver.await),
        };
        let meter = &self.shared.meter;
        let share = received.and_then(Result::ok);
        waits.ended(match share {
            Some(_) => QueueOutcome::Served,
            None => QueueOutcome::TooLong,
        });
        meter.waited(began.elapsed());
        share.ok_or(QueueError::TooLong)
    }

    fn line_up(&self, client: ClientKey, amount: u64) -> Result<LinedUp, QueueError> {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        if state.waiting == 0 && state.has_room(client, amount, shared.supply) {
            let share = state.hand_out(client, amount, shared);
            drop(state);
            shared.meter.ended(QueueOutcome::AtOnce);
            return Ok(LinedUp::Served(share));
        }
        if state.waiting >= WAITING_MAX {
            drop(state);
            shared.meter.ended(QueueOutcome::Full);
            return Err(QueueError::Full);
        }
        let (sender, receiver) = oneshot::channel();
        let number = state.number;
        state.number = number.wrapping_add(1);
        state.waiting = state.waiting.saturating_add(1);
        shared.meter.waiting(state.waiting);
        let line = state.lines.entry(client).or_default();
        let is_first = line.is_empty();
        line.push_back(Waiting {
            number,
            amount,
            sender,
        });
        if is_first {
            state.turns.push_back(client);
        }
        drop(state);
        let waits = Waits {
            shared: Arc::clone(shared),
            client,
            number,
            outcome: QueueOutcome::Left,
        };
        // Those before it may wait for more than it does.
        shared.serve();
        Ok(LinedUp::Waits(waits, receiver))
    }
}

enum LinedUp {
    Served(Share),
    Waits(Waits, oneshot::Receiver<Share>),
}

impl State {
    fn has_room(&self, client: ClientKey, amount: u64, supply: Supply) -> bool {
        amount <= self.free && self.may_have(client, amount, supply)
    }

    fn may_have(&self, client: ClientKey, amount: u64, supply: Supply) -> bool {
        let held = self.held.get(&client).copied().unwrap_or_default();
        held == 0 || held.saturating_add(amount) <= supply.per_client_max
    }

    fn hand_out(&mut self, client: ClientKey, amount: u64, shared: &Arc<Shared>) -> Share {
        self.free = self.free.saturating_sub(amount);
        let held = self.held.entry(client).or_default();
        *held = held.saturating_add(amount);
        shared.meter.held(shared.supply.total, self.free);
        Share {
            shared: Arc::clone(shared),
            client,
            amount,
        }
    }

    /// Whoever is served next, out of its line.
    fn next(&mut self, supply: Supply) -> Option<(ClientKey, Waiting)> {
        for _ in 0..self.turns.len() {
            let client = *self.turns.front()?;
            let amount = self.lines.get(&client)?.front()?.amount;
            if self.may_have(client, amount, supply) {
                // A large one waits until enough is free; nobody overtakes it until then.
                return (amount <= self.free)
                    .then(|| self.leave_first(client))
                    .flatten();
            }
            self.turns.rotate_left(1);
        }
        None
    }

    fn leave_first(&mut self, client: ClientKey) -> Option<(ClientKey, Waiting)> {
        self.turns.pop_front();
        let line = self.lines.get_mut(&client)?;
        let first = line.pop_front()?;
        self.waiting = self.waiting.saturating_sub(1);
        if line.is_empty() {
            self.lines.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        Some((client, first))
    }

    /// Takes somebody out of its line who is still in it.
    fn leave(&mut self, client: ClientKey, number: u64) {
        let Some(line) = self.lines.get_mut(&client) else {
            return;
        };
        let before = line.len();
        line.retain(|waiting| waiting.number != number);
        self.waiting = self
            .waiting
            .saturating_sub(before.saturating_sub(line.len()));
        if line.is_empty() {
            self.lines.remove(&client);
            self.turns.retain(|turn| *turn != client);
        }
    }
}

impl Shared {
    /// Serves whoever can be served.
    fn serve(self: &Arc<Self>) {
        let mut served = Vec::new();
        let mut state = self.state.lock();
        while let Some((client, waiting)) = state.next(self.supply) {
            let share = state.hand_out(client, waiting.amount, self);
            served.push((waiting.sender, share));
        }
        self.meter.waiting(state.waiting);
        drop(state);
        for (sender, share) in served {
            // Who has just left gives it back by dropping it.
            drop(sender.send(share));
        }
    }
}

/// Somebody's place in a line; whoever leaves early frees it.
struct Waits {
    shared: Arc<Shared>,
    client: ClientKey,
    number: u64,
    outcome: QueueOutcome,
}

impl Waits {
    fn ended(mut self, outcome: QueueOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.shared.meter.ended(self.outcome);
        if self.outcome != QueueOutcome::Served {
            self.shared.state.lock().leave(self.client, self.number);
            self.shared.serve();
        }
    }
}

impl Share {
    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Gives back what is more than `amount`.
    pub fn shrink_to(&mut self, amount: u64) {
        let spare = self.amount.saturating_sub(amount);
        self.amount = self.amount.saturating_sub(spare);
        self.give_back(spare);
    }

    fn give_back(&self, amount: u64) {
        let mut state = self.shared.state.lock();
        state.free = state.free.saturating_add(amount);
        if let Some(held) = state.held.get_mut(&self.client) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                state.held.remove(&self.client);
            }
        }
        self.shared.meter.held(self.shared.supply.total, state.free);
        let somebody_waits = state.waiting > 0;
        drop(state);
        if somebody_waits {
            self.shared.serve();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

impl fmt::Debug for FairQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        let (free, waiting) = (state.free, state.waiting);
        write!(f, "FairQueue({free} free, {waiting} waiting)")
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({})", self.amount)
    }
}

#[cfg(test)]
mod tests;
