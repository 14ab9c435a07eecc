//! What is read of a process to know whose it is: a few files of `/proc/PID`, each up to a bound, and nothing else.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::cgroup::ControlGroup;
use super::context::{Context, ContextRegion};
use super::environment::Environment;
use crate::sample::ProcessId;

/// Bytes of an environment that are looked through; the system allows 2 MiB with the arguments, real ones have some kilobytes.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of `/proc/PID/cgroup`; a dozen hierarchies of 4,096 each are fewer.
const CGROUP_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a command line: what runs stands at its start, and class paths of Java have some kilobytes.
const COMMAND_LINE_BYTES_MAX: u64 = 16 << 10;
/// Bytes of `/proc/PID/maps`; browsers have 3 MB.
const MAPS_BYTES_MAX: u64 = 8 << 20;
/// Mapped files of a process by which its runtime is told; plug-ins come behind the runtime's own library.
const MAPPED_FILES_MAX: usize = 1_024;

/// Everything that labels are made of.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What an SDK published.
    pub context: Option<Context>,
    /// The variables that may be read.
    pub environment: Environment,
    /// The control group.
    pub group: ControlGroup,
    /// The path of the executable, empty if unknown.
    pub executable: String,
    /// The command line.
    pub arguments: Vec<String>,
    /// The names of mapped files with code, without their folders.
    pub mapped_files: Vec<String>,
}

impl Evidence {
    /// Whether all of it is there: while a program is being executed it has a file already, but neither arguments nor an environment.
    pub fn is_settled(&self) -> bool {
        self.executable.is_empty() || !self.arguments.is_empty()
    }
}

/// The folder of processes, `/proc` but in tests and containers.
#[derive(Clone, Debug)]
pub struct ProcFolder {
    root: PathBuf,
    /// Variables beyond those of OpenTelemetry, and the attributes that they become.
    allowed_variables: Vec<(String, String)>,
}

impl ProcFolder {
    /// The processes under `root`; of an environment only OpenTelemetry's and these variables are kept.
    pub fn new(root: impl Into<PathBuf>, allowed_variables: Vec<(String, String)>) -> Self {
        Self {
            root: root.into(),
            allowed_variables,
        }
    }

    /// What can be read of a process; none if it is gone. What is not allowed to be read is empty.
    pub fn evidence(&self, process: ProcessId) -> Option<Evidence> {
        let folder = self.root.join(process.0.to_string());
        let group = beginning(folder.join("cgroup"), CGROUP_BYTES_MAX);
        // Everybody may read this one, of a process that is there.
        let group = group.ok()?;
        let read = |name: &str, max| beginning(folder.join(name), max).unwrap_or_default();
        let environment = read("environ", ENVIRONMENT_BYTES_MAX);
        let command_line = read("cmdline", COMMAND_LINE_BYTES_MAX);
        let maps = read("maps", MAPS_BYTES_MAX);
        let maps = String::from_utf8_lossy(&maps);
        let executable = fs::read_link(folder.join("exe")).unwrap_or_default();
        let region = maps.lines().find_map(ContextRegion::of_mapping);
        Some(Evidence {
            context: region.and_then(|region| self.context(process, region)),
            environment: Environment::of(&environment, &self.allowed_variables),
            group: ControlGroup::of(&String::from_utf8_lossy(&group)),
            executable: executable.to_string_lossy().into_owned(),
            arguments: arguments(&command_line),
            mapped_files: mapped_files(&maps),
        })
    }

    fn context(&self, process: ProcessId, region: ContextRegion) -> Option<Context> {
        let memory = File::open(self.root.join(process.0.to_string()).join("mem")).ok()?;
        let read = region.read(&mut |address, buffer| memory.read_exact_at(buffer, address));
        match read {
            Ok(context) => Some(context),
            Err(error) => {
                let pid = process.0;
                tracing::debug!(pid, %error, "the process context of process {pid} cannot be used: {error}");
                None
            }
        }
    }
}

