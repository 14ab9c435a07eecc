//! What becomes one function, and what never does.

use unhex_build_id::{BuildId, Identity};

use super::*;

fn native(build_id: &str, file_name: &str, address: u64) -> FrameContent {
    FrameContent::Native(NativeFrame {
        identity: Some(Identity::Gnu(build_id.parse::<BuildId>().unwrap())),
        file_name: file_name.into(),
        address: CodeAddress::Link(address),
    })
}

fn call(function: &str) -> Call {
    Call {
        function: function.into(),
        file: "main.c".into(),
        line: 7,
    }
}

fn functions_of(merged: &Merged, frame: FrameNumber) -> Vec<FunctionNumber> {
    let calls = merged.calls(frame).iter();
    calls.map(|call| call.function).collect()
}

#[test]
fn a_function_of_two_builds_in_two_folders_is_one() {
    let mut merged = Merged::new(ProfileType::cpu());
    let names = [call("inner"), call("outer")];
    let old = merged.frame(&native("aa01", "/usr/bin/checkout", 16), &names);
    let new = merged.frame(&native("bb02", "/opt/bin/checkout", 32), &names);
    assert_eq!(functions_of(&merged, old), functions_of(&merged, new));
    assert_eq!(merged.functions().len(), 2);
    assert_eq!(merged.binaries().len(), 2);
    let other = merged.frame(&native("cc03", "payment", 16), &names);
    assert_ne!(functions_of(&merged, old), functions_of(&merged, other));
}

#[test]
fn places_without_names_are_never_one_but_with_themselves() {
    let mut merged = Merged::new(ProfileType::cpu());
    let frames = [
        merged.frame(&native("aa01", "lib.so", 0x1a2b), &[]),
        merged.frame(&native("aa01", "lib.so", 0x1a2c), &[]),
        merged.frame(&native("bb02", "lib.so", 0x1a2b), &[]),
        merged.frame(&native("aa01", "/lib/lib.so", 0x1a2b), &[]),
    ];
    let again = merged.frame(&native("aa01", "lib.so", 0x1a2b), &[]);
    assert_eq!(
        functions_of(&merged, frames[0]),
        functions_of(&merged, again)
    );
    assert_eq!(merged.functions().len(), frames.len());
    for function in merged.functions() {
        assert!(function.name.starts_with("lib.so+0x1a2"), "{function:?}");
        assert_eq!(function.kind, ShownKind::Unresolved);
    }
}

#[test]
fn what_is_no_place_reads_as_what_it_is() {
    let mut merged = Merged::new(ProfileType::cpu());
    let mut shown = |content: FrameContent| {
        let frame = merged.frame(&content, &[]);
        let function = &merged.functions()[functions_of(&merged, frame)[0].index()];
        (function.name.to_string(), function.kind)
    };
    let kernel = |file_name: &str| FrameContent::Kernel {
        file_name: file_name.into(),
        names: Vec::new(),
    };
    let expected = |name: &str, kind| (name.to_owned(), kind);
    assert_eq!(
        shown(FrameContent::MissingUnwinder {
            runtime: "python".into()
        }),
        expected("[python]", ShownKind::MissingUnwinder)
    );
    let reason = "[truncated: max depth]";
    assert_eq!(
        shown(FrameContent::Truncated {
            reason: reason.into()
        }),
        expected(reason, ShownKind::Truncated)
    );
    assert_eq!(shown(kernel("")), expected("[kernel]", ShownKind::Kernel));
    assert_eq!(shown(kernel("ext4")), expected("[ext4]", ShownKind::Kernel));
    assert_eq!(
        shown(FrameContent::Unplaced {
            file_name: "".into()
        }),
        expected("[unplaced]", ShownKind::Unplaced)
    );
    let vdso = NativeFrame {
        identity: None,
        file_name: "[vdso]".into(),
        address: CodeAddress::FileOffset(9),
    };
    assert_eq!(
        shown(FrameContent::Vdso(vdso)),
        expected("[vdso]@0x9", ShownKind::Vdso)
    );
    let named = FrameContent::Named {
        language: "cpython".into(),
        names: vec![FrameName {
            function: "handle".into(),
            file_name: "app.py".into(),
            line: -1,
        }],
    };
    assert_eq!(shown(named), expected("handle", ShownKind::Named));
}

#[test]
fn weights_add_up_beyond_64_bits() {
    let mut merged = Merged::new(ProfileType::cpu());
    let weight = Weight {
        count: 1,
        value: i128::from(i64::MAX),
    };
    for _ in 0..4 {
        merged.stack(&[], weight);
    }
    assert_eq!(merged.total().value, i128::from(i64::MAX) * 4);
    assert_eq!(merged.stacks().len(), 4);
}
