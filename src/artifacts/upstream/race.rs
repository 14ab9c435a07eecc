//! One question to all servers at once.
//!
//! Each server is in one lane. Heads are awaited together; a body is read from the first server in
//! order that offers one, as soon as those before it have said no, or have been silent for a while
//! longer. A body that breaks off is asked for once more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::located::LocateError;
use super::super::receive::{ContentEncoding, Receiver};
use super::asker::Asker;
use super::breaker::Permit;
use super::client::Head;
use super::failure::Failure;
use super::offer::{BodyBounds, Delivery, Offer};
use super::{Server, Wanted};
use crate::metrics::UpstreamResult;

/// Bodies that one server may begin in one race.
const BODIES_MAX: u32 = 2;
/// How long an offer waits for servers that are preferred and have not answered.
const PREFERENCE: Duration = Duration::from_secs(2);

type Asking = BoxFuture<'static, (usize, Result<Head, Failure>)>;

/// What is asked, of whom and for how long.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) wanted: Wanted,
    pub(super) asker: Asker,
    pub(super) deadline: Instant,
    /// The longest body that is taken.
    pub(super) bytes_max: u64,
}

/// A question that is being asked.
pub(super) struct Race<'a> {
    question: Arc<Question>,
    lanes: Vec<Lane<'a>>,
    asking: FuturesUnordered<Asking>,
    /// From when on an offer is taken before servers that are preferred have answered.
    overtake_at: Option<Instant>,
    open_receiver: &'a (dyn Fn(ContentEncoding) -> Receiver + Send + Sync),
}

/// One server in a race.
struct Lane<'a> {
    server: &'a Arc<Server>,
    began: Instant,
    bodies: u32,
    permit: Option<Permit>,
    state: LaneState,
}

enum LaneState {
    Asking,
    Offers(Box<Offer>),
    /// Its body is here and is being judged.
    Delivered,
    Absent,
    Failed(Failure),
}

/// What to do next.
enum Next {
    Receive(usize, Box<Offer>),
    Wait,
    Over,
}

/// Why it is not known whether a file exists: a line for each server that failed.
#[derive(Debug, thiserror::Error)]
pub(super) struct Undecided {
    failures: Vec<(String, String)>,
    /// Whether none of them is expected back soon.
    lasts: bool,
}

impl From<Undecided> for LocateError {
    fn from(undecided: Undecided) -> Self {
        let detail = undecided.to_string();
        if undecided.lasts {
            Self::UpstreamDown { detail }
        } else {
            Self::Upstream { detail }
        }
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (server, failure)) in self.failures.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{server}: {failure}")?;
        }
        Ok(())
    }
}

impl<'a> Race<'a> {
    /// Asks all servers.
    pub(super) fn start(
        servers: &'a [Arc<Server>],
        question: Question,
        open_receiver: &'a (dyn Fn(ContentEncoding) -> Receiver + Send + Sync),
    ) -> Self {
        let began = Instant::now();
        let mut race = Self {
            question: Arc::new(question),
            lanes: Vec::with_capacity(servers.len()),
            asking: FuturesUnordered::new(),
            overtake_at: None,
            open_receiver,
        };
        for (number, server) in servers.iter().enumerate() {
            let permit = server.breaker.ask(began);
            let state = match permit {
                Some(_) => LaneState::Asking,
                None => LaneState::Failed(Failure::Resting {
                    failing_for: server.breaker.failing_for(began),
                }),
            };
            if permit.is_none() {
                server.meter.answered(UpstreamResult::Resting, None);
            }
            race.lanes.push(Lane {
                server,
                began,
                bodies: 0,
                permit,
                state,
            });
            race.ask(number);
        }
        race
    }

    /// The next file that has come, or `None` when no server has more to offer. The caller says
    /// with [`Self::accept`] or [`Self::refuse`] what it is worth.
    pub(super) async fn next(&mut self) -> Option<(usize, Delivery)> {
        loop {
            match self.choose() {
                Next::Over => return None,
                Next::Wait => self.wait().await,
                Next::Receive(number, offer) => match self.receive(number, offer).await {
                    Ok(delivery) => return Some((number, delivery)),
                    Err(failure) => self.broke_off(number, failure),
                },
            }
        }
    }

    /// The file of a server was sound, and the race is over.
    pub(super) fn accept(mut self, number: usize) {
        self.settle(number, UpstreamResult::Found);
        // Whoever was preferred and silent has cost this much.
        let slow = self.lanes.iter_mut().take(number);
        for lane in slow.filter(|lane| matches!(lane.state, LaneState::Asking)) {
            if let Some(permit) = lane.permit.take() {
                permit.failed(Instant::now());
            }
        }
    }

    /// The file of a server was not what was asked for.
    pub(super) fn refuse(&mut self, number: usize, failure: Failure) {
        self.fail(number, failure);
    }

    /// Whether every server has said that it does not exist.
    pub(super) fn verdict(self) -> Result<(), Undecided> {
        let failures = self.lanes.iter().filter_map(|lane| match &lane.state {
            LaneState::Absent => None,
            LaneState::Failed(failure) => Some(failure.to_string()),
            _ => Some("it was not heard out".to_owned()),
        });
        let failures: Vec<_> = self
            .lanes
            .iter()
            .filter(|lane| !matches!(lane.state, LaneState::Absent))
            .map(|lane| lane.server.client.name().to_owned())
            .zip(failures)
            .collect();
        if failures.is_empty() {
            Ok(())
        } else {
            let lasts = self.lanes.iter().all(|lane| match &lane.state {
                LaneState::Absent => true,
                LaneState::Failed(failure) => failure.lasts(),
                _ => false,
            });
            Err(Undecided { failures, lasts })
        }
    }

