//! What a control group says: the container, the pod and the systemd unit of a process, from `/proc/PID/cgroup`.

/// What was found in the path of a control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlGroup {
    /// The whole path, for rules: of version 2, else of the first hierarchy.
    pub path: String,
    /// The container, by the ID of its runtime: 64 hex digits, or 32 and a number (ECS).
    pub container: Option<String>,
    /// The UID of its pod.
    pub pod_uid: Option<String>,
    /// The systemd unit without `.service`, and of a template without its instance.
    pub unit: Option<String>,
}

impl ControlGroup {
    /// What the text of `/proc/PID/cgroup` says: a line `number:controllers:path` for each hierarchy.
    pub fn of(text: &str) -> Self {
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let paths: Vec<&str> = paths.collect();
        let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
        let path = unified.or_else(|| paths.first().copied());
        // Of several hierarchies any may be the one that knows.
        let first = |find: fn(&str) -> Option<String>| paths.iter().find_map(|path| find(path));
        Self {
            path: path.unwrap_or_default().to_owned(),
            container: first(container),
            pod_uid: first(pod_uid),
            unit: first(unit),
        }
    }
}

/// `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, `SLICE:cri-containerd:ID`, `/docker/ID`, `/ecs/TASK/ID-NUMBER`,
/// with groups that the container made itself behind.
fn container(path: &str) -> Option<String> {
    path.rsplit('/').find_map(|part| {
        let part = part.strip_suffix(".scope").unwrap_or(part);
        // The process that watches a container of CRI-O is not in it.
        if part.starts_with("crio-conmon-") {
            return None;
        }
        let last = part.rsplit([':', '-']).next().unwrap_or(part);
        if is_hex(last, 64) {
            return Some(last.to_owned());
        }
        let (id, number) = part.split_once('-')?;
        let is_ecs = is_hex(id, 32) && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_ecs && !number.is_empty()).then(|| part.to_owned())
    })
}

/// `kubepods-burstable-podUID.slice` with `_` for `-`, or `/kubepods/burstable/podUID`.
fn pod_uid(path: &str) -> Option<String> {
    path.rsplit(['/', ':']).find_map(|part| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let (_, uid) = part.rsplit_once("pod")?;
        let uid = uid.replace('_', "-");
        let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
        let is_uid = uid
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        (is_uid && digits == 32).then_some(uid)
    })
}

/// The innermost unit that is a service; the manager of a user's session is none.
fn unit(path: &str) -> Option<String> {
    path.rsplit('/').find_map(|part| {
        let name = part.strip_suffix(".service")?;
        let (name, instance) = match name.split_once('@') {
            Some((name, instance)) => (name, Some(instance)),
            None => (name, None),
        };
        let is_session_manager = name == "user" && instance.is_some();
        (!name.is_empty() && !is_session_manager).then(|| unescaped(name))
    })
}

/// systemd writes bytes that cannot be in a name as `\xNN` (systemd.unit, "String escaping").
fn unescaped(name: &str) -> String {
    let mut parts = name.split("\\x");
    let mut found = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (digits, part.get(2..)) {
            (Some(byte), Some(rest)) => {
                found.push(byte);
                found.extend(rest.bytes());
            }
            _ => found.extend(format!("\\x{part}").bytes()),
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn of_path(path: &str) -> ControlGroup {
        ControlGroup::of(&format!("0::{path}\n"))
    }

    #[test]
    fn containers_of_every_runtime_are_found() {
        let short = "0123456789abcdef".repeat(2);
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/docker/{ID}/init"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods.slice/crio-{ID}.scope/container"),
            format!("/kubepods-besteffort.slice:cri-containerd:{ID}"),
            format!("/machine.slice/libpod-{ID}.scope"),
            format!("/../../kubepods/pod1/{ID}"),
        ] {
            assert_eq!(of_path(&path).container.as_deref(), Some(ID), "{path}");
        }
        let ecs = format!("{short}-1234567");
        assert_eq!(of_path(&format!("/ecs/{short}/{ecs}")).container, Some(ecs));
        for path in [
            "/".to_owned(),
            format!("/system.slice/crio-conmon-{ID}.scope"),
            format!("/x/{ID}0"),
            "/init.scope".to_owned(),
        ] {
            assert_eq!(of_path(&path).container, None, "{path}");
        }
    }

    #[test]
    fn pods_are_found_in_both_spellings() {
        let uid = "6e6f0a1c-1111-2222-3333-44445555aaaa";
        let slice = uid.replace('-', "_");
        for path in [
            format!("/kubepods.slice/kubepods-burstable-pod{slice}.slice/x"),
            format!("/kubepods/burstable/pod{uid}/{ID}"),
            format!("/kubepods-burstable-pod{slice}.slice:cri-containerd:{ID}"),
        ] {
            assert_eq!(of_path(&path).pod_uid.as_deref(), Some(uid), "{path}");
        }
        assert_eq!(of_path("/kubepods.slice/podman.service").pod_uid, None);
    }

    #[test]
    fn units_are_services_by_their_name() {
        for (path, expected) in [
            ("/system.slice/nginx.service", Some("nginx")),
            (
                "/system.slice/postgresql@16-main.service",
                Some("postgresql"),
            ),
            ("/system.slice/a\\x2db.service", Some("a-b")),
            ("/system.slice/nginx.service/workers", Some("nginx")),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/editor.service",
                Some("editor"),
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/init.scope",
                None,
            ),
            ("/user.slice/user-1000.slice/session-3.scope", None),
            ("/system.slice/.service", None),
        ] {
            assert_eq!(of_path(path).unit.as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn any_hierarchy_of_version_1_may_know_the_container() {
        let text = format!("12:cpu,cpuacct:/\n3:pids:/docker/{ID}\n1:name=systemd:/x:y\n");
        let found = ControlGroup::of(&text);
        assert_eq!(found.container.as_deref(), Some(ID));
        assert_eq!(found.path, "/");
        assert_eq!(ControlGroup::of("1:name=systemd:/x:y\n").path, "/x:y");
    }

    proptest! {
        #[test]
        fn any_text_is_a_control_group(text in ".*") {
            let _any = ControlGroup::of(&text);
            let _any = of_path(&format!("/pod{text}.slice/{text}\\x{text}.service"));
        }
    }
}
