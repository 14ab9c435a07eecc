//! `unhex-store`: arguments to a running command.

fn main() -> std::process::ExitCode {
    unhex_profile_store::cli::run()
}
