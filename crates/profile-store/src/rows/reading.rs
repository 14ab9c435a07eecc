//! From a message to its [`Batch`]: each profile as a whole or not at all.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unhex_pprof::{
    AttributeId, FrameId, Hashes, Profile, ProfileOrigin, Profiles, Sample, Span, StackHash,
    StackId,
};

use super::batch::{Batch, RefusedError, Rejected, SampleRow};
use super::bounds::TimeBounds;
use super::frames::FrameReader;
use super::labels::{Detail, LabelReader, Level, is_label_of_sample};
use super::measure::{Measure, measures, observations};
use super::series::{Series, SeriesId};

/// Series of a message. A host has some thousand processes with tens of kinds of threads; labels that differ in each
/// sample (a trace, a request) would make as many series as samples, and of no use.
pub const SERIES_MAX: usize = 1 << 16;

/// Rows of a message, 64 bytes of memory each: a 256-core host makes 300,000 in a minute. Of a message's bytes an observation
/// needs no more than one.
pub const BATCH_ROWS_MAX: usize = 1 << 22;

/// Rows have whole seconds: a microsecond costs 20 bits a row that nothing compresses, and compaction leaves minutes of it anyway.
const MICROS_PER_SECOND: i64 = 1_000_000;

/// How a message came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'q> {
    /// Labels of the request beside the message; they win over what it says.
    pub labels: &'q [(String, String)],
    /// When it came, and how old it may be.
    pub bounds: TimeBounds,
}

/// What a message puts into the table.
///
/// With more than [`SERIES_MAX`] series samples lose their own labels, and if those of profiles are still too many, profiles lose their
/// free ones: all samples of the message alike, so that it does not matter which came first.
pub fn batch(model: &Profiles<'_>, arrival: &Arrival<'_>) -> Batch {
    let read = |detail, series_max| Reading::new(model, arrival, detail, series_max).read();
    read(Detail::Samples, SERIES_MAX)
        .or_else(|| read(Detail::Profiles, SERIES_MAX))
        // One series a profile at most, and the number of these is bounded.
        .or_else(|| read(Detail::Known, usize::MAX))
        .unwrap_or_default()
}

/// A message that is being read.
struct Reading<'m, 'a> {
    model: &'m Profiles<'a>,
    bounds: TimeBounds,
    detail: Detail,
    series_max: usize,
    labels: LabelReader<'m, 'a>,
    request: Level,
    profile_levels: Option<ProfileLevels>,
    hashes: Hashes<'m, 'a>,
    stacks: FxHashMap<StackId, StackHash>,
    batch: Batch,
}

/// What the profile before said: neighbours have their resource and scope in common.
struct ProfileLevels {
    resource: (Span, Level),
    scope: (ProfileOrigin, Level),
}

/// What a profile would add.
#[derive(Default)]
struct Kept {
    rows: Vec<SampleRow>,
    series: BTreeMap<SeriesId, Arc<Series>>,
    samples_without_labels: u64,
}

/// The series of the sample before.
struct LastSeries {
    own: Vec<AttributeId>,
    series: Arc<Series>,
    /// Whether it has rows.
    is_kept: bool,
}

/// A sample, where it is, and whose.
struct SampleOf<'s> {
    profile: &'s Profile,
    number: usize,
    sample: Sample<'s>,
    series: &'s Arc<Series>,
}

impl<'m, 'a> Reading<'m, 'a> {
    fn new(
        model: &'m Profiles<'a>,
        arrival: &Arrival<'_>,
        detail: Detail,
        series_max: usize,
    ) -> Self {
        let mut labels = LabelReader::new(model);
        let request = labels.request(arrival.labels);
        Self {
            model,
            bounds: arrival.bounds,
            detail,
            series_max,
            labels,
            request,
            profile_levels: None,
            hashes: Hashes::of(model),
            stacks: FxHashMap::default(),
            batch: Batch::default(),
        }
    }

    /// None if there are too many series.
    fn read(mut self) -> Option<Batch> {
        for (number, profile) in self.model.profiles().iter().enumerate() {
            match self.profile(profile) {
                Ok(kept) => {
                    self.batch.left_out.samples += kept.samples_without_labels;
                    self.batch.series.extend(kept.series);
                    self.batch.rows.extend(kept.rows);
                }
                Err(reason) => self.batch.rejected.push(Rejected {
                    profile: number,
                    reason,
                }),
            }
            if self.batch.series.len() > self.series_max {
                return None;
            }
        }
        self.note_stacks();
        let samples = self.batch.left_out.samples;
        self.batch.left_out = self.labels.left_out;
        self.batch.left_out.samples = samples;
        Some(self.batch)
    }

    fn profile(&mut self, profile: &Profile) -> Result<Kept, RefusedError> {
        let base = self.profile_level(profile);
        let measures = measures(self.model, profile);
        let mut kept = Kept::default();
        // Whoever sends a message chooses the numbers: only a hash with a secret takes the same time for all of them.
        let mut by_labels: HashMap<Box<[AttributeId]>, Arc<Series>> = HashMap::new();
        // Neighbours mostly have the same labels.
        let mut last: Option<LastSeries> = None;
        for (number, sample) in self.model.samples(profile).enumerate() {
            let mut own = self.labels_of_sample(sample);
            if self.detail != Detail::Samples && !own.is_empty() {
                kept.samples_without_labels += 1;
                own.clear();
            }
            let of_sample = match &mut last {
                Some(last) if last.own == own => last,
                last => {
                    let known = by_labels.get(own.as_slice()).cloned();
                    let series = known.unwrap_or_else(|| {
                        let series = Arc::new(self.series(&base, &own));
                        by_labels.insert(own.as_slice().into(), Arc::clone(&series));
                        series
                    });
                    last.insert(LastSeries {
                        own,
                        series,
                        is_kept: false,
                    })
                }
            };
            let counted = SampleOf {
                profile,
                number,
                sample,
                series: &of_sample.series,
            };
            let rows_before = kept.rows.len();
            self.add_rows(&counted, &measures, &mut kept.rows)?;
            if kept.rows.len() > rows_before && !of_sample.is_kept {
                let series = &of_sample.series;
                kept.series.insert(series.id(), Arc::clone(series));
                of_sample.is_kept = true;
            }
        }
        Ok(kept)
    }

