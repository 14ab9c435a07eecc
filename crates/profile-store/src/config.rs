//! The configuration: flags, then `UNHEX_STORE_*` variables, then `unhex-store.toml`, then the defaults.
//!
//! The only place that reads the environment. The result says all that the program needs to know, so
//! that a test can make one by hand.

mod retention;
mod s3;
mod write_token;

use std::env::VarError;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

use crate::limits::{LimitSettings, Limits, Seconds};
use crate::objects::S3Options;
use crate::table::plan::Retention;

pub use retention::{ParseServiceDaysError, RetentionSettings, ServiceDays};
pub use s3::S3Settings;
pub use write_token::WriteToken;

/// The file that is read when no other is named.
const CONFIG_FILE: &str = "unhex-store.toml";
/// The variable with the write token itself, for containers whose secrets are variables.
const WRITE_TOKEN_VARIABLE: &str = "UNHEX_STORE_WRITE_TOKEN";
/// The longest graceful stop by default: the usual 30 s of orchestrators, less some reserve.
const SHUTDOWN_SECONDS: u64 = 25;
/// Where the symbol server listens by default.
const SYMBOLS: &str = "http://127.0.0.1:8002";

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where to listen beside it, for exporters that are set to the port of OTLP over gRPC.
    pub grpc_listen: Option<SocketAddr>,
    /// The folder with the table; with a bucket, for temporary files.
    pub data: PathBuf,
    /// The bucket with the table, instead of the folder.
    pub s3: Option<S3Options>,
    /// The symbol server: it is asked for names and told what arrived. None if there is none.
    pub symbols: Option<String>,
    /// What a writer must show; without one everybody may write.
    pub write_token: Option<WriteToken>,
    /// How long a stop waits for requests and background tasks.
    pub shutdown: Duration,
    /// How long rows are kept.
    pub retention: Retention,
    /// Whether to write a Delta log beside the table, for other engines.
    pub delta: bool,
    /// Bounds on what strangers send.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8003)),
            grpc_listen: None,
            data: PathBuf::from("./unhex-store-data"),
            s3: None,
            symbols: Some(SYMBOLS.to_owned()),
            write_token: None,
            shutdown: Duration::from_secs(SHUTDOWN_SECONDS),
            retention: Retention::default(),
            delta: false,
            limits: Limits::default(),
        }
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What the program writes to standard error.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// How.
    pub format: LogFormat,
    /// What, as tracing's directives: `info`, `unhex_profile_store=debug,info`.
    pub filter: String,
}

/// The flags of `unhex-store serve`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// A file with settings; without this flag `unhex-store.toml` in the current folder, if there is one.
    ///
    /// Keys are the flags' names with `_` for `-`, limits under `[limits]`, the bucket under `[s3]`, the
    /// time that rows are kept under `[retention]`. A flag wins over its `UNHEX_STORE_*` variable, a
    /// variable over the file, the file over the default.
    #[arg(long, env = "UNHEX_STORE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// All that the file may say too.
    #[command(flatten)]
    pub settings: Settings,
}

/// What flags, variables and the file may each say.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Address and port to listen on, for HTTP and gRPC [default: 127.0.0.1:8003].
    #[arg(long, env = "UNHEX_STORE_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// A second address and port, as 127.0.0.1:4317 where exporters expect OTLP over gRPC.
    #[arg(long, env = "UNHEX_STORE_GRPC_LISTEN", value_name = "ADDRESS:PORT")]
    pub grpc_listen: Option<SocketAddr>,
    /// Folder for the table [default: ./unhex-store-data].
    #[arg(long, env = "UNHEX_STORE_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// The symbol server, which is asked for names and told what arrived; `none` without one
    /// [default: <http://127.0.0.1:8002>].
    #[arg(long, env = "UNHEX_STORE_SYMBOLS", value_name = "URL")]
    pub symbols: Option<String>,
    /// File with the token that whoever sends or deletes profiles must bring;
    /// `UNHEX_STORE_WRITE_TOKEN` may have the token itself.
    ///
    /// Clients send `Authorization: Bearer TOKEN`, or Basic with the token as the password. Queries need
    /// no token.
    #[arg(long, env = "UNHEX_STORE_WRITE_TOKEN_FILE", value_name = "FILE")]
    pub write_token_file: Option<PathBuf>,
    /// Lets everybody send and delete profiles although others than this machine can connect.
    #[arg(long, env = "UNHEX_STORE_ALLOW_ANONYMOUS_WRITES", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "true|false")]
    pub allow_anonymous_writes: Option<bool>,
    /// Writes a Delta log beside the table, so that other engines read the samples as a Delta Lake table.
    ///
    /// Costs some 20 LISTs every 15 seconds. One replica is enough, and any number may.
    #[arg(long, env = "UNHEX_STORE_DELTA", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "true|false")]
    pub delta: Option<bool>,
    /// Longest wait for running requests and open windows at a stop [default: 25 s].
    #[arg(long, env = "UNHEX_STORE_SHUTDOWN_SECONDS", value_name = "TIME")]
    pub shutdown_seconds: Option<Seconds>,
    /// How log lines are written [default: text].
    #[arg(long, env = "UNHEX_STORE_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What is logged, as in `info` or `unhex_profile_store=debug,info` [default: info].
    #[arg(long, env = "UNHEX_STORE_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// The bucket with the table.
    #[command(flatten)]
    pub s3: S3Settings,
    /// How long rows are kept.
    #[command(flatten)]
    pub retention: RetentionSettings,
    /// Bounds on what strangers send.
    #[command(flatten)]
    pub limits: LimitSettings,
}