    fn choose(&mut self) -> Next {
        let overtakes = self.overtake_at.is_some_and(|at| Instant::now() >= at);
        let mut next = Next::Over;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            match lane.state {
                LaneState::Asking if overtakes => next = Next::Wait,
                LaneState::Asking => return Next::Wait,
                LaneState::Offers(_) => {
                    let taken = std::mem::replace(&mut lane.state, LaneState::Delivered);
                    if let LaneState::Offers(offer) = taken {
                        return Next::Receive(number, offer);
                    }
                }
                LaneState::Delivered | LaneState::Absent | LaneState::Failed(_) => {}
            }
        }
        next
    }

    /// Waits until a server has answered, or an offer has waited long enough.
    async fn wait(&mut self) {
        let until = self.question.deadline;
        let patience = match self.overtake_at {
            Some(at) if at > Instant::now() => at.min(until),
            _ => until,
        };
        tokio::select! {
            Some((number, head)) = self.asking.next() => self.answered(number, head),
            () = sleep_until(patience) => {
                if Instant::now() >= until {
                    self.give_up();
                }
            }
        }
    }

    /// Reads a body while the other servers go on answering.
    async fn receive(&mut self, number: usize, offer: Box<Offer>) -> Result<Delivery, Failure> {
        let Some(lane) = self.lanes.get_mut(number) else {
            let failing_for = Duration::ZERO;
            return Err(Failure::Resting { failing_for });
        };
        lane.bodies = lane.bodies.saturating_add(1);
        let (began, server) = (lane.began, Arc::clone(lane.server));
        let bounds = BodyBounds {
            bytes_max: self.question.bytes_max,
            meter: &server.meter,
        };
        let receiver = (self.open_receiver)(offer.encoding());
        let receiving = offer.receive(receiver, bounds);
        let deadline = self.question.deadline;
        let mut receiving = Box::pin(timeout_at(deadline, receiving));
        let mut heard = Vec::new();
        let delivery = loop {
            tokio::select! {
                delivery = &mut receiving => break delivery,
                Some(head) = self.asking.next() => heard.push(head),
            }
        };
        drop(receiving);
        for (number, head) in heard {
            self.answered(number, head);
        }
        delivery.unwrap_or(Err(Failure::Timeout {
            what: "end of the body",
            within: deadline.saturating_duration_since(began),
        }))
    }

    fn answered(&mut self, number: usize, head: Result<Head, Failure>) {
        match head {
            Ok(Head::Offers(offer)) => {
                if let Some(lane) = self.lanes.get_mut(number) {
                    lane.state = LaneState::Offers(offer);
                }
                let overtake_at = Instant::now() + PREFERENCE;
                self.overtake_at.get_or_insert(overtake_at);
            }
            Ok(Head::Absent) => {
                self.settle(number, UpstreamResult::Absent);
                if let Some(lane) = self.lanes.get_mut(number) {
                    lane.state = LaneState::Absent;
                }
            }
            Err(failure) => self.fail(number, failure),
        }
    }

    /// A server has answered as it should.
    fn settle(&mut self, number: usize, result: UpstreamResult) {
        if let Some(lane) = self.lanes.get_mut(number) {
            lane.server
                .meter
                .answered(result, Some(lane.began.elapsed()));
            if let Some(permit) = lane.permit.take() {
                permit.succeeded();
            }
        }
    }

    /// A body has not come to its end: it is asked for again, if that may help.
    fn broke_off(&mut self, number: usize, failure: Failure) {
        if let Some(lane) = self.lanes.get_mut(number)
            && failure.may_pass()
            && lane.bodies < BODIES_MAX
        {
            lane.state = LaneState::Asking;
            self.ask(number);
        } else {
            self.fail(number, failure);
        }
    }

    /// A server has failed, and that is its last word in this race.
    fn fail(&mut self, number: usize, failure: Failure) {
        let Some(lane) = self.lanes.get_mut(number) else {
            return;
        };
        let (wanted, server) = (&self.question.wanted, lane.server.client.name());
        tracing::warn!(%server, %failure, "upstream {server} does not say about {wanted}: {failure}");
        let meter = &lane.server.meter;
        meter.answered(failure.result(), Some(lane.began.elapsed()));
        if let Some(permit) = lane.permit.take()
            && failure.is_of_the_server()
        {
            permit.failed(Instant::now());
        }
        lane.state = LaneState::Failed(failure);
    }

    /// The deadline has passed.
    fn give_up(&mut self) {
        for number in 0..self.lanes.len() {
            let lane = self.lanes.get(number);
            if lane.is_some_and(|lane| matches!(lane.state, LaneState::Asking)) {
                let within = lane.map(|lane| lane.began.elapsed()).unwrap_or_default();
                let what = "answer";
                self.fail(number, Failure::Timeout { what, within });
            }
        }
        self.asking.clear();
    }

    /// Asks the server of a lane, unless it is left alone.
    fn ask(&mut self, number: usize) {
        let Some(lane) = self.lanes.get(number) else {
            return;
        };
        if matches!(lane.state, LaneState::Asking) {
            let (server, question) = (Arc::clone(lane.server), Arc::clone(&self.question));
            let asking = async move { (number, server.head(&question).await) };
            self.asking.push(asking.boxed());
        }
    }
}

impl Server {
    /// Waits for its turn, and asks.
    async fn head(self: Arc<Self>, question: &Question) -> Result<Head, Failure> {
        let turn = Arc::clone(&self.requests).acquire_owned().await;
        let turn = turn.map_err(|error| Failure::Connection(error.to_string()))?;
        let mut head = self.client.head(&question.wanted, &question.asker).await?;
        if let Head::Offers(offer) = &mut head {
            offer.turn = Some(turn);
        }
        Ok(head)
    }
}