    fn add_rows(
        &mut self,
        of: &SampleOf<'_>,
        measures: &[Measure],
        rows: &mut Vec<SampleRow>,
    ) -> Result<(), RefusedError> {
        let stack = self.stack(of.sample.stack);
        for observation in 0..observations(of.profile, of.sample) {
            let time_unix_micros = self.time(of, observation);
            self.bounds.check(time_unix_micros)?;
            let time_unix_seconds = time_unix_micros.div_euclid(MICROS_PER_SECOND);
            for measure in measures {
                let portions = measure.portions(of.profile, of.sample, observation);
                let portions =
                    portions.map_err(|refused| refused.of(of.number, &measure.profile_type))?;
                rows.extend(portions.into_iter().flatten().map(|portion| SampleRow {
                    series: Arc::clone(of.series),
                    profile_type: Arc::clone(&measure.profile_type),
                    stack,
                    time_unix_seconds,
                    count: portion.count,
                    period: portion.period,
                }));
            }
            if self.batch.rows.len().saturating_add(rows.len()) > BATCH_ROWS_MAX {
                return Err(RefusedError::TooManyRows {
                    max: BATCH_ROWS_MAX,
                });
            }
        }
        Ok(())
    }

    /// In microseconds since 1970: of the observation, else of the profile, else of the arrival.
    fn time(&self, of: &SampleOf<'_>, observation: usize) -> i64 {
        let own = of.sample.timestamps.get(observation).copied();
        let nanos = own.filter(|&nanos| nanos > 0);
        let nanos = nanos.unwrap_or(of.profile.time_unix_nanos);
        if nanos == 0 {
            return self.bounds.now.as_microsecond();
        }
        i64::try_from(nanos / 1_000).unwrap_or(i64::MAX)
    }

    fn stack(&mut self, id: StackId) -> StackHash {
        let hashes = &mut self.hashes;
        *self.stacks.entry(id).or_insert_with(|| hashes.stack(id))
    }

    /// What the resource, the scope and the profile itself say.
    fn profile_level(&mut self, profile: &Profile) -> Level {
        let model = self.model;
        let before = self.profile_levels.take();
        let before = before.filter(|before| before.resource.0 == profile.resource);
        let (resource, scope) = before.map(|b| (b.resource, b.scope)).unzip();
        let resource = resource.unwrap_or_else(|| {
            let level = self.labels.level(model.attributes(profile.resource));
            (profile.resource, level)
        });
        let scope = scope.filter(|scope| scope.0 == profile.origin);
        let scope = scope.unwrap_or_else(|| {
            let level = self
                .labels
                .level(model.attributes(profile.origin.attributes));
            (profile.origin, level)
        });
        let own = self.labels.level(model.attributes(profile.attributes));
        let all = resource.1.under(&scope.1).under(&own);
        self.profile_levels = Some(ProfileLevels { resource, scope });
        all
    }

    /// Those of a sample's attributes that are labels, in an order that makes equal lists equal.
    fn labels_of_sample(&self, sample: Sample<'_>) -> Vec<AttributeId> {
        let ids = sample.attributes.iter().copied();
        let mut ids: Vec<AttributeId> = ids
            .filter(|id| self.model.attribute(*id).is_some_and(is_label_of_sample))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn series(&mut self, base: &Level, own: &[AttributeId]) -> Series {
        let model = self.model;
        let own = own.iter().filter_map(|id| model.attribute(*id));
        let own = self.labels.level(own);
        let level = base.under(&own).under(&self.request);
        self.labels.series(level, self.detail)
    }

    /// Notes what the stacks of the rows are.
    fn note_stacks(&mut self) {
        let used: FxHashSet<StackHash> = self.batch.rows.iter().map(|row| row.stack).collect();
        let mut reader = FrameReader::new(self.model);
        // By number: stacks name frames a dozen times as often as there are any.
        let mut seen = vec![false; self.model.frames().len()];
        let mut is_new = |id: FrameId| {
            let seen = seen.get_mut(id.index());
            seen.is_some_and(|seen| !std::mem::replace(seen, true))
        };
        for (id, hash) in &self.stacks {
            if !used.contains(hash) {
                continue;
            }
            let ids = self.model.stack(*id);
            let frames = ids.iter().map(|frame| self.hashes.frame(*frame));
            let stacks = &mut self.batch.stacks;
            stacks.entry(*hash).or_insert_with(|| frames.collect());
            for id in ids.iter().filter(|id| is_new(**id)) {
                let frame = self.model.frame(*id).copied().unwrap_or_default();
                let content = reader.content(&frame);
                match self.batch.frames.entry(self.hashes.frame(*id)) {
                    Entry::Vacant(entry) => {
                        entry.insert(content);
                    }
                    Entry::Occupied(mut entry) if content < *entry.get() => {
                        entry.insert(content);
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
    }
}
