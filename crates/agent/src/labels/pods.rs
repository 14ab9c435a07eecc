//! The pods of this node, as the kubelet lists them, by container: what Kubernetes knows of a process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;

use super::cgroup::ControlGroup;
use super::{SERVICE_NAME, SERVICE_VERSION};

/// Labels of a pod that name its service, the best first (Kubernetes, "Recommended Labels").
const NAME_LABELS: [&str; 3] = ["app.kubernetes.io/name", "app", "k8s-app"];
/// Labels of a pod that name its version.
const VERSION_LABELS: [&str; 2] = ["app.kubernetes.io/version", "version"];
/// The label that the pods of a Deployment have, and the end of its `ReplicaSet`'s name.
const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";

/// All pods, found by the control group of a process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    by_container: Arc<HashMap<String, Pod>>,
    /// For containers that are too new to be listed.
    by_uid: Arc<HashMap<String, Pod>>,
}

/// What a pod, or a container of it, gives its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Resource attributes.
    pub attributes: Vec<(String, String)>,
}

/// Why a list of pods is none.
#[derive(Debug, thiserror::Error)]
#[error("the answer is no list of pods")]
pub struct PodsError(#[from] serde_json::Error);

#[derive(Deserialize)]
struct PodList {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    kind: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(rename = "containerStatuses")]
    containers: Vec<Container>,
    #[serde(rename = "initContainerStatuses")]
    init_containers: Vec<Container>,
    #[serde(rename = "ephemeralContainerStatuses")]
    ephemeral_containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    #[serde(rename = "containerID", default)]
    id: String,
}

impl Pods {
    /// The pods of the kubelet's `/pods`, a `PodList` in JSON.
    ///
    /// # Errors
    /// If the text is none.
    pub fn of_kubelet(json: &[u8]) -> Result<Self, PodsError> {
        let list: PodList = serde_json::from_slice(json)?;
        let (mut by_container, mut by_uid) = (HashMap::new(), HashMap::new());
        for item in &list.items {
            let attributes = attributes(item);
            let status = &item.status;
            let containers = status
                .containers
                .iter()
                .chain(&status.init_containers)
                .chain(&status.ephemeral_containers);
            for container in containers {
                // `containerd://ID`; empty while it is being made.
                let id = container.id.rsplit('/').next().unwrap_or_default();
                if id.is_empty() {
                    continue;
                }
                let mut attributes = attributes.clone();
                attributes.push(("k8s.container.name".to_owned(), container.name.clone()));
                by_container.insert(id.to_owned(), Pod { attributes });
            }
            if !item.metadata.uid.is_empty() {
                by_uid.insert(item.metadata.uid.clone(), Pod { attributes });
            }
        }
        Ok(Self {
            by_container: Arc::new(by_container),
            by_uid: Arc::new(by_uid),
        })
    }

    /// The pod of a control group.
    pub fn of(&self, group: &ControlGroup) -> Option<&Pod> {
        let by_container = group
            .container
            .as_ref()
            .and_then(|id| self.by_container.get(id));
        by_container.or_else(|| self.by_uid.get(group.pod_uid.as_ref()?))
    }

    /// How many pods there are.
    pub fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }
}

fn attributes(item: &Item) -> Vec<(String, String)> {
    let Metadata {
        name,
        namespace,
        uid,
        labels,
        owner_references,
    } = &item.metadata;
    let label = |keys: &[&str]| keys.iter().find_map(|key| labels.get(*key)).cloned();
    let owner = owner_references.first();
    let workload = owner.map(|owner| workload(owner, labels.get(TEMPLATE_HASH_LABEL)));
    let service = label(&NAME_LABELS).or_else(|| workload.clone());
    let all = [
        (SERVICE_NAME, service.unwrap_or_else(|| name.clone())),
        (SERVICE_VERSION, label(&VERSION_LABELS).unwrap_or_default()),
        ("k8s.namespace.name", namespace.clone()),
        ("k8s.pod.name", name.clone()),
        ("k8s.pod.uid", uid.clone()),
        ("k8s.node.name", item.spec.node_name.clone()),
    ];
    let given = all.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The Deployment of a `ReplicaSet`, else the owner itself.
fn workload(owner: &Owner, hash: Option<&String>) -> String {
    let deployment = hash
        .filter(|_| owner.kind == "ReplicaSet")
        .and_then(|hash| {
            let name = owner.name.strip_suffix(hash.as_str())?;
            name.strip_suffix('-')
        });
    deployment.unwrap_or(&owner.name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"kind": "PodList", "items": [
        {"metadata": {"name": "shop-7d9f-abcde", "namespace": "prod", "uid": "u1",
                      "labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/version": "1.2", "app": "other"},
                      "ownerReferences": [{"kind": "ReplicaSet", "name": "shop-7d9f"}]},
         "spec": {"nodeName": "n1"},
         "status": {"containerStatuses": [{"name": "main", "containerID": "containerd://c1"}, {"name": "new"}],
                    "initContainerStatuses": [{"name": "init", "containerID": "cri-o://c2"}]}},
        {"metadata": {"name": "cart-55c-xyz", "uid": "u2", "labels": {"pod-template-hash": "55c"},
                      "ownerReferences": [{"kind": "ReplicaSet", "name": "cart-55c"}]}},
        {"metadata": {"name": "alone", "uid": "u3"}}]}"#;

    fn attribute(pods: &Pods, group: &ControlGroup, key: &str) -> Option<String> {
        let pod = pods.of(group)?;
        let found = pod.attributes.iter().find(|(found, _)| found == key);
        found.map(|(_, value)| value.clone())
    }

    fn container(id: &str) -> ControlGroup {
        ControlGroup {
            container: Some(id.to_owned()),
            ..ControlGroup::default()
        }
    }

    #[test]
    fn a_container_has_the_names_of_its_pod() {
        let pods = Pods::of_kubelet(LIST.as_bytes()).unwrap();
        assert_eq!(pods.len(), 3);
        let main = |key| attribute(&pods, &container("c1"), key);
        assert_eq!(main(SERVICE_NAME).as_deref(), Some("shop"));
        assert_eq!(main(SERVICE_VERSION).as_deref(), Some("1.2"));
        assert_eq!(main("k8s.namespace.name").as_deref(), Some("prod"));
        assert_eq!(main("k8s.node.name").as_deref(), Some("n1"));
        assert_eq!(main("k8s.container.name").as_deref(), Some("main"));
        let init = attribute(&pods, &container("c2"), "k8s.container.name");
        assert_eq!(init.as_deref(), Some("init"));
        assert_eq!(pods.of(&container("c3")), None);
    }

    #[test]
    fn a_pod_without_labels_is_called_as_its_workload_or_itself() {
        let pods = Pods::of_kubelet(LIST.as_bytes()).unwrap();
        let service = |uid: &str| {
            let group = ControlGroup {
                container: Some("too new".to_owned()),
                pod_uid: Some(uid.to_owned()),
                ..ControlGroup::default()
            };
            attribute(&pods, &group, SERVICE_NAME)
        };
        assert_eq!(service("u2").as_deref(), Some("cart"));
        assert_eq!(service("u3").as_deref(), Some("alone"));
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for text in ["", "Unauthorized", "{\"items\": 1}"] {
            assert!(Pods::of_kubelet(text.as_bytes()).is_err(), "{text}");
        }
    }
}
