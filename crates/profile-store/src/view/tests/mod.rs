//! The forms of one small profile that has a bit of everything.

mod files;
mod lists;

use unhex_build_id::Identity;
use unhex_pprof::CodeAddress;

use super::*;
use crate::answers::Asked;
use crate::rows::{FrameContent, FrameName, NativeFrame};

pub(super) fn native(build_id: &str, file_name: &str, address: CodeAddress) -> FrameContent {
    FrameContent::Native(NativeFrame {
        identity: Some(Identity::Gnu(build_id.parse().unwrap())),
        file_name: file_name.into(),
        address,
    })
}

pub(super) fn call(function: &str, file: &str, line: u32) -> Call {
    Call {
        function: function.into(),
        file: file.into(),
        line,
    }
}

pub(super) fn named(function: &str) -> FrameContent {
    FrameContent::Named {
        language: "cpython".into(),
        names: vec![FrameName {
            function: function.into(),
            file_name: "app.py".into(),
            line: 3,
        }],
    }
}

pub(super) fn heading() -> Heading {
    Heading {
        title: "CPU time".into(),
        subtitle: r#"{service="checkout"}"#.into(),
        from_unix_nanos: 1_700_000_000_000_000_000,
        duration_nanos: 60_000_000_000,
    }
}

/// 1,000 ms in all: 400 in an inlined `hash` of `find` of `main`, 300 in `main` itself, 200 at two places without names and 100 in a recursion.
pub(super) fn example() -> Merged {
    let link = CodeAddress::Link;
    let mut merged = Merged::new(ProfileType::cpu());
    let inlined = [call("hash; 2", "h.c", 7), call("find", "f.c", 70)];
    let find = merged.frame(&native("aa01", "/usr/bin/checkout", link(0x10)), &inlined);
    let main = [call("main", "main.c", 9)];
    let main = merged.frame(&native("aa01", "/usr/bin/checkout", link(0x20)), &main);
    let unknown = [
        merged.frame(
            &native("bb02", "libfoo.so", CodeAddress::FileOffset(0x1a2b)),
            &[],
        ),
        merged.frame(
            &native("cc03", "libfoo.so", CodeAddress::FileOffset(0x1a2b)),
            &[],
        ),
    ];
    let handle = merged.frame(&named("handle"), &[]);
    let kernel = FrameContent::Kernel {
        file_name: "ext4".into(),
        names: vec![FrameName {
            function: "read_iter".into(),
            file_name: "".into(),
            line: 0,
        }],
    };
    let kernel = merged.frame(&kernel, &[]);
    let mut stack = |frames: &[FrameNumber], ms: i128| {
        let (count, value) = (ms / 10, ms * 1_000_000);
        merged.stack(frames, Weight { count, value });
    };
    stack(&[find, main], 400);
    stack(&[main], 300);
    stack(&[unknown[0], main], 120);
    stack(&[unknown[1], main], 80);
    stack(&[kernel, handle, handle, main, handle], 100);
    merged
}

/// Of a profile's stacks, each as text, leaf first, in order.
pub(super) fn texts(merged: &Merged) -> Vec<String> {
    let mut all = Vec::new();
    for stack in merged.stacks() {
        let calls = stack.frames.iter().flat_map(|frame| merged.calls(*frame));
        let names = calls.map(|call| &*merged.functions()[call.function.index()].name);
        let names: Vec<&str> = names.collect();
        all.push(format!("{} {}", names.join("<"), stack.weight.value));
    }
    all
}
