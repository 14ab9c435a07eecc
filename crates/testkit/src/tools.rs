//! Which external programs the tests use, where they are, and which Debian package has them.
//!
//! On a build machine (`CI=true`) a missing program fails the test, so that nothing is skipped
//! silently; elsewhere the test says that it was skipped and why.

use std::path::{Path, PathBuf};

/// An external program and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tool {
    /// The name of the program, looked up on the `PATH`; or the whole path of a file, of what is no program.
    pub program: &'static str,
    /// The Debian package to install when it is missing.
    pub package: &'static str,
}

macro_rules! tools {
    ($($(#[$doc:meta])* $name:ident = $program:literal in $package:literal;)*) => {
        $($(#[$doc])* pub const $name: Tool = Tool { program: $program, package: $package };)*
        /// Every tool named here.
        pub const ALL: &[Tool] = &[$($name),*];
    };
}

tools! {
    /// The C compiler of fixtures.
    GCC = "gcc" in "gcc";
    /// The C++ compiler of fixtures.
    GXX = "g++" in "g++";
    /// The other C compiler.
    CLANG = "clang-19" in "clang-19";
    /// The other C++ compiler.
    CLANGXX = "clang++-19" in "clang-19";
    /// The other linker, with identical code folding.
    LLD = "ld.lld-19" in "lld-19";
    /// The Rust compiler; comes with cargo, not from Debian.
    RUSTC = "rustc" in "rustc";
    /// Go's toolchain: makes programs that profile themselves, and reads profiles.
    GO = "go" in "golang-go";
    /// Google's library for pprof, in Go.
    GO_PPROF = "/usr/share/gocode/src/github.com/google/pprof/profile/profile.go" in "golang-github-google-pprof-dev";
    /// Removes symbols.
    STRIP = "strip" in "binutils";
    /// Copies parts of ELF files.
    OBJCOPY = "objcopy" in "binutils";
    /// Lists what is in ELF files.
    READELF = "readelf" in "binutils";
    /// llvm's objcopy, for sections compressed by zstd.
    LLVM_OBJCOPY = "llvm-objcopy-19" in "llvm-19";
    /// llvm's symbolizer: the peer and oracle.
    LLVM_SYMBOLIZER = "llvm-symbolizer-19" in "llvm-19";
    /// Packs split DWARF.
    LLVM_DWP = "llvm-dwp-19" in "llvm-19";
    /// Binutils' symbolizer.
    ADDR2LINE = "addr2line" in "binutils";
    /// Demangles C++ names.
    CXXFILT = "c++filt" in "binutils";
    /// elfutils' symbolizer.
    EU_ADDR2LINE = "eu-addr2line" in "elfutils";
    /// Moves common DWARF into a supplementary file.
    DWZ = "dwz" in "dwz";
    /// Compresses minidebuginfo.
    XZ = "xz" in "xz-utils";
    /// The debugger.
    GDB = "gdb" in "gdb";
    /// The memory checker.
    VALGRIND = "valgrind" in "valgrind";
    /// The reference debuginfod server.
    DEBUGINFOD = "debuginfod" in "debuginfod";
    /// The reference debuginfod client.
    DEBUGINFOD_FIND = "debuginfod-find" in "debuginfod";
    /// The profiler of the kernel's makers.
    PERF = "perf" in "linux-perf";
    /// Speaks HTTP.
    CURL = "curl" in "curl";
    /// The proxy.
    NGINX = "nginx" in "nginx-light";
    /// Scrapes metrics and evaluates alerts.
    PROMETHEUS = "prometheus" in "prometheus";
    /// Checks and tests rules and metrics.
    PROMTOOL = "promtool" in "prometheus";
    /// Sends alerts on.
    ALERTMANAGER = "prometheus-alertmanager" in "prometheus-alertmanager";
    /// Checks Alertmanager's configuration.
    AMTOOL = "amtool" in "prometheus-alertmanager";
    /// Runs a program in a network namespace of its own.
    UNSHARE = "unshare" in "util-linux";
    /// Runs a program in the network namespace of another.
    NSENTER = "nsenter" in "util-linux";
    /// Brings loopback up in a network namespace.
    IP = "ip" in "iproute2";
    /// Makes Debian packages.
    DPKG_DEB = "dpkg-deb" in "dpkg";
    /// Asks a Ceph how it is.
    CEPH = "ceph" in "ceph-common";
    /// Ceph's monitor: what the S3 server of the tests consists of.
    CEPH_MON = "ceph-mon" in "ceph-mon";
    /// Ceph's storage daemon.
    CEPH_OSD = "ceph-osd" in "ceph-osd";
    /// Ceph's S3 gateway.
    RADOSGW = "radosgw" in "radosgw";
    /// Makes users of the gateway.
    RADOSGW_ADMIN = "radosgw-admin" in "ceph-common";
    /// Makes the first map of monitors.
    MONMAPTOOL = "monmaptool" in "ceph-base";
    /// Makes the first map of storage daemons.
    OSDMAPTOOL = "osdmaptool" in "ceph-base";
    /// Runs scripts.
    BASH = "bash" in "bash";
}

impl Tool {
    /// Where the program is; `None`, after saying so, when it is missing and this is no build machine.
    ///
    /// ```no_run
    /// # use unhex_testkit::tools;
    /// let Some(gdb) = tools::GDB.find() else { return };
    /// ```
    ///
    /// # Panics
    /// If it is missing and `CI` is `true`; the message names the Debian package.
    pub fn find(self) -> Option<PathBuf> {
        let found = self.look_up();
        if found.is_none() {
            skip(&format!(
                "{} is not installed, Debian package {}",
                self.program, self.package
            ));
        }
        found
    }

    /// Where the program is, for programs that nothing can be tested without.
    ///
    /// # Panics
    /// If it is missing; the message names the Debian package.
    pub fn path(self) -> PathBuf {
        self.look_up().unwrap_or_else(|| {
            panic!(
                "{} is not installed, Debian package {}",
                self.program, self.package
            )
        })
    }

    fn look_up(self) -> Option<PathBuf> {
        let whole = Path::new(self.program);
        if whole.is_absolute() {
            return whole.exists().then(|| whole.to_owned());
        }
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders)
            .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
            .map(|folder| folder.join(self.program))
            .find(|path| is_executable(path))
    }
}

/// Says that a test is skipped and why; on a build machine nothing may be skipped.
///
/// # Panics
/// If `CI` is `true`.
pub fn skip(reason: &str) {
    assert!(!is_build_machine(), "cannot test: {reason}");
    let mut stderr = std::io::stderr();
    // Written past the test harness's capture, so that it is seen when the test passes.
    drop(std::io::Write::write_all(
        &mut stderr,
        format!("SKIPPED: {reason}\n").as_bytes(),
    ));
}

/// Whether this is a build machine, where everything must be tested.
pub fn is_build_machine() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(BASH.path().ends_with("bash"));
    }

    #[test]
    #[should_panic(expected = "Debian package no-such-package")]
    fn a_missing_program_names_its_debian_package() {
        let tool = Tool {
            program: "no-such-program",
            package: "no-such-package",
        };
        tool.path();
    }
}