fn beginning(path: PathBuf, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn arguments(command_line: &[u8]) -> Vec<String> {
    let all = command_line.split(|byte| *byte == 0);
    let all = all.map(|argument| String::from_utf8_lossy(argument).into_owned());
    let mut all: Vec<String> = all.collect();
    // Each ends with a zero byte.
    all.pop_if(|last| last.is_empty());
    all
}

/// Names of files that are mapped to be executed, each once.
fn mapped_files(maps: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let is_code = fields.nth(1).is_some_and(|flags| flags.contains('x'));
        let path = fields.nth(3).unwrap_or_default().trim();
        if !is_code || !path.starts_with('/') || found.len() >= MAPPED_FILES_MAX {
            continue;
        }
        let path = path.trim_end_matches(" (deleted)");
        let name = path.rsplit('/').next().unwrap_or(path);
        if !found.iter().any(|other| other == name) {
            found.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("7");
        fs::create_dir(&process).unwrap();
        let write = |name: &str, content: &[u8]| fs::write(process.join(name), content).unwrap();
        write("cgroup", b"0::/system.slice/shop.service\n");
        write("environ", b"HOME=/\0OTEL_SERVICE_NAME=shop\0TEAM=search\0");
        write("cmdline", b"python3\0/srv/a b.py\0");
        write(
            "maps",
            b"55550000-55551000 r-xp 00000000 08:01 12 /usr/bin/python3.11\n\
              55551000-55552000 r--p 00001000 08:01 12 /usr/bin/python3.11\n\
              7f000000-7f001000 r-xp 00000000 08:01 13 /usr/lib/a b/libx.so (deleted)\n\
              7f100000-7f101000 r-xp 00000000 00:00 0 \n\
              7f200000-7f201000 rw-s 00000000 00:01 14 /memfd:OTEL_CTX (deleted)\n",
        );
        std::os::unix::fs::symlink("/usr/bin/python3.11", process.join("exe")).unwrap();
        root
    }

    #[test]
    fn a_process_is_read_with_what_may_be_read_of_it() {
        let root = folder();
        let allowed = vec![("TEAM".to_owned(), "team".to_owned())];
        let proc = ProcFolder::new(root.path(), allowed);
        let evidence = proc.evidence(ProcessId(7)).unwrap();
        assert_eq!(evidence.environment.service_name.as_deref(), Some("shop"));
        let team = ("team".to_owned(), "search".to_owned());
        assert_eq!(evidence.environment.attributes, [team]);
        assert_eq!(evidence.group.unit.as_deref(), Some("shop"));
        assert_eq!(evidence.executable, "/usr/bin/python3.11");
        assert_eq!(evidence.arguments, ["python3", "/srv/a b.py"]);
        assert_eq!(evidence.mapped_files, ["python3.11", "libx.so"]);
        assert_eq!(evidence.context, None);
    }

    #[test]
    fn a_process_that_is_gone_has_no_evidence() {
        let root = folder();
        let proc = ProcFolder::new(root.path(), Vec::new());
        assert!(proc.evidence(ProcessId(8)).is_none());
        fs::remove_file(root.path().join("7/environ")).unwrap();
        assert!(proc.evidence(ProcessId(7)).is_some());
    }

    #[test]
    fn a_context_that_this_process_publishes_is_read_from_its_memory() {
        // ProcessContext { resource { attributes { key: "service.name" value { string: "shop" } } } }
        let payload = b"\x0a\x18\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop";
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("OTEL_CTX", flags).unwrap());
        let mut header = b"OTEL_CTX".to_vec();
        header.extend(2_u32.to_ne_bytes());
        header.extend(u32::try_from(payload.len()).unwrap().to_ne_bytes());
        header.extend(1_u64.to_ne_bytes());
        header.extend(
            u64::try_from(payload.as_ptr().addr())
                .unwrap()
                .to_ne_bytes(),
        );
        file.write_all_at(&header, 0).unwrap();
        let mapping = memmap2::MmapOptions::new().len(header.len()).map_raw(&file);
        let mapping = mapping.unwrap();
        let own = ProcessId(std::process::id());
        let evidence = ProcFolder::new("/proc", Vec::new()).evidence(own).unwrap();
        let service = ("service.name".to_owned(), "shop".to_owned());
        assert_eq!(evidence.context.unwrap().attributes, [service]);
        drop(mapping);
        let evidence = ProcFolder::new("/proc", Vec::new()).evidence(own).unwrap();
        assert_eq!(evidence.context, None);
    }

    #[test]
    fn this_process_can_be_read() {
        let evidence = ProcFolder::new("/proc", Vec::new()).evidence(ProcessId(std::process::id()));
        let evidence = evidence.unwrap();
        let own = std::env::current_exe().unwrap();
        assert_eq!(evidence.executable, own.to_string_lossy());
        assert!(!evidence.mapped_files.is_empty());
    }
}
