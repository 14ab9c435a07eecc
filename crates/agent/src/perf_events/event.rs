//! One event on one processor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::settings::Settings;

const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_EVENT_IOC_DISABLE: libc::c_ulong = 0x2401;
const PERF_EVENT_IOC_PERIOD: libc::c_ulong = 0x4008_2404;

/// An event that counts all processes while they run on one processor, until it is dropped.
#[derive(Debug)]
pub struct Event {
    handle: OwnedFd,
}

impl Event {
    /// An event on a processor; it does not count yet.
    ///
    /// # Errors
    /// As the kernel refuses it: EACCES without the capability, ENODEV where the processor was switched off, EINVAL for
    /// settings that it does not know.
    pub fn open(settings: Settings, processor: u32) -> io::Result<Self> {
        let attributes = settings.attributes();
        let processor = libc::c_int::try_from(processor).map_err(io::Error::other)?;
        let (all_processes, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
        #[expect(unsafe_code, reason = "neither std nor rustix has perf_event_open")]
        // SAFETY: the kernel reads as many bytes of `attributes` as its size field says, which is the size of the type,
        // and what it returns, if it is not negative, is a new descriptor that nobody else owns.
        let handle = unsafe {
            let returned = libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                all_processes,
                processor,
                no_group,
                PERF_FLAG_FD_CLOEXEC,
            );
            if returned < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(libc::c_int::try_from(returned).map_err(io::Error::other)?)
        };
        Ok(Self { handle })
    }

    /// Begins to count.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn enable(&self) -> io::Result<()> {
        self.control(PERF_EVENT_IOC_ENABLE, std::ptr::null())
    }

    /// Stops to count.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn disable(&self) -> io::Result<()> {
        self.control(PERF_EVENT_IOC_DISABLE, std::ptr::null())
    }

    /// Takes samples once in so many nanoseconds from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_period(&self, period_nanos: u64) -> io::Result<()> {
        self.control(PERF_EVENT_IOC_PERIOD, &raw const period_nanos)
    }

    fn control(&self, request: libc::c_ulong, argument: *const u64) -> io::Result<()> {
        #[expect(
            unsafe_code,
            reason = "neither std nor rustix has the requests of perf events"
        )]
        // SAFETY: the requests of this module take no argument, or a pointer to a u64 that they read, which outlives
        // the call.
        let returned = unsafe { libc::ioctl(self.handle.as_raw_fd(), request, argument) };
        if returned < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
