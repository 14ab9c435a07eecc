//! The number of a stack: what it depends on, what it does not, and that it stays what it is.

use unhex_build_id::Identity;
use unhex_pprof::{
    Binary, BinaryRole, Builder, CodeAddress, Frame, FrameKind, Function, Hashes, Line, StackHash,
};

/// One frame to be made.
#[derive(Clone, Copy, Debug, Default)]
struct Recipe<'r> {
    kind: FrameKind,
    build_id: &'r str,
    file_name: &'r str,
    language: &'r str,
    names: &'r [(&'r str, &'r str, i64)],
    address: u64,
}

/// The hash of a stack in a model that has other things before it, or not.
fn hash(frames: &[Recipe<'_>], others: usize) -> StackHash {
    let mut builder = Builder::default();
    for other in 0..others {
        let text = builder.string(format!("other {other}"));
        builder.binary(Binary {
            file_name: text,
            ..Binary::default()
        });
        builder.function(Function {
            name: text,
            ..Function::default()
        });
        let frame = builder.frame(Frame::default(), &[]);
        builder.stack(&[frame]);
    }
    let made: Vec<_> = frames
        .iter()
        .map(|recipe| frame(&mut builder, *recipe))
        .collect();
    let stack = builder.stack(&made);
    let model = builder.finish();
    Hashes::of(&model).stack(stack)
}

fn frame<'r>(builder: &mut Builder<'r>, recipe: Recipe<'r>) -> unhex_pprof::FrameId {
    let lines: Vec<Line> = recipe
        .names
        .iter()
        .map(|(name, file, line)| {
            let (name, file_name) = (builder.string(*name), builder.string(*file));
            let function = Function {
                name,
                file_name,
                ..Function::default()
            };
            Line {
                function: builder.function(function),
                line: *line,
                column: 0,
            }
        })
        .collect();
    let file_name = builder.string(recipe.file_name);
    let binary = builder.binary(Binary {
        file_name,
        identity: recipe.build_id.parse().ok().map(Identity::Gnu),
        role: if recipe.file_name.is_empty() {
            BinaryRole::Anonymous
        } else {
            BinaryRole::File
        },
        ..Binary::default()
    });
    let language = builder.string(recipe.language);
    let frame = Frame {
        kind: recipe.kind,
        binary: Some(binary),
        address: recipe.address,
        language,
        ..Frame::default()
    };
    builder.frame(frame, &lines)
}

const NATIVE: Recipe<'_> = Recipe {
    kind: FrameKind::Native(CodeAddress::Link(0x1139)),
    build_id: "9a0f",
    file_name: "/bin/a",
    language: "native",
    names: &[],
    address: 0,
};

const NAMED: Recipe<'_> = Recipe {
    kind: FrameKind::Named,
    build_id: "",
    file_name: "",
    language: "cpython",
    names: &[("handler", "app.py", 12)],
    address: 0,
};

#[test]
fn it_does_not_depend_on_tables_names_or_where_a_process_was_loaded() {
    let expected = hash(&[NATIVE, NAMED], 0);
    assert_eq!(hash(&[NATIVE, NAMED], 7), expected);
    let elsewhere = Recipe {
        address: 0x5555_5555_5139,
        ..NATIVE
    };
    let renamed = Recipe {
        file_name: "/mnt/image/bin/a",
        language: "",
        ..NATIVE
    };
    let with_names = Recipe {
        names: &[("main", "a.c", 3)],
        ..NATIVE
    };
    for same in [elsewhere, renamed, with_names] {
        assert_eq!(hash(&[same, NAMED], 0), expected, "{same:?}");
    }
    let kernel = Recipe {
        kind: FrameKind::Kernel,
        ..NAMED
    };
    assert_eq!(
        hash(&[kernel], 0),
        hash(
            &[Recipe {
                address: 5,
                ..kernel
            }],
            0
        )
    );
    let nowhere = Recipe {
        kind: FrameKind::Unplaced,
        ..Recipe::default()
    };
    assert_eq!(
        hash(&[nowhere], 0),
        hash(
            &[Recipe {
                address: 5,
                ..nowhere
            }],
            0
        )
    );
}

