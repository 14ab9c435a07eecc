//! What the symbol server is told of a batch, so that it can say whose symbols are missing: the bodies of `POST /observe`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unhex_api::observe::{ObserveModule, ObserveRequest};
use unhex_api::symbolize::Labels;
use unhex_build_id::Identity;
use unhex_pprof::StackHash;

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
    let mut sets: BTreeMap<LabelSet<'_>, HashMap<StackHash, Weight>> = BTreeMap::new();
    for row in &batch.rows {
        let series = &row.series;
        let labels = [series.service(), series.version(), series.deployment()];
        let stacks = sets.entry(labels).or_default();
        stacks.entry(row.stack).or_default().add(row);
    }
    let mut requests = Vec::new();
    for (number, (labels, stacks)) in sets.into_iter().enumerate() {
        let modules = modules(batch, &stacks);
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

/// In order of the identities.
fn modules(batch: &Batch, stacks: &HashMap<StackHash, Weight>) -> Vec<ObserveModule> {
    let is_cpu = stacks.values().any(|weight| weight.cpu_nanos > 0);
    let mut weights: BTreeMap<&Identity, (&Arc<str>, u128)> = BTreeMap::new();
    for (stack, weight) in stacks {
        let weight = if is_cpu {
            weight.cpu_nanos
        } else {
            weight.samples
        };
        let frames = batch
            .stacks
            .get(stack)
            .into_iter()
            .flat_map(|frames| frames.iter());
        for frame in frames.filter_map(|frame| batch.frames.get(frame)) {
            let FrameContent::Native(NativeFrame {
                identity: Some(identity),
                file_name,
                ..
            }) = frame
            else {
                continue;
            };
            let (name, sum) = weights.entry(identity).or_insert((file_name, 0));
            // Of several names the least, so that it does not depend on an order.
            *name = (*name).min(file_name);
            *sum = sum.saturating_add(weight);
        }
    }
    let module = |(identity, (name, weight)): (&Identity, (&Arc<str>, u128))| ObserveModule {
        build_id: identity.to_string(),
        id_kind: identity.kind(),
        name: (!name.is_empty()).then(|| name.to_string()),
        weight: u64::try_from(weight).unwrap_or(u64::MAX),
    };
    weights.into_iter().map(module).collect()
}