impl Settings {
    /// These settings, and those of `under` where these have none.
    fn over(self, under: Self) -> Self {
        Self {
            listen: self.listen.or(under.listen),
            grpc_listen: self.grpc_listen.or(under.grpc_listen),
            data: self.data.or(under.data),
            symbols: self.symbols.or(under.symbols),
            write_token_file: self.write_token_file.or(under.write_token_file),
            allow_anonymous_writes: self.allow_anonymous_writes.or(under.allow_anonymous_writes),
            delta: self.delta.or(under.delta),
            shutdown_seconds: self.shutdown_seconds.or(under.shutdown_seconds),
            log_format: self.log_format.or(under.log_format),
            log: self.log.or(under.log),
            s3: self.s3.over(under.s3),
            retention: self.retention.over(under.retention),
            limits: self.limits.over(under.limits),
        }
    }
}

/// Why there is no usable configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file that was named cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration file is not understood.
    #[error("{path} is not understood: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A token that everybody can guess.
    #[error("the write token is empty")]
    EmptyToken,
    /// A token that no client could show: `Authorization` takes visible ASCII only.
    #[error("the write token has characters that a header cannot carry; use visible ASCII")]
    TokenNotVisible,
    /// A token that no header can carry.
    #[error("{WRITE_TOKEN_VARIABLE} is not UTF-8")]
    TokenNotText,
    /// Strangers could write.
    #[error(
        "{0} can be reached from other machines, and without a write token everybody who reaches it \
         could send and delete profiles; give --write-token-file FILE or {WRITE_TOKEN_VARIABLE}, \
         or listen on 127.0.0.1, or say --allow-anonymous-writes if the network is trusted"
    )]
    AnonymousWrites(SocketAddr),
}

/// The configuration of a server, and of its log.
///
/// # Errors
/// If a file cannot be read or understood, or if strangers could write without anybody having
/// said so.
pub fn load(args: ServeArgs) -> Result<(Config, LogConfig), ConfigError> {
    let file = read_settings(args.config.as_deref(), Path::new(CONFIG_FILE))?;
    let token_in_variable = std::env::var(WRITE_TOKEN_VARIABLE);
    let write_token = write_token(
        args.settings.write_token_file.as_deref(),
        token_in_variable,
        file.write_token_file.as_deref(),
    )?;
    let settings = args.settings.over(file);
    let log = LogConfig {
        format: settings.log_format.unwrap_or_default(),
        filter: settings.log.clone().unwrap_or_else(|| "info".to_owned()),
    };
    Ok((resolve(settings, write_token)?, log))
}

/// The write token: a file that a flag or variable names, then the variable with the token itself,
/// then a file that the configuration names.
fn write_token(
    named: Option<&Path>,
    variable: Result<String, VarError>,
    configured: Option<&Path>,
) -> Result<Option<WriteToken>, ConfigError> {
    let in_file = |path: &Path| WriteToken::new(&read(path)?);
    match (named, variable) {
        (Some(path), _) => in_file(path).map(Some),
        (None, Ok(secret)) => WriteToken::new(&secret).map(Some),
        // Whoever set it meant to guard the server: never fall back to none.
        (None, Err(VarError::NotUnicode(_))) => Err(ConfigError::TokenNotText),
        (None, Err(VarError::NotPresent)) => configured.map(in_file).transpose(),
    }
}

