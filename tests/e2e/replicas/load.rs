//! Uploads, downloads and symbolization at once, at either replica, whatever happens to these.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use serde_json::json;
use unhex_testkit::http::Request;

use super::figures::Figures;
use super::fleet::{Attempt, Fleet};
use super::subject::{Kind, Model, Subject};

/// Between two things that one client does: the machine has other tests to run.
const PACE: Duration = Duration::from_millis(60);

/// How many read everything back at once.
const READERS: usize = 8;

/// What was done, and to what.
pub(super) struct Load {
    models: Vec<Model>,
    subjects: RwLock<Vec<Arc<Subject>>>,
    figures: Figures,
    end: End,
}

/// The end of the load, which may be waited for.
#[derive(Default)]
struct End {
    is_reached: Mutex<bool>,
    reached: Condvar,
}

impl End {
    /// Waits so long, or until the end; whether it is not reached yet.
    fn goes_on_after(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut is_reached = self.is_reached.lock();
        while !*is_reached && !self.reached.wait_until(&mut is_reached, until).timed_out() {}
        !*is_reached
    }
}

/// Ends the load when it is dropped: a test that fails would wait for ever.
struct Ending<'a>(&'a End);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.is_reached.lock() = true;
        self.0.reached.notify_all();
    }
}

/// The load for as long as something is done to the servers, and what it came to.
pub(super) fn run(fleet: &Fleet, disturb: impl FnOnce(&Load)) -> Load {
    let models = Model::all();
    let load = Load {
        subjects: RwLock::new(vec![Arc::new(Subject::like(&models[0]))]),
        models,
        figures: Figures::default(),
        end: End::default(),
    };
    load.figures.begin("under load");
    thread::scope(|scope| {
        for client in [
            Load::upload,
            Load::upload,
            Load::download,
            Load::download,
            Load::symbolize,
        ] {
            let load = &load;
            scope.spawn(move || {
                while load.end.goes_on_after(PACE) {
                    client(load, fleet);
                }
            });
        }
        let _ending = Ending(&load.end);
        disturb(&load);
    });
    load
}

impl Load {
    /// Lets the load go on for so long.
    pub(super) fn last(&self, pause: Duration) {
        self.end.goes_on_after(pause);
    }

    pub(super) fn figures(&self) -> &Figures {
        &self.figures
    }

    fn any(&self) -> Arc<Subject> {
        let subjects = self.subjects.read();
        // Mostly those that something happens to.
        let recent = subjects.len().saturating_sub(6);
        let from = if rand::random_bool(0.7) { recent } else { 0 };
        Arc::clone(&subjects[rand::random_range(from..subjects.len())])
    }

    fn any_or_new(&self) -> Arc<Subject> {
        if rand::random_bool(0.6) {
            return self.any();
        }
        let model = &self.models[rand::random_range(0..self.models.len())];
        let subject = Arc::new(Subject::like(model));
        self.subjects.write().push(Arc::clone(&subject));
        subject
    }

    fn upload(&self, fleet: &Fleet) {
        let subject = self.any_or_new();
        let (first, other) = (subject.any_file(), subject.any_file());
        // At the same time the same file, or perhaps another one, perhaps at the other replica.
        let second = match rand::random_range(0..3) {
            0 => Some(first),
            1 => Some(other),
            _ => None,
        };
        thread::scope(|scope| {
            for file in [Some(first), second].into_iter().flatten() {
                let subject = &subject;
                scope.spawn(move || self.upload_one(fleet, subject, file));
            }
        });
    }

    fn upload_one(&self, fleet: &Fleet, subject: &Subject, (kind, bytes): (Kind, &[u8])) {
        let request = Request {
            method: "PUT",
            url: &format!("/buildid/{}/{}", subject.build_id, kind.as_str()),
            headers: &[],
            body: bytes,
        };
        let answer = Fleet::insist((&self.figures, "uploads"), |at| fleet.send(at, &request));
        let taken = matches!(answer.status, 200 | 201);
        assert!(
            taken,
            "{}: {} {}",
            request.url,
            answer.status,
            answer.text()
        );
        subject.acknowledge(kind);
    }

