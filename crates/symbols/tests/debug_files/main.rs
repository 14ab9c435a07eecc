//! What this crate makes of real debug files, which the tests build with the tools of the system.

#[cfg(test)]
mod code_difference;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod llvm;
#[cfg(test)]
mod lookup;
#[cfg(test)]
mod packaging;
#[cfg(test)]
mod toolchain;
