//! Whose sample it was: labels from all that senders say, by one precedence, within bounds.
//!
//! What is more specific wins: the labels of the request, then the attributes of the sample, of the profile, of the scope, of
//! the resource. A name that one list has several times has the least value. So nothing depends on an order.

use std::collections::BTreeMap;
use std::sync::Arc;

use unhex_pprof::{Attribute, Profiles, Value};

use super::series::Series;
use super::text::{Texts, cleaned};

/// What service, version, deployment and instance read that nobody gave, as in the symbol server.
const UNLABELLED: &str = "unlabelled";

/// Free labels of a series; Kubernetes and clouds give a resource 10 to 20.
pub const FREE_LABELS_MAX: usize = 32;
/// Bytes of a label's name; the longest of the semantic conventions have 50. One that is longer is left out with its value: cut
/// names could be mistaken for each other.
pub const LABEL_NAME_BYTES_MAX: usize = 64;
/// Bytes of a label's value, which is cut there: the bound of the symbol server's labels, since the two are compared.
pub const LABEL_VALUE_BYTES_MAX: usize = 128;

/// What a name gets that would read as a known label and is none, as in Prometheus.
const EXPORTED: &str = "exported_";

/// The known labels, and the attributes (OpenTelemetry's semantic conventions) that they are made of, the best first.
const KNOWN: [(&str, &[&str]); 10] = [
    ("cluster", &["k8s.cluster.name"]),
    ("container", &["container.id"]),
    (
        "deployment",
        &["deployment.environment.name", "deployment.environment"],
    ),
    ("host", &["host.name", "host.id"]),
    ("instance", &["service.instance.id"]),
    ("namespace", &["k8s.namespace.name"]),
    ("node", &["k8s.node.name"]),
    ("pod", &["k8s.pod.name"]),
    ("service", &["service.name"]),
    ("version", &["service.version"]),
];

/// The known labels that every series has.
const ALWAYS: [&str; 4] = ["deployment", "instance", "service", "version"];

/// What became of labels beyond the bounds. The samples stay, so that totals are whole.
///
/// Each list of attributes counts once, however many samples have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelsLeftOut {
    /// Labels beyond [`FREE_LABELS_MAX`], or whose name is longer than [`LABEL_NAME_BYTES_MAX`].
    pub labels: u64,
    /// Values cut at [`LABEL_VALUE_BYTES_MAX`].
    pub values_cut: u64,
    /// Samples that lost labels since the batch had too many series.
    pub samples: u64,
}

/// What one list of attributes says, or several after the more specific ones have won. Bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    known: BTreeMap<&'static str, Arc<str>>,
    sources: BTreeMap<&'static str, Arc<str>>,
    free: BTreeMap<Arc<str>, Arc<str>>,
}

/// Which free labels a batch can afford.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// All.
    Samples,
    /// Those of requests, resources, scopes and profiles.
    Profiles,
    /// None, and the known ones of profiles.
    Known,
}

/// Reads attributes of a message as labels.
#[derive(Debug)]
pub(super) struct LabelReader<'m, 'a> {
    names: Texts<'m, 'a>,
    values: Texts<'m, 'a>,
    pub(super) left_out: LabelsLeftOut,
}

impl<'m, 'a> LabelReader<'m, 'a> {
    pub(super) fn new(model: &'m Profiles<'a>) -> Self {
        Self {
            names: Texts::new(model, LABEL_NAME_BYTES_MAX),
            values: Texts::new(model, LABEL_VALUE_BYTES_MAX),
            left_out: LabelsLeftOut::default(),
        }
    }