#[test]
fn it_tells_different_stacks_apart() {
    let offset = FrameKind::Native(CodeAddress::FileOffset(0x1139));
    let kernel = FrameKind::Kernel;
    let frames = [
        NATIVE,
        Recipe {
            kind: offset,
            ..NATIVE
        },
        Recipe {
            build_id: "9a0e",
            ..NATIVE
        },
        Recipe {
            build_id: "",
            ..NATIVE
        },
        Recipe {
            build_id: "",
            names: &[("main", "", 0)],
            ..NATIVE
        },
        Recipe {
            kind: FrameKind::Unplaced,
            ..NATIVE
        },
        NAMED,
        Recipe {
            language: "ruby",
            ..NAMED
        },
        Recipe {
            names: &[("handler", "app.py", 13)],
            ..NAMED
        },
        Recipe {
            names: &[("handle", "rapp.py", 12)],
            ..NAMED
        },
        Recipe {
            kind: kernel,
            ..NAMED
        },
        Recipe {
            kind: kernel,
            file_name: "vmlinux",
            ..NAMED
        },
        Recipe {
            kind: FrameKind::Truncated,
            ..NAMED
        },
        Recipe::default(),
    ];
    let single = frames.iter().map(|frame| hash(&[*frame], 0));
    let others: [&[Recipe<'_>]; 4] = [&[], &[NATIVE, NATIVE], &[NATIVE, NAMED], &[NAMED, NATIVE]];
    let mut all: Vec<_> = single
        .chain(others.iter().map(|frames| hash(frames, 0)))
        .collect();
    all.sort_unstable();
    let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None);
}

#[test]
fn long_names_count_by_their_whole_text() {
    let name = "x".repeat(300);
    let other = format!("{}y", "x".repeat(299));
    let of = |name: &str| {
        hash(
            &[Recipe {
                names: &[(name, "", 0)],
                ..NAMED
            }],
            0,
        )
    };
    assert_ne!(of(&name), of(&other));
    assert_eq!(of(&name), of(&name.clone()));
}

/// Made beside this code with Python's hashlib from the description of `Hashes`:
///
/// ```python
/// import hashlib, struct
/// H = lambda x: hashlib.sha256(x).digest()[:16]
/// N = lambda n: struct.pack("<Q", n)
/// T = lambda t: N(len(t)) + t
/// call = H(T(b"handler") + T(b"app.py")) + N(12)
/// frames = [
///     b"\x01" + H(T(b"gnu") + T(b"9a0f")) + b"\x00" + N(0x1139),
///     b"\x02" + H(T(b"/bin/a")) + b"\x01" + N(0x139),
///     b"\x03" + T(b"cpython") + call,
///     b"\x04" + H(T(b"vmlinux")) + call,
///     b"\x05" + T(b"handler"),
///     b"\x06" + H(T(b"")),
/// ]
/// print(H(b"\x00" + b"".join(H(frame) for frame in frames)).hex(), H(b"\x00").hex())
/// ```
#[test]
fn it_is_what_its_description_says() {
    let offset = FrameKind::Native(CodeAddress::FileOffset(0x139));
    let frames = [
        NATIVE,
        Recipe {
            kind: offset,
            build_id: "",
            ..NATIVE
        },
        NAMED,
        Recipe {
            kind: FrameKind::Kernel,
            file_name: "vmlinux",
            ..NAMED
        },
        Recipe {
            kind: FrameKind::Truncated,
            ..NAMED
        },
        Recipe {
            kind: FrameKind::Unplaced,
            ..Recipe::default()
        },
    ];
    assert_eq!(
        hash(&frames, 0).to_string(),
        "ebeb3684d9c5e88243733a177b7be2cb"
    );
    assert_eq!(hash(&[], 0).to_string(), "6e340b9cffb37a989ca544e6bb780a2c");
}
