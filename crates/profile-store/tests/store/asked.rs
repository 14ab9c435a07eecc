//! A table with its dictionary, made from a few words, and everything that answers questions about it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use unhex_api::client::{ClientOptions, RetryPolicy};
use unhex_build_id::{IdKind, Identity};
use unhex_pprof::{CodeAddress, FrameHash, StackHash};
use unhex_profile_store::files::{
    NumberRow, Packing, StackNumber, StackRow, WrittenTable, frames_to_parquet, numbers_to_parquet,
    series_to_parquet, stacks_to_parquet,
};
use unhex_profile_store::objects::Objects;
use unhex_profile_store::query::{Queries, QueriesParts, Question, Window};
use unhex_profile_store::reading::Readings;
use unhex_profile_store::rows::{FrameContent, FrameName, NativeFrame, Series};
use unhex_profile_store::symbols::{Symbols, SymbolsOptions};
use unhex_profile_store::table::dictionary::{DictionaryName, DictionaryTable};
use unhex_profile_store::table::names::{ContentHash, Hour, PublishId};
use unhex_profile_store::view::ProfileType;

use crate::fleet::Now;
use crate::ingested::{Row, engine, put, put_numbered, stack_id};
use crate::symbol_server::SymbolServer;

/// The build ID of all native frames.
pub(crate) const BUILD_ID: &str = "abcd1234";

/// A table, a symbol server, and who answers questions.
pub(crate) struct Asked {
    pub(crate) objects: Objects,
    pub(crate) now: Now,
    pub(crate) server: SymbolServer,
    pub(crate) queries: Arc<Queries>,
    _spill: tempfile::TempDir,
}

impl Asked {
    /// An empty table at that time.
    pub(crate) async fn at(now: Timestamp) -> Self {
        Self::over(crate::replicas::in_memory(), now).await
    }

    pub(crate) async fn over(objects: Objects, now: Timestamp) -> Self {
        let now = Now::at(now);
        let server = SymbolServer::start().await;
        let (engine, spill) = engine(&objects, 256 << 20);
        let symbols = Symbols::new(SymbolsOptions {
            client: Some(ClientOptions {
                server: server.url(),
                retries: RetryPolicy {
                    attempts_max: 1,
                    ..RetryPolicy::default()
                },
                ..ClientOptions::default()
            }),
            bytes_max: 16 << 20,
            recheck: Duration::ZERO,
            wait: Duration::from_secs(20),
            rest: Duration::ZERO,
        });
        let queries = Queries::new(QueriesParts {
            objects: objects.clone(),
            engine,
            readings: Arc::new(Readings::new(objects.clone(), now.clock())),
            symbols: Arc::new(symbols.unwrap()),
            stack_bytes_max: 16 << 20,
        });
        Self {
            objects,
            now,
            server,
            queries: Arc::new(queries),
            _spill: spill,
        }
    }

    /// Who answers questions about the same table and remembers nothing.
    pub(crate) async fn another(&self) -> Self {
        Self::over(self.objects.clone(), self.now.now()).await
    }

    /// Puts the rows of one hour as a segment, and before it what their numbers stand for. Every other one has numbers of a writer instead of stacks.
    pub(crate) async fn append(&self, number: u8, rows: &[Row]) {
        let id = self.now.publish(number);
        let micros = Timestamp::from_microsecond(rows[0].micros).unwrap();
        let hour = Hour::of(micros).unwrap();
        let stacks = rows.iter().map(|row| StackRow {
            service: row.service.as_str().into(),
            stack: StackHash(stack_id(row.stack)),
            frames: frame_numbers(row.stack).into_iter().map(hash).collect(),
        });
        let stacks = stacks_to_parquet(stacks.collect(), Packing::Fresh).unwrap();
        self.dictionary((hour, id), DictionaryTable::Stacks, &stacks)
            .await;
        let frames = rows.iter().flat_map(|row| frame_numbers(row.stack));
        let frames: BTreeMap<u64, FrameContent> =
            frames.map(|number| (number, frame(number))).collect();
        let frames = frames.iter().map(|(number, frame)| (hash(*number), frame));
        let frames = frames_to_parquet(frames, Packing::Fresh).unwrap();
        self.dictionary((hour, id), DictionaryTable::Frames, &frames)
            .await;
        if number.is_multiple_of(2) {
            put(&self.objects, id, rows).await;
            return;
        }
        let number_of = |stack: u64| StackNumber {
            // Two writers in turns.
            writer: [number & 2 | 1; 8],
            number: u32::try_from(stack).unwrap(),
        };
        let numbers = rows.iter().map(|row| NumberRow {
            number: number_of(row.stack),
            stack: StackHash(stack_id(row.stack)),
        });
        let numbers = numbers_to_parquet(numbers.collect(), Packing::Fresh).unwrap();
        self.dictionary((hour, id), DictionaryTable::Numbers, &numbers)
            .await;
        put_numbered(&self.objects, id, rows, number_of).await;
    }

    /// Puts label sets into the dictionary of an hour.
    pub(crate) async fn series(&self, hour: Hour, series: &[Arc<Series>]) {
        let written = series_to_parquet(series.iter().map(AsRef::as_ref), Packing::Fresh).unwrap();
        let at = (hour, self.now.publish(200));
        self.dictionary(at, DictionaryTable::Series, &written).await;
    }

    async fn dictionary(
        &self,
        (hour, id): (Hour, PublishId),
        table: DictionaryTable,
        written: &WrittenTable,
    ) {
        let name = DictionaryName {
            hour,
            id,
            table,
            sha256: ContentHash::of(&written.bytes),
            rows: written.rows,
        };
        let key = name.to_string();
        let put = self.objects.put(&key, written.bytes.clone());
        put.await.unwrap();
    }
}

/// Stack `n` is `[place n, "shared", place 1000 + n % 3]`, leaf first; stack 7 ends in what the profiler cannot unwind, stack 8 is cut off.
pub(crate) fn frame_numbers(stack: u64) -> Vec<u64> {
    match stack {
        7 => vec![7, 5_007],
        8 => vec![8, 5_000, 5_008],
        _ => vec![stack, 5_000, 1_000 + stack % 3],
    }
}

fn frame(number: u64) -> FrameContent {
    match number {
        5_000 => FrameContent::Named {
            language: "cpython".into(),
            names: vec![FrameName {
                function: "shared".into(),
                file_name: "shared.py".into(),
                line: 1,
            }],
        },
        5_007 => FrameContent::MissingUnwinder {
            runtime: "beam".into(),
        },
        5_008 => FrameContent::Truncated {
            reason: "max depth".into(),
        },
        address => FrameContent::Native(NativeFrame {
            identity: Some(Identity::parse(IdKind::Gnu, BUILD_ID).unwrap()),
            file_name: "/usr/bin/checkout".into(),
            address: CodeAddress::Link(address),
        }),
    }
}

fn hash(number: u64) -> FrameHash {
    let mut hash = [3; 16];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    FrameHash(hash)
}

/// A question about a window.
pub(crate) fn question(selector: &str, from: Timestamp, to: Timestamp) -> Question {
    Question {
        selector: selector.parse().unwrap(),
        profile_type: ProfileType::cpu(),
        window: Window::new(from, to).unwrap(),
    }
}
