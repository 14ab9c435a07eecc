//! The rooms of each program, and which of the others each of them may use.

/// A room, and the rooms that it may use.
pub(crate) type Rooms = &'static [(&'static str, &'static [&'static str])];

/// A program of rooms.
#[derive(Debug)]
pub(crate) struct Program {
    /// Where they lie.
    pub(crate) folder: &'static str,
    /// All of them.
    pub(crate) rooms: Rooms,
}

/// All programs that consist of rooms.
pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        folder: "src/",
        rooms: SYMBOL_SERVER,
    },
    Program {
        folder: "crates/profile-store/src/",
        rooms: PROFILE_STORE,
    },
    Program {
        folder: "crates/agent/src/",
        rooms: HOST_AGENT,
    },
];

/// Of the symbol server.
const SYMBOL_SERVER: Rooms = &[
    ("glob", &[]),
    ("archive", &[]),
    ("limits", &[]),
    ("metrics", &["limits"]),
    ("config", &["limits"]),
    ("queue", &["metrics"]),
    ("conversion", &["limits", "metrics", "queue"]),
    ("disk_cache", &["metrics"]),
    (
        "artifacts",
        &[
            "config",
            "conversion",
            "disk_cache",
            "limits",
            "metrics",
            "queue",
        ],
    ),
    (
        "scan",
        &[
            "archive",
            "artifacts",
            "config",
            "conversion",
            "disk_cache",
            "limits",
            "metrics",
        ],
    ),
    ("symbolize", &["artifacts", "limits", "metrics", "queue"]),
    (
        "signal",
        &["artifacts", "config", "glob", "limits", "metrics"],
    ),
    (
        "app",
        &[
            "artifacts",
            "config",
            "conversion",
            "limits",
            "metrics",
            "queue",
            "scan",
            "signal",
            "symbolize",
        ],
    ),
    (
        "http",
        &[
            "app",
            "artifacts",
            "config",
            "glob",
            "limits",
            "metrics",
            "queue",
            "scan",
            "signal",
            "symbolize",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "archive",
            "artifacts",
            "config",
            "conversion",
            "glob",
            "http",
            "limits",
            "metrics",
            "scan",
            "symbolize",
        ],
    ),
];

/// Of the profile store.
const PROFILE_STORE: Rooms = &[
    ("limits", &[]),
    ("answers", &[]),
    ("objects", &[]),
    ("rows", &[]),
    ("selector", &[]),
    ("table", &[]),
    ("clock", &["table"]),
    ("observe", &["config", "metrics"]),
    ("view", &["answers", "rows"]),
    ("config", &["limits", "objects", "table"]),
    ("reading", &["clock", "objects", "table"]),
    ("metrics", &["export", "maintain", "symbols"]),
    ("symbols", &["answers", "rows", "view"]),
    ("engine", &["files", "reading", "table"]),
    ("files", &["objects", "rows", "table"]),
    ("export", &["clock", "objects", "reading", "table"]),
    (
        "maintain",
        &["clock", "engine", "files", "objects", "reading", "table"],
    ),
    (
        "ingest",
        &["append", "clock", "config", "metrics", "observe", "rows"],
    ),
    (
        "append",
        &[
            "clock", "files", "limits", "metrics", "objects", "rows", "table",
        ],
    ),
    (
        "query",
        &[
            "answers", "engine", "files", "objects", "reading", "rows", "selector", "symbols",
            "table", "view",
        ],
    ),
    (
        "app",
        &[
            "append", "clock", "config", "engine", "export", "ingest", "limits", "maintain",
            "metrics", "objects", "observe", "query", "reading", "symbols",
        ],
    ),
    (
        "http",
        &[
            "answers", "app", "append", "config", "engine", "files", "ingest", "limits",
            "maintain", "metrics", "query", "reading", "selector", "table", "view",
        ],
    ),
    (
        "cli",
        &["answers", "app", "config", "http", "limits", "selector"],
    ),
];

/// Of the host agent.
const HOST_AGENT: Rooms = &[
    ("clock", &[]),
    ("limits", &[]),
    ("naming", &[]),
    ("refusal", &[]),
    ("sample", &[]),
    ("table", &[]),
    ("perf_events", &["refusal", "sample"]),
    ("processes", &["limits", "sample"]),
    ("runtimes", &["processes", "sample"]),
    ("labels", &["runtimes", "sample"]),
    (
        "sideband",
        &["clock", "perf_events", "processes", "refusal", "sample"],
    ),
    (
        "engine",
        &[
            "clock",
            "limits",
            "perf_events",
            "processes",
            "refusal",
            "sample",
            "sideband",
            "table",
        ],
    ),
    ("metrics", &["engine", "sample"]),
    ("restraint", &["metrics"]),
    ("export", &["metrics"]),
    (
        "upload",
        &["export", "metrics", "processes", "runtimes", "sample"],
    ),
    ("kubelet", &["export", "labels", "metrics"]),
    ("config", &["export", "kubelet", "labels", "upload"]),
    (
        "profile",
        &["labels", "processes", "runtimes", "sample", "upload"],
    ),
    (
        "collect",
        &[
            "clock",
            "engine",
            "labels",
            "processes",
            "profile",
            "sample",
        ],
    ),
    (
        "cli",
        &[
            "clock",
            "collect",
            "config",
            "engine",
            "export",
            "kubelet",
            "labels",
            "limits",
            "metrics",
            "naming",
            "processes",
            "profile",
            "restraint",
            "sample",
            "upload",
        ],
    ),
];
