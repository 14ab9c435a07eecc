//! Whose a process is: the resource attributes that its samples are sent with.
//!
//! Several sources may say something, and for each attribute the first of them wins:
//! 1. the process context that an OpenTelemetry SDK publishes in memory ([`context`]),
//! 2. `OTEL_SERVICE_NAME`, then `OTEL_RESOURCE_ATTRIBUTES`, of the environment at exec ([`environment`]),
//! 3. configured rules ([`rules`]),
//! 4. Kubernetes, by the container ([`pods`]),
//! 5. the systemd unit and the container of its control group ([`cgroup`]),
//! 6. the executable, or the script that an interpreter runs ([`command`]),
//! 7. what is configured for the whole host.
//!
//! Never the name of a thread: one Java program would be twenty services. Never the process ID: a build would be a series
//! for each compiler that it starts. What is read of a process is [`Evidence`], by [`reading`]; what it means is pure.

mod cache;
mod cgroup;
mod command;
mod context;
mod environment;
mod pods;
mod reading;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use cache::{Known, LabelCache, Mapped};
pub use cgroup::ControlGroup;
pub use context::{Context, ContextError, ContextRegion};
pub use environment::{Environment, ParseResourceAttributesError, resource_attributes};
pub use pods::{Pod, Pods, PodsError};
pub use reading::{Evidence, ProcFolder};
pub use rules::{ParseRuleError, Rule, RuleSettings};

/// The name of the service.
pub const SERVICE_NAME: &str = "service.name";
/// Its version.
pub const SERVICE_VERSION: &str = "service.version";
/// Where it is deployed, as `production`.
pub const DEPLOYMENT: &str = "deployment.environment.name";
/// The key of that before it was renamed; it is understood, and sent under its new name.
const DEPLOYMENT_OLD: &str = "deployment.environment";
/// The container, by the ID of its runtime.
const CONTAINER_ID: &str = "container.id";

/// What samples are asked for by: never left out for others.
const ALWAYS: [&str; 3] = [SERVICE_NAME, SERVICE_VERSION, DEPLOYMENT];
/// What the threads of the kernel are as a service; what they are called is the name of a thread.
const KERNEL: &str = "kernel";

/// Attributes of one process, beside those that are always kept: Kubernetes and SDKs give 20 at most, and the profile store keeps 32 beside its own.
const ATTRIBUTES_MAX: usize = 40;
/// Bytes of an attribute's key; a longer one is left out. The semantic conventions have 50 at most.
const KEY_BYTES_MAX: usize = 64;
/// Bytes of an attribute's value, which is cut there: the profile store keeps 128.
const VALUE_BYTES_MAX: usize = 256;

/// Attributes that SDKs give a resource and that no profile is asked for by: of one process each, or of the SDK. Command lines
/// may hold secrets.
const LEFT_OUT_PREFIXES: [&str; 3] = ["process.", "telemetry.", "thread."];

/// The resource attributes of a process, by key. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[(Box<str>, Box<str>)]>);

/// What is configured or known of the host beside its processes.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Rules, the first that fits a process wins.
    pub rules: Vec<Rule>,
    /// The pods of this node.
    pub pods: Pods,
    /// Attributes of everything on this host, where nobody says otherwise.
    pub host: Vec<(String, String)>,
}

/// Attributes that are put together, the best source first.
#[derive(Debug, Default)]
struct Merged(BTreeMap<Box<str>, Box<str>>);

impl Labels {
    /// All attributes, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of an attribute.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value)
    }

    /// What the evidence says.
    pub fn of(evidence: &Evidence, surroundings: &Surroundings) -> Self {
        let mut merged = Merged::default();
        if let Some(context) = &evidence.context {
            merged.all(&context.attributes);
        }
        if let Some(name) = &evidence.environment.service_name {
            merged.one(SERVICE_NAME, name);
        }
        merged.all(&evidence.environment.attributes);
        if let Some(rule) = surroundings.rules.iter().find(|rule| rule.fits(evidence)) {
            merged.all(&rule.attributes);
        }
        let group = &evidence.group;
        let pod = surroundings.pods.of(group);
        if let Some(pod) = pod {
            merged.all(&pod.attributes);
        }
        if let Some(id) = &group.container {
            merged.one(CONTAINER_ID, id);
        }
        if let Some(uid) = &group.pod_uid {
            merged.one("k8s.pod.uid", uid);
        }
        // A pod's containers lie under the unit of whatever started them.
        if let Some(unit) = group.unit.as_ref().filter(|_| group.container.is_none()) {
            merged.one(SERVICE_NAME, unit);
        }
        if let Some(name) = command::name(evidence) {
            merged.one(SERVICE_NAME, &name);
        }
        merged.all(&surroundings.host);
        merged.finish()
    }
}

impl Surroundings {
    /// What the threads of the kernel are sent with.
    pub fn of_kernel(&self) -> Labels {
        let mut merged = Merged::default();
        merged.one(SERVICE_NAME, KERNEL);
        merged.all(&self.host);
        merged.finish()
    }
}

impl FromIterator<(String, String)> for Labels {
    /// Of several values of one key the first counts.
    fn from_iter<T: IntoIterator<Item = (String, String)>>(attributes: T) -> Self {
        let mut merged = Merged::default();
        for (key, value) in attributes {
            merged.one(&key, &value);
        }
        merged.finish()
    }
}

