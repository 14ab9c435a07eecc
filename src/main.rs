//! Arguments to configuration to a running command.

fn main() -> std::process::ExitCode {
    unhex::cli::run()
}