/// The settings with defaults for what nobody said.
fn resolve(settings: Settings, write_token: Option<WriteToken>) -> Result<Config, ConfigError> {
    let defaults = Config::default();
    let listen = settings.listen.unwrap_or(defaults.listen);
    let anonymous = settings.allow_anonymous_writes.unwrap_or(false);
    let mut reached = std::iter::once(listen).chain(settings.grpc_listen);
    let open = reached.find(|listen| !listen.ip().to_canonical().is_loopback());
    if let Some(open) = open.filter(|_| write_token.is_none() && !anonymous) {
        return Err(ConfigError::AnonymousWrites(open));
    }
    let symbols = settings.symbols.or(defaults.symbols);
    Ok(Config {
        listen,
        grpc_listen: settings.grpc_listen,
        data: settings.data.unwrap_or(defaults.data),
        s3: settings.s3.resolve(),
        symbols: symbols.filter(|url| url != "none"),
        write_token,
        shutdown: settings
            .shutdown_seconds
            .map_or(defaults.shutdown, Seconds::duration),
        retention: settings.retention.resolve(),
        delta: settings.delta.unwrap_or(false),
        limits: settings.limits.resolve(),
    })
}

fn read(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// The settings of the file that was named, or of the usual one where it is there.
fn read_settings(named: Option<&Path>, usual: &Path) -> Result<Settings, ConfigError> {
    let path = named.unwrap_or(usual);
    let text = match read(path) {
        Err(ConfigError::Unreadable { source, .. })
            if named.is_none() && source.kind() == io::ErrorKind::NotFound =>
        {
            return Ok(Settings::default());
        }
        text => text?,
    };
    toml::from_str(&text).map_err(|source| ConfigError::Malformed {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let flags = settings("listen = '127.0.0.1:1'\n[limits]\nmessage_bytes_max = '1KiB'");
        let file = settings("listen = '127.0.0.1:2'\ndata = '/d'\n[limits]\nconnections_max = 9");
        let config = resolve(flags.over(file), None).unwrap();
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.data, Path::new("/d"));
        assert_eq!(config.limits.message_bytes_max, 1024);
        assert_eq!(config.limits.connections_max, 9);
        assert_eq!(config.limits.window_millis_max, Duration::from_millis(500));
        assert_eq!(config.symbols.as_deref(), Some(SYMBOLS));
        let alone = resolve(settings("symbols = 'none'"), None).unwrap();
        assert_eq!(alone.symbols, None);
    }

    #[test]
    fn listening_beyond_loopback_without_a_token_is_refused_with_the_ways_out() {
        for (key, listen) in [
            ("listen", "0.0.0.0:8003"),
            ("listen", "[::]:8003"),
            ("grpc_listen", "192.0.2.1:4317"),
        ] {
            let open = settings(&format!("{key} = '{listen}'"));
            let said = resolve(open.clone(), None).unwrap_err().to_string();
            assert!(said.contains("--write-token-file") && said.contains("--allow-anonymous"));
            assert!(resolve(open, Some(WriteToken::new("t").unwrap())).is_ok());
            let asked = settings(&format!("{key}='{listen}'\nallow_anonymous_writes = true"));
            assert!(resolve(asked, None).is_ok());
        }
        for listen in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:1"] {
            assert!(resolve(settings(&format!("listen = '{listen}'")), None).is_ok());
        }
    }

    #[test]
    fn an_unknown_key_of_the_file_is_an_error() {
        assert!(toml::from_str::<Settings>("lisen = '127.0.0.1:1'").is_err());
        assert!(toml::from_str::<Settings>("[limits]\nnonsense = 1").is_err());
        assert!(toml::from_str::<Settings>("[retention]\nsample = 1").is_err());
    }

    #[test]
    fn a_token_that_cannot_be_read_never_means_that_everybody_may_write() {
        use std::os::unix::ffi::OsStringExt as _;
        let absent = Path::new("/nowhere/token");
        let named = write_token(Some(absent), Ok("from-variable".to_owned()), None);
        assert!(matches!(named, Err(ConfigError::Unreadable { .. })));
        let strange = VarError::NotUnicode(std::ffi::OsString::from_vec(vec![0xff]));
        let refused = write_token(None, Err(strange), None);
        assert!(matches!(refused, Err(ConfigError::TokenNotText)));
        let empty = write_token(None, Ok(String::new()), None);
        assert!(matches!(empty, Err(ConfigError::EmptyToken)));
    }
}