impl Merged {
    fn all(&mut self, attributes: &[(String, String)]) {
        for (key, value) in attributes {
            self.one(key, value);
        }
    }

    /// Adds an attribute that nobody gave yet, within bounds.
    fn one(&mut self, key: &str, value: &str) {
        let key = if key == DEPLOYMENT_OLD {
            DEPLOYMENT
        } else {
            key
        };
        let value = shortened(value.trim());
        let is_left_out = LEFT_OUT_PREFIXES
            .iter()
            .any(|prefix| key.starts_with(prefix));
        let is_full = self.0.len() >= ATTRIBUTES_MAX && !ALWAYS.contains(&key);
        if key.is_empty() || key.len() > KEY_BYTES_MAX || value.is_empty() || is_left_out || is_full
        {
            return;
        }
        self.0.entry(key.into()).or_insert_with(|| value.into());
    }

    fn finish(self) -> Labels {
        Labels(self.0.into_iter().collect())
    }
}

/// The text, cut at a character within the bound.
fn shortened(text: &str) -> &str {
    let end = text.floor_char_boundary(VALUE_BYTES_MAX);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn everything_said() -> (Evidence, Surroundings) {
        let evidence = Evidence {
            context: Some(Context {
                attributes: pairs(&[(SERVICE_NAME, "context")]),
                ..Context::default()
            }),
            environment: Environment {
                service_name: Some("variable".to_owned()),
                attributes: pairs(&[(SERVICE_NAME, "resource"), (SERVICE_VERSION, "1")]),
            },
            group: ControlGroup {
                unit: Some("unit".to_owned()),
                ..ControlGroup::default()
            },
            executable: "/usr/bin/program".to_owned(),
            ..Evidence::default()
        };
        let rule = RuleSettings {
            executable: Some("/usr/bin/.*".to_owned()),
            labels: [(SERVICE_NAME, "rule"), (DEPLOYMENT, "staging")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..RuleSettings::default()
        };
        let surroundings = Surroundings {
            rules: vec![Rule::new(rule).unwrap()],
            host: pairs(&[(DEPLOYMENT, "production"), ("host.name", "h")]),
            ..Surroundings::default()
        };
        (evidence, surroundings)
    }

    #[test]
    fn the_first_source_that_names_a_service_wins() {
        let (mut evidence, mut surroundings) = everything_said();
        let mut names = Vec::new();
        let mut name = |evidence: &Evidence, surroundings: &Surroundings| {
            let labels = Labels::of(evidence, surroundings);
            names.push(labels.get(SERVICE_NAME).unwrap().to_owned());
        };
        name(&evidence, &surroundings);
        evidence.context = None;
        name(&evidence, &surroundings);
        evidence.environment.service_name = None;
        name(&evidence, &surroundings);
        evidence.environment = Environment::default();
        name(&evidence, &surroundings);
        surroundings.rules.clear();
        name(&evidence, &surroundings);
        evidence.group.unit = None;
        name(&evidence, &surroundings);
        let expected = ["context", "variable", "resource", "rule", "unit", "program"];
        assert_eq!(names, expected);
    }

    #[test]
    fn each_attribute_comes_from_the_best_source_that_has_it() {
        let (evidence, surroundings) = everything_said();
        let labels = Labels::of(&evidence, &surroundings);
        let all: Vec<_> = labels.iter().collect();
        assert_eq!(
            all,
            [
                (DEPLOYMENT, "staging"),
                ("host.name", "h"),
                (SERVICE_NAME, "context"),
                (SERVICE_VERSION, "1"),
            ]
        );
    }

    #[test]
    fn threads_of_the_kernel_are_one_service() {
        let (_, surroundings) = everything_said();
        let labels = surroundings.of_kernel();
        assert_eq!(labels.get(SERVICE_NAME), Some("kernel"));
        assert_eq!(labels.get("host.name"), Some("h"));
    }

    #[test]
    fn attributes_of_one_process_and_of_the_sdk_are_left_out() {
        let labels = Labels::from_iter(pairs(&[
            ("process.pid", "7"),
            ("process.command_line", "--password=x"),
            ("telemetry.sdk.name", "opentelemetry"),
            (DEPLOYMENT_OLD, "production"),
        ]));
        assert_eq!(
            labels.iter().collect::<Vec<_>>(),
            [(DEPLOYMENT, "production")]
        );
    }

    #[test]
    fn attributes_are_bounded_in_number_and_length() {
        let many = (0..100).map(|n| (format!("key{n:03}"), "v".to_owned()));
        let many: Labels = many.collect();
        assert_eq!(many.iter().count(), ATTRIBUTES_MAX);
        let many = (0..100).map(|n| (format!("a{n:03}"), "v".to_owned()));
        let service = (SERVICE_NAME.to_owned(), "last".to_owned());
        let many: Labels = many.chain([service]).collect();
        assert_eq!(many.get(SERVICE_NAME), Some("last"));
        let long = Labels::from_iter([
            ("k".repeat(KEY_BYTES_MAX + 1), "v".to_owned()),
            ("key".to_owned(), "ü".repeat(VALUE_BYTES_MAX)),
        ]);
        assert_eq!(long.get("key").unwrap().len(), VALUE_BYTES_MAX);
        assert_eq!(long.iter().count(), 1);
    }
}