    /// What a list of attributes says.
    pub(super) fn level<'l>(&mut self, attributes: impl Iterator<Item = &'l Attribute>) -> Level {
        let mut level = Level::default();
        for attribute in attributes {
            let (name, is_too_long) = self.names.get(attribute.key);
            let (value, is_cut) = self.value(attribute.value);
            if name.is_empty() || value.is_empty() {
                continue;
            }
            if is_too_long {
                self.left_out.labels += 1;
                continue;
            }
            self.left_out.values_cut += u64::from(is_cut);
            self.left_out.labels += level.put(name, value);
        }
        level
    }

    /// What the labels of a request say; these may use the short names.
    pub(super) fn request(&mut self, labels: &[(String, String)]) -> Level {
        let mut level = Level::default();
        for (name, value) in labels {
            let (name, is_too_long) = cleaned(name, LABEL_NAME_BYTES_MAX);
            let (value, is_cut) = cleaned(value, LABEL_VALUE_BYTES_MAX);
            if name.is_empty() || value.is_empty() {
                continue;
            }
            if is_too_long {
                self.left_out.labels += 1;
                continue;
            }
            self.left_out.values_cut += u64::from(is_cut);
            if let Some((known, _)) = KNOWN.iter().find(|(known, _)| *known == name) {
                keep_least(&mut level.known, known, value.into());
            } else {
                self.left_out.labels += level.put(name.into(), value.into());
            }
        }
        level
    }

    fn value(&mut self, value: Value) -> (Arc<str>, bool) {
        match value {
            Value::Empty => ("".into(), false),
            Value::Text(id) | Value::Structured(id) => self.values.get(id),
            Value::Bool(is) => (is.to_string().into(), false),
            Value::Integer(number) => (number.to_string().into(), false),
            Value::Double(number) => {
                let (text, is_cut) = cleaned(&number.to_string(), LABEL_VALUE_BYTES_MAX);
                (text.into(), is_cut)
            }
        }
    }

    /// The series of what all levels say together.
    pub(super) fn series(&mut self, mut level: Level, detail: Detail) -> Series {
        let mut labels: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        for (name, sources) in KNOWN {
            let given = level.known.remove(name);
            let found = || sources.iter().find_map(|of| level.sources.remove(of));
            let value = given.or_else(found);
            let value = value.or_else(|| ALWAYS.contains(&name).then(|| UNLABELLED.into()));
            labels.extend(value.map(|value| (name.into(), value)));
        }
        let superseded = std::mem::take(&mut level.sources).into_iter();
        level
            .free
            .extend(superseded.map(|(name, value)| (name.into(), value)));
        self.left_out.labels += level.bound();
        if detail == Detail::Known {
            self.left_out.labels += level.free.len() as u64;
        } else {
            labels.extend(level.free);
        }
        Series::new(labels.into_iter().collect())
    }
}

/// Whether an attribute of a sample is a label: numbers, as of threads, CPUs and sizes, are of one observation.
pub(super) fn is_label_of_sample(attribute: &Attribute) -> bool {
    matches!(attribute.value, Value::Text(_))
}

impl Level {
    /// Adds a label; how many were left out for it.
    fn put(&mut self, name: Arc<str>, value: Arc<str>) -> u64 {
        let mut sources = KNOWN
            .iter()
            .flat_map(|(_, sources)| sources.iter().copied());
        if let Some(source) = sources.find(|source| *source == &*name) {
            keep_least(&mut self.sources, source, value);
            return 0;
        }
        let is_known = KNOWN.iter().any(|(known, _)| *known == &*name);
        let name = if is_known {
            format!("{EXPORTED}{name}").into()
        } else {
            name
        };
        keep_least(&mut self.free, name, value);
        self.bound()
    }

    /// This with what is more specific.
    pub(super) fn under(&self, specific: &Self) -> Self {
        let mut all = self.clone();
        let Self {
            known,
            sources,
            free,
        } = specific;
        all.known
            .extend(known.iter().map(|(k, v)| (*k, Arc::clone(v))));
        all.sources
            .extend(sources.iter().map(|(k, v)| (*k, Arc::clone(v))));
        all.free
            .extend(free.iter().map(|(k, v)| (Arc::clone(k), Arc::clone(v))));
        all
    }

    /// Leaves out the last names beyond the bound: which ones stay is the same whatever came first.
    fn bound(&mut self) -> u64 {
        let mut left_out = 0;
        while self.free.len() > FREE_LABELS_MAX {
            self.free.pop_last();
            left_out += 1;
        }
        left_out
    }
}

fn keep_least<K: Ord>(into: &mut BTreeMap<K, Arc<str>>, name: K, value: Arc<str>) {
    let kept = into.entry(name).or_insert_with(|| Arc::clone(&value));
    if value < *kept {
        *kept = value;
    }
}
