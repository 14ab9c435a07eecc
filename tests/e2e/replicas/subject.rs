//! Files under one build ID, and what is a right answer about them at any time.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use unhex_testkit::fixture::{Fixture, Program};
use unhex_testkit::run;

use crate::llvm::address_of_outer;
use crate::renamed::under_a_new_id;

/// How old what a server knows of a build ID may be: who asks later gets what was acknowledged.
const STATE_AGE: Duration = Duration::from_secs(5);

/// A word of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Debuginfo,
    Executable,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Debuginfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

/// A program, what is left of it after stripping, and what was stripped.
#[derive(Debug)]
pub(super) struct Model {
    build_id: String,
    files: [Vec<u8>; 3],
    address: String,
}

impl Model {
    pub(super) fn all() -> Vec<Self> {
        let programs = (0..4).map(|number| {
            let text = format!(
                "static inline int inner(int n) {{ return n * {number}; }}\n\
                 int outer(int n) {{ return inner(n) + 1; }}\n\
                 int main(int c, char **v) {{ return outer(c) + !v; }}\n"
            );
            Program::c(text).flags(&["-g", "-O0"]).build()
        });
        programs.map(|program| Self::of(&program)).collect()
    }

    fn of(program: &Fixture) -> Self {
        Self {
            build_id: program.build_id(),
            files: [
                program.bytes(),
                run::read(program.stripped()),
                run::read(program.debug_only()),
            ],
            address: address_of_outer(program.path()),
        }
    }
}

/// One build ID.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) build_id: String,
    files: [Vec<u8>; 3],
    pub(super) address: String,
    /// When the first upload of a kind was acknowledged.
    acknowledged: Mutex<[Option<Instant>; 2]>,
}

impl Subject {
    /// The files of a model under another build ID, which nobody has.
    pub(super) fn like(model: &Model) -> Self {
        let mut files = model.files.clone();
        Self {
            build_id: under_a_new_id(&model.build_id, &mut files),
            files,
            address: model.address.clone(),
            acknowledged: Mutex::default(),
        }
    }

    /// One of the files and what it is uploaded as.
    pub(super) fn any_file(&self) -> (Kind, &[u8]) {
        match rand::random_range(0..3) {
            0 => (Kind::Debuginfo, &self.files[0]),
            1 => (Kind::Executable, &self.files[1]),
            _ => (Kind::Debuginfo, &self.files[2]),
        }
    }

    pub(super) fn acknowledge(&self, kind: Kind) {
        let mut times = self.acknowledged.lock();
        times[kind as usize].get_or_insert_with(Instant::now);
    }

    /// Whether everybody has to know of a file of this kind that is asked for now.
    pub(super) fn must_be_there(&self, kind: Kind) -> bool {
        let times = self.acknowledged.lock();
        times[kind as usize].is_some_and(|then| then.elapsed() >= STATE_AGE)
    }

    pub(super) fn is_acknowledged(&self, kind: Kind) -> bool {
        self.acknowledged.lock()[kind as usize].is_some()
    }

    /// Panics if that is not all of a file of this kind.
    pub(super) fn check_file(&self, kind: Kind, body: &[u8]) {
        let other = match kind {
            Kind::Debuginfo => &self.files[2],
            Kind::Executable => &self.files[1],
        };
        let is_right = body == self.files[0] || body == other;
        assert!(
            is_right,
            "wrong bytes ({} of them) as {} of {}",
            body.len(),
            kind.as_str(),
            self.build_id
        );
    }

    /// Whether an answer to `/symbolize` is final; panics if it is wrong. `was_due` is what
    /// [`Self::must_be_there`] said of debug information before the question.
    pub(super) fn check_names(&self, answer: &str, was_due: bool) -> Result<(), String> {
        let parsed: Value = serde_json::from_str(answer).expect("JSON");
        let module = &parsed["modules"][0];
        let status = module["status"].as_str().expect("a status");
        match status {
            "found" if was_due => {
                let frame = &module["frames"][0][0];
                let (function, file) = (&frame["function"], frame["file"].as_str());
                assert_eq!(function, "outer", "{answer}");
                assert!(
                    file.is_some_and(|file| file.ends_with("main.c")),
                    "{answer}"
                );
                Ok(())
            }
            "found" => Ok(()),
            "pending" | "unavailable" => Err(status.to_owned()),
            "unknown_build_id" | "no_debug_info" if !was_due => Ok(()),
            _ => panic!("a wrong answer about {}: {answer}", self.build_id),
        }
    }
}