    fn download(&self, fleet: &Fleet) {
        let (subject, kind) = (self.any(), any_kind());
        let request = Request {
            method: "GET",
            url: &format!("/buildid/{}/{}", subject.build_id, kind.as_str()),
            headers: &[],
            body: &[],
        };
        Fleet::insist((&self.figures, "downloads"), |at| {
            let was_due = subject.must_be_there(kind);
            let answer = match fleet.send(at, &request) {
                Attempt::Done(answer) => answer,
                Attempt::Again(reason) => return Attempt::Again(reason),
            };
            match answer.status {
                200 => subject.check_file(kind, &answer.body),
                404 if !was_due => {}
                status => panic!("{} is lost: {status} {}", request.url, answer.text()),
            }
            Attempt::Done(())
        });
    }

    fn symbolize(&self, fleet: &Fleet) {
        let subject = self.any();
        let body = question(&subject);
        let request = Request {
            method: "POST",
            url: "/symbolize",
            headers: &[("Content-Type", "application/json")],
            body: body.as_bytes(),
        };
        Fleet::insist((&self.figures, "symbolizations"), |at| {
            let was_due = subject.must_be_there(Kind::Debuginfo);
            match fleet.send(at, &request) {
                Attempt::Done(answer) if answer.status == 200 => {
                    match subject.check_names(&answer.text(), was_due) {
                        Ok(()) => Attempt::Done(()),
                        Err(reason) => Attempt::Again(reason),
                    }
                }
                Attempt::Done(answer) => panic!("{} {}", answer.status, answer.text()),
                Attempt::Again(reason) => Attempt::Again(reason),
            }
        });
    }

    /// Panics unless all that was acknowledged is whole on either replica, and both agree.
    pub(super) fn check_all(self, fleet: &Fleet) -> Figures {
        self.figures.begin("reading all of it back");
        let subjects = self.subjects.read();
        thread::scope(|scope| {
            for part in subjects.chunks(subjects.len().div_ceil(READERS)) {
                let figures = &self.figures;
                scope.spawn(move || {
                    for subject in part {
                        Self::check_subject(fleet, subject);
                        figures.count("build IDs");
                    }
                });
            }
        });
        drop(subjects);
        for (at, peak_bytes) in fleet.resident_bytes().into_iter().enumerate() {
            let evicted = fleet.metric(at, "unhex_cache_evictions_total{cache=\"files\"}");
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            self.figures.add("evictions", evicted as u64);
            let name = format!("MiB resident at most in replica {at}");
            self.figures.add(&name, peak_bytes >> 20);
        }
        self.figures.end();
        self.figures
    }

    fn check_subject(fleet: &Fleet, subject: &Subject) {
        for kind in [Kind::Debuginfo, Kind::Executable] {
            Self::check_one(fleet, subject, kind);
        }
        if subject.is_acknowledged(Kind::Debuginfo) {
            Self::symbolize_finally(fleet, subject);
        }
    }

    fn check_one(fleet: &Fleet, subject: &Subject, kind: Kind) {
        let request = Request {
            method: "GET",
            url: &format!("/buildid/{}/{}", subject.build_id, kind.as_str()),
            headers: &[],
            body: &[],
        };
        // What one of them knows may be seconds old.
        unhex_testkit::run::poll("both replicas to agree", super::DEADLINE, || {
            let [one, two] = [0, 1].map(|at| fleet.insist_on(at, &request));
            for answer in [&one, &two] {
                match answer.status {
                    200 => subject.check_file(kind, &answer.body),
                    404 if !subject.must_be_there(kind) => {}
                    status => panic!("{} is lost: {status}", request.url),
                }
            }
            let is_there = one.status == 200 || !subject.is_acknowledged(kind);
            (is_there && one.status == two.status && one.body == two.body).then_some(())
        });
    }

    fn symbolize_finally(fleet: &Fleet, subject: &Subject) {
        let body = question(subject);
        let request = Request {
            method: "POST",
            url: "/symbolize",
            headers: &[("Content-Type", "application/json")],
            body: body.as_bytes(),
        };
        for at in [0, 1] {
            unhex_testkit::run::poll("names on either replica", super::DEADLINE, || {
                let answer = fleet.insist_on(at, &request);
                let was_due = subject.must_be_there(Kind::Debuginfo);
                let is_found = answer.text().contains("\"outer\"");
                subject
                    .check_names(&answer.text(), was_due && is_found)
                    .ok()?;
                is_found.then_some(())
            });
        }
    }
}

fn any_kind() -> Kind {
    if rand::random() {
        Kind::Debuginfo
    } else {
        Kind::Executable
    }
}

fn question(subject: &Subject) -> String {
    let module = json!({"build_id": subject.build_id, "addresses": [subject.address]});
    json!({"modules": [module], "wait_seconds": 5, "observe": false}).to_string()
}
