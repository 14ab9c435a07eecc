//! What the symbol server is told of a batch, so that it can say whose symbols are missing: the bodies of `POST /observe`.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unhex_api::observe::{ObserveModule, ObserveRequest};
use unhex_api::symbolize::Labels;
use unhex_build_id::Identity;
use unhex_pprof::{FrameHash, StackHash};

use super::batch::{Batch, SampleRow};
use super::frames::{FrameContent, NativeFrame};
use super::measure::CPU;

/// Modules of one request to the symbol server, the least that it takes by default; what is more goes into another one.
const OBSERVE_MODULES_MAX: usize = 4_096;

/// Service, version and deployment.
type LabelSet<'b> = [&'b str; 3];

/// What was counted at a stack. CPU time first; where there is none, samples of whatever was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    cpu_nanos: u128,
    samples: u128,
}

/// A request for each service, version and deployment of the batch, in their order; more than one, with one `profile_id`,
/// where there are too many modules. The IDs start with `batch_id`, so that a batch that is told twice counts once.
///
/// The weight of a module is the nanoseconds of CPU time in all of its frames, as `/symbolize` counts frames; for label sets without CPU time
/// the number of samples. Kernel, vdso, code without a file and names that are final are no missing symbols, and are not told.
pub fn observed(batch: &Batch, batch_id: &str) -> Vec<ObserveRequest> {
    let mut sets: BTreeMap<LabelSet<'_>, FxHashMap<StackHash, Weight>> = BTreeMap::new();
    // Neighbours are of one series.
    for rows in batch
        .rows
        .chunk_by(|a, b| Arc::ptr_eq(&a.series, &b.series))
    {
        let Some(series) = rows.first().map(|row| &row.series) else {
            continue;
        };
        let labels = [series.service(), series.version(), series.deployment()];
        let stacks = sets.entry(labels).or_default();
        for row in rows {
            stacks.entry(row.stack).or_default().add(row);
        }
    }
    let binaries = Binaries::of(batch);
    let mut requests = Vec::new();
    for (number, (labels, stacks)) in sets.into_iter().enumerate() {
        let modules = modules(batch, &binaries, &stacks);
        let chunks = modules.chunks(OBSERVE_MODULES_MAX).map(<[_]>::to_vec);
        let mut chunks: Vec<Vec<ObserveModule>> = chunks.collect();
        if chunks.is_empty() {
            // A profile without native frames is a profile that arrived.
            chunks.push(Vec::new());
        }
        let [service, version, deployment] = labels.map(|label| Some(label.to_owned()));
        requests.extend(chunks.into_iter().map(|modules| ObserveRequest {
            labels: Labels {
                service: service.clone(),
                version: version.clone(),
                deployment: deployment.clone(),
            },
            profile_id: Some(format!("{batch_id}-{number}")),
            observe: true,
            modules,
        }));
    }
    requests
}

impl Weight {
    fn add(&mut self, row: &SampleRow) {
        let (count, value) = (u128::try_from(row.count), u128::try_from(row.value()));
        self.samples += count.unwrap_or_default();
        if &*row.profile_type == CPU {
            self.cpu_nanos += value.unwrap_or_default();
        }
    }
}

/// The binaries of a batch, and which of them each frame is in: found once, since stacks name frames a dozen times as often as there
/// are any.
struct Binaries<'b> {
    identities: Vec<&'b Identity>,
    of_frames: FxHashMap<FrameHash, (usize, &'b Arc<str>)>,
}

impl<'b> Binaries<'b> {
    fn of(batch: &'b Batch) -> Self {
        let mut places: BTreeMap<&Identity, usize> = BTreeMap::new();
        let mut of_frames = FxHashMap::default();
        for (number, frame) in &batch.frames {
            let FrameContent::Native(NativeFrame {
                identity: Some(identity),
                file_name,
                ..
            }) = frame
            else {
                continue;
            };
            let next = places.len();
            let place = *places.entry(identity).or_insert(next);
            of_frames.insert(*number, (place, file_name));
        }
        let mut identities: Vec<(usize, &Identity)> =
            places.into_iter().map(|(id, at)| (at, id)).collect();
        identities.sort_unstable_by_key(|(at, _)| *at);
        Self {
            identities: identities.into_iter().map(|(_, id)| id).collect(),
            of_frames,
        }
    }
}

/// In order of the identities.
fn modules(
    batch: &Batch,
    binaries: &Binaries<'_>,
    stacks: &FxHashMap<StackHash, Weight>,
) -> Vec<ObserveModule> {
    let is_cpu = stacks.values().any(|weight| weight.cpu_nanos > 0);
    let mut weights: Vec<Option<(&Arc<str>, u128)>> = vec![None; binaries.identities.len()];
    for (stack, weight) in stacks {
        let weight = if is_cpu {
            weight.cpu_nanos
        } else {
            weight.samples
        };
        let frames = batch.stacks.get(stack).into_iter();
        for frame in frames.flat_map(|frames| frames.iter()) {
            let Some((place, file_name)) = binaries.of_frames.get(frame) else {
                continue;
            };
            let Some(of_binary) = weights.get_mut(*place) else {
                continue;
            };
            let (name, sum) = of_binary.get_or_insert((file_name, 0));
            // Of several names the least, so that it does not depend on an order.
            if !Arc::ptr_eq(name, file_name) {
                *name = (*name).min(file_name);
            }
            *sum = sum.saturating_add(weight);
        }
    }
    let found = binaries.identities.iter().zip(weights);
    let mut found: Vec<(&Identity, (&Arc<str>, u128))> = found
        .filter_map(|(identity, weight)| Some((*identity, weight?)))
        .collect();
    found.sort_unstable_by_key(|(identity, _)| *identity);
    let module = |(identity, (name, weight)): (&Identity, (&Arc<str>, u128))| ObserveModule {
        build_id: identity.to_string(),
        id_kind: identity.kind(),
        name: (!name.is_empty()).then(|| name.to_string()),
        weight: u64::try_from(weight).unwrap_or(u64::MAX),
    };
    found.into_iter().map(module).collect()
}
