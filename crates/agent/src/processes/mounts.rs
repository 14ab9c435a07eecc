//! Which file system a file lies in, as `/proc/PID/mountinfo` says: one that a program of some user serves may never
//! answer, and whoever asks waits for ever.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use rustix::fs::MemfdFlags;

/// Bytes of a list of mounts that are read: 100,000 mounts, the most that a namespace may have by default.
const MOUNTS_BYTES_MAX: u64 = 32 << 20;

/// Where a file lies, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) mount: u64,
    pub(super) device: (u32, u32),
}

/// Whether a file may be read without the risk to wait for a program of a user. `whose` is a process whose mounts have
/// the file, or `self`.
pub(super) fn answers(whose: &str, place: Place) -> bool {
    let mounts = File::open(format!("/proc/{whose}/mountinfo"));
    let mounts = mounts.map(|mounts| BufReader::new(mounts.take(MOUNTS_BYTES_MAX)));
    let lines = mounts
        .into_iter()
        .flat_map(|mounts| mounts.split(b'\n').map_while(Result::ok));
    match file_system(lines, place) {
        Some(name) => !name.starts_with(b"fuse"),
        // Mounted nowhere: a device of its own, or memory, which has none.
        None => place.device.0 != 0 || is_memory(place),
    }
}

/// The name of the file system that a mount has, of the lines of `mountinfo`.
fn file_system(lines: impl Iterator<Item = Vec<u8>>, place: Place) -> Option<Vec<u8>> {
    let (major, minor) = place.device;
    let device = format!("{major}:{minor}");
    let mut by_device = None;
    for line in lines {
        let mut words = line.split(|&byte| byte == b' ');
        let mount = words
            .next()
            .and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let is_on_device = words.nth(1) == Some(device.as_bytes());
        // A variable number of words, then a dash.
        let name = words.skip_while(|word| *word != b"-").nth(1);
        let name = name.map(<[u8]>::to_vec);
        if mount == Some(place.mount) {
            return name;
        }
        if is_on_device && by_device.is_none() {
            by_device = name;
        }
    }
    by_device
}

/// Whether it is memory without a path, as all files have that `memfd_create` makes: it has one device.
fn is_memory(place: Place) -> bool {
    let own = rustix::fs::memfd_create("unhex-agent", MemfdFlags::CLOEXEC);
    let stat = own.and_then(|own| rustix::fs::fstat(&own));
    stat.is_ok_and(|stat| {
        (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        ) == place.device
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
28 1 254:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw
90 28 0:47 / /home/a\\040b rw,nosuid - fuse.sshfs x@y: rw
91 28 8:3 / /mnt rw - fuseblk /dev/sda3 rw
";

    fn name(mount: u64, device: (u32, u32)) -> Option<String> {
        let lines = MOUNTS.lines().map(|line| line.as_bytes().to_vec());
        let name = file_system(lines, Place { mount, device })?;
        Some(String::from_utf8(name).unwrap())
    }

    #[test]
    fn a_mount_is_found_by_its_number_and_else_by_its_device() {
        assert_eq!(name(28, (0, 0)).as_deref(), Some("ext4"));
        assert_eq!(name(90, (254, 1)).as_deref(), Some("fuse.sshfs"));
        assert_eq!(name(7, (8, 3)).as_deref(), Some("fuseblk"));
        assert_eq!(name(7, (0, 99)), None);
    }

    #[test]
    fn memory_answers_and_what_is_mounted_nowhere_does_not() {
        let memory = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        let stat = rustix::fs::fstat(&memory).unwrap();
        let device = (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        );
        let nowhere = u64::MAX;
        assert!(answers(
            "self",
            Place {
                mount: nowhere,
                device
            }
        ));
        let unknown = Place {
            mount: nowhere,
            device: (0, u32::from(u16::MAX)),
        };
        assert!(!answers("self", unknown));
    }
}
