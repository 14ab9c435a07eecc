//! Reads a Parquet file by ranges from the object store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::{AsyncFileReader, MetadataFetch, MetadataSuffixFetch};
use parquet::errors::Result;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::objects::Objects;

/// Bytes that are read of a file's end at first: most footers are shorter, and one request less is worth more than the bytes.
const FOOTER_BYTES: usize = 32 << 10;

/// A file in the store, for readers of Parquet.
#[derive(Clone, Debug)]
pub struct RangeReader {
    store: Arc<dyn ObjectStore>,
    key: Key,
    bytes: Option<u64>,
}

impl RangeReader {
    /// A file of so many bytes.
    pub fn new(objects: &Objects, key: &str, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..Self::of_unknown_length(objects, key)
        }
    }

    /// A file whose length is not known: its end is asked for as such.
    pub fn of_unknown_length(objects: &Objects, key: &str) -> Self {
        Self {
            store: objects.store(),
            key: Key::from(key),
            bytes: None,
        }
    }
}

impl AsyncFileReader for RangeReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move { Ok(self.store.get_range(&self.key, range).await?) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move { Ok(self.store.get_ranges(&self.key, &ranges).await?) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        let options = options.map(|options| options.metadata_options().clone());
        async move {
            let reader = ParquetMetaDataReader::new()
                .with_metadata_options(options)
                .with_prefetch_hint(Some(FOOTER_BYTES));
            let metadata = match self.bytes {
                Some(bytes) => reader.load_and_finish(self, bytes).await?,
                None => reader.load_via_suffix_and_finish(self).await?,
            };
            Ok(Arc::new(metadata))
        }
        .boxed()
    }
}

impl MetadataFetch for RangeReader {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        self.get_bytes(range)
    }
}

impl MetadataSuffixFetch for RangeReader {
    fn fetch_suffix(&mut self, suffix: usize) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let options = GetOptions {
                range: Some(GetRange::Suffix(suffix as u64)),
                ..GetOptions::default()
            };
            let got = self.store.get_opts(&self.key, options).await?;
            Ok(got.bytes().await?)
        }
        .boxed()
    }
}

impl MetadataSuffixFetch for &mut RangeReader {
    fn fetch_suffix(&mut self, suffix: usize) -> BoxFuture<'_, Result<Bytes>> {
        MetadataSuffixFetch::fetch_suffix(&mut **self, suffix)
    }
}
