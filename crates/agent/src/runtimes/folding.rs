//! Frames that a runtime would have to unwind, as one: pure, over whatever the caller has for frames.

use super::Runtime;

/// What a frame of a process's stack is, as far as its runtime matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<F> {
    /// Native code, which is passed on.
    Native(F),
    /// In the range of the function that interprets code.
    InterpreterLoop,
    /// In memory that no file lies behind; the name is from the runtime's perf map, if there is one.
    JustInTime(Option<String>),
}

/// A frame as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folded<F> {
    /// Native code.
    Native(F),
    /// A function that the runtime named.
    Named(String),
    /// Any number of frames that only an unwinder of this runtime could tell; none if nobody knows which.
    Missing(Option<Runtime>),
}

/// How `CPython`'s trampolines are named (3.12 and later, `python -X perf`).
const TRAMPOLINE_PREFIX: &str = "py::";

/// The frames of a stack, leaf first, with runs of frames that cannot be told as one each.
///
/// An interpreter's loop that a trampoline called has that trampoline's name, and is left out.
pub fn fold<F>(
    frames: impl IntoIterator<Item = Seen<F>>,
    runtime: Option<Runtime>,
) -> Vec<Folded<F>> {
    let mut folded: Vec<Folded<F>> = Vec::new();
    for frame in frames {
        let next = match frame {
            Seen::Native(frame) => Folded::Native(frame),
            Seen::JustInTime(Some(name)) => {
                if name.starts_with(TRAMPOLINE_PREFIX) {
                    folded.pop_if(|last| matches!(last, Folded::Missing(_)));
                }
                Folded::Named(name)
            }
            Seen::InterpreterLoop | Seen::JustInTime(None) => {
                if matches!(folded.last(), Some(Folded::Missing(_))) {
                    continue;
                }
                Folded::Missing(runtime)
            }
        };
        folded.push(next);
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTHON: Option<Runtime> = Some(Runtime::Python);

    fn trampoline(name: &str) -> Seen<u32> {
        Seen::JustInTime(Some(format!("py::{name}:/srv/app.py")))
    }

    #[test]
    fn runs_of_frames_that_cannot_be_told_become_one() {
        let frames = [
            Seen::Native(1),
            Seen::InterpreterLoop,
            Seen::InterpreterLoop,
            Seen::JustInTime(None),
            Seen::Native(2),
            Seen::InterpreterLoop,
            Seen::Native(3),
        ];
        let missing = Folded::Missing(PYTHON);
        assert_eq!(
            fold(frames, PYTHON),
            [
                Folded::Native(1),
                missing.clone(),
                Folded::Native(2),
                missing,
                Folded::Native(3)
            ]
        );
    }

    #[test]
    fn a_trampoline_names_the_loop_that_it_called() {
        let frames = [
            Seen::InterpreterLoop,
            trampoline("inner"),
            Seen::InterpreterLoop,
            trampoline("outer"),
            Seen::Native(1),
        ];
        let named = |name: &str| Folded::Named(format!("py::{name}:/srv/app.py"));
        assert_eq!(
            fold(frames, PYTHON),
            [named("inner"), named("outer"), Folded::Native(1)]
        );
    }

    #[test]
    fn a_name_of_another_compiler_leaves_its_neighbours() {
        let frames: [Seen<u32>; 2] = [
            Seen::JustInTime(None),
            Seen::JustInTime(Some("LazyCompile:~f".to_owned())),
        ];
        assert_eq!(
            fold(frames, None),
            [
                Folded::Missing(None),
                Folded::Named("LazyCompile:~f".to_owned())
            ]
        );
    }
}
