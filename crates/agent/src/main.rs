//! `unhex-agent`: arguments to a running command.

fn main() -> std::process::ExitCode {
    unhex_agent::cli::run()
}
