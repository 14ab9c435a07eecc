//! The configuration: flags, then `UNHEX_*` variables, then `unhex.toml`, then the defaults.
//!
//! The only place that reads the environment. The result says all that a server needs to know, so
//! that a test can make one by hand.

mod proxies;
mod s3;
mod scan;
mod signal;
mod upstream;
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

pub use proxies::{AddressRange, ParseAddressRangeError, TrustedProxies};
pub use s3::{
    ParseS3UrlError, S3Addressing, S3Config, S3Credentials, S3Encryption, S3Patience, S3Settings,
    S3Url,
};
pub use scan::{ParsePatternError, Pattern, ScanConfig, ScanKind, ScanSettings};
pub use signal::{ParseShareError, Share, SignalConfig, SignalSettings};
pub use upstream::{ParseUpstreamUrlError, UpstreamConfig, UpstreamUrl};
pub use write_token::WriteToken;

/// The file that is read when no other is named.
const CONFIG_FILE: &str = "unhex.toml";
/// The variable with the write token itself, for containers whose secrets are variables.
const WRITE_TOKEN_VARIABLE: &str = "UNHEX_WRITE_TOKEN";
/// The longest graceful stop by default: the usual 30 s of orchestrators, less some reserve.
const SHUTDOWN_SECONDS: u64 = 25;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The folder with everything that is stored; with a bucket, what was fetched from it.
    pub data: PathBuf,
    /// The bucket with everything that is stored, instead of the folder.
    pub s3: Option<S3Config>,
    /// What a writer must show; without one everybody may write.
    pub write_token: Option<WriteToken>,
    /// The `unhex` program that conversion children are started from.
    pub converter_program: PathBuf,
    /// How long a stop waits for requests and background tasks.
    pub shutdown: Duration,
    /// Who is asked for what is missing.
    pub upstream: UpstreamConfig,
    /// Who is believed in saying for whom it asks.
    pub trusted_proxies: TrustedProxies,
    /// Which folders are scanned.
    pub scan: ScanConfig,
    /// When missing symbols are alerted on.
    pub signal: SignalConfig,
    /// Bounds on what strangers send.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8002)),
            data: PathBuf::from("./unhex-data"),
            s3: None,
            write_token: None,
            converter_program: PathBuf::from("unhex"),
            shutdown: Duration::from_secs(SHUTDOWN_SECONDS),
            upstream: UpstreamConfig::default(),
            trusted_proxies: TrustedProxies::default(),
            scan: ScanConfig::default(),
            signal: SignalConfig::default(),
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

/// What a command writes to standard error.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// How.
    pub format: LogFormat,
    /// What, as tracing's directives: `info`, `unhex=debug,info`.
    pub filter: String,
}

/// The flags of `unhex serve`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// A file with settings; without this flag `unhex.toml` in the current folder, if there is one.
    ///
    /// Keys are the flags' names with `_` for `-`, limits under `[limits]`, those of missing symbols
    /// under `[signal]`, those of the bucket under `[s3]`, those of scanned folders under `[scan]`. A flag wins over its
    /// `UNHEX_*` variable, a variable over the file, the file over the default.
    #[arg(long, env = "UNHEX_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// All that the file may say too.
    #[command(flatten)]
    pub settings: Settings,
}

/// What flags, variables and the file may each say.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Address and port to listen on [default: 127.0.0.1:8002].
    #[arg(long, env = "UNHEX_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Folder for everything that is stored [default: ./unhex-data].
    #[arg(long, env = "UNHEX_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// File with the token that every write must bring; `UNHEX_WRITE_TOKEN` may have the token itself.
    ///
    /// Clients send `Authorization: Bearer TOKEN`, or Basic with the token as the password and any
    /// user name, which the log then shows. Reading needs no token.
    #[arg(long, env = "UNHEX_WRITE_TOKEN_FILE", value_name = "FILE")]
    pub write_token_file: Option<PathBuf>,
    /// Lets everybody write although others than this machine can connect.
    #[arg(long, env = "UNHEX_ALLOW_ANONYMOUS_WRITES", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "true|false")]
    pub allow_anonymous_writes: Option<bool>,
    /// Longest wait for running requests at a stop [default: 25 s].
    #[arg(long, env = "UNHEX_SHUTDOWN_SECONDS", value_name = "TIME")]
    pub shutdown_seconds: Option<Seconds>,
    /// The `unhex` program that conversions are run with [default: this one].
    #[arg(
        long,
        env = "UNHEX_CONVERTER_PROGRAM",
        value_name = "FILE",
        hide_short_help = true
    )]
    pub converter_program: Option<PathBuf>,
    /// How log lines are written [default: text].
    #[arg(long, env = "UNHEX_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What is logged, as in `info` or `unhex=debug,info` [default: info].
    #[arg(long, env = "UNHEX_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// Another debuginfod server that is asked for what is missing here; may be given several
    /// times, the preferred first.
    ///
    /// `http://` or `https://`, with a path, user name and password where the server wants them. All
    /// are asked at once.
    #[arg(
        long,
        env = "UNHEX_UPSTREAMS",
        value_name = "URL",
        value_delimiter = ','
    )]
    pub upstream: Option<Vec<UpstreamUrl>>,
    /// Lets redirects of upstream servers lead to private, loopback and link-local addresses.
    ///
    /// Upstream servers themselves may have such an address in any case.
    #[arg(long, env = "UNHEX_UPSTREAM_ALLOW_PRIVATE", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "true|false",
          hide_short_help = true)]
    pub upstream_allow_private: Option<bool>,
    /// A proxy in front of this server, or a range of them, such as 10.0.0.0/8; may be given several
    /// times.
    ///
    /// What it says in `X-Forwarded-For` is believed: the client is whom it names, and it is no hop
    /// of a question that servers pass on. See docs/behind-a-proxy.md.
    #[arg(
        long,
        env = "UNHEX_TRUSTED_PROXIES",
        value_name = "ADDRESS[/BITS]",
        value_delimiter = ','
    )]
    pub trusted_proxy: Option<Vec<AddressRange>>,
    /// The bucket with everything that is stored.
    #[command(flatten)]
    pub s3: S3Settings,
    /// Which folders are scanned.
    #[command(flatten)]
    pub scan: ScanSettings,
    /// When missing symbols are alerted on.
    #[command(flatten)]
    pub signal: SignalSettings,
    /// Bounds on what strangers send.
    #[command(flatten)]
    pub limits: LimitSettings,
}

impl Settings {
    /// These settings, and those of `under` where these have none.
    fn over(self, under: Self) -> Self {
        Self {
            listen: self.listen.or(under.listen),
            data: self.data.or(under.data),
            write_token_file: self.write_token_file.or(under.write_token_file),
            allow_anonymous_writes: self.allow_anonymous_writes.or(under.allow_anonymous_writes),
            shutdown_seconds: self.shutdown_seconds.or(under.shutdown_seconds),
            converter_program: self.converter_program.or(under.converter_program),
            log_format: self.log_format.or(under.log_format),
            log: self.log.or(under.log),
            upstream: self.upstream.or(under.upstream),
            upstream_allow_private: self.upstream_allow_private.or(under.upstream_allow_private),
            trusted_proxy: self.trusted_proxy.or(under.trusted_proxy),
            s3: self.s3.over(under.s3),
            scan: self.scan.over(under.scan),
            signal: self.signal.over(under.signal),
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
         could store and delete debug files; give --write-token-file FILE or {WRITE_TOKEN_VARIABLE}, \
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
    if write_token.is_none() && !anonymous && !listen.ip().to_canonical().is_loopback() {
        return Err(ConfigError::AnonymousWrites(listen));
    }
    let this_program = || std::env::current_exe().unwrap_or(defaults.converter_program);
    Ok(Config {
        listen,
        data: settings.data.unwrap_or(defaults.data),
        write_token,
        converter_program: settings.converter_program.unwrap_or_else(this_program),
        shutdown: settings
            .shutdown_seconds
            .map_or(defaults.shutdown, Seconds::duration),
        upstream: UpstreamConfig {
            servers: settings.upstream.unwrap_or_default(),
            allow_private: settings.upstream_allow_private.unwrap_or(false),
        },
        trusted_proxies: TrustedProxies(settings.trusted_proxy.unwrap_or_default()),
        s3: settings.s3.resolve(),
        scan: settings.scan.resolve(),
        signal: settings.signal.resolve(),
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
        let flags = settings("listen = '127.0.0.1:1'\n[limits]\nupload_bytes_max = '1KiB'");
        let file = settings("listen = '127.0.0.1:2'\ndata = '/d'\n[limits]\nconnections_max = 9");
        let config = resolve(flags.over(file), None).unwrap();
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.data, Path::new("/d"));
        assert_eq!(config.limits.upload_bytes_max, 1024);
        assert_eq!(config.limits.connections_max, 9);
        assert_eq!(config.limits.symbolize_modules_max, 4_096);
    }

    #[test]
    fn listening_beyond_loopback_without_a_token_is_refused_with_the_ways_out() {
        for listen in ["0.0.0.0:8002", "[::]:8002", "192.0.2.1:80"] {
            let open = settings(&format!("listen = '{listen}'"));
            let said = resolve(open.clone(), None).unwrap_err().to_string();
            assert!(said.contains("--write-token-file") && said.contains("--allow-anonymous"));
            assert!(resolve(open, Some(WriteToken::new("t").unwrap())).is_ok());
            let asked = settings(&format!("listen='{listen}'\nallow_anonymous_writes = true"));
            assert!(resolve(asked, None).is_ok());
        }
        for listen in [
            "127.0.0.1:0",
            "[::1]:0",
            "127.9.9.9:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(resolve(settings(&format!("listen = '{listen}'")), None).is_ok());
        }
    }

    #[test]
    fn the_usual_file_may_be_absent_but_not_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("unhex.toml");
        assert!(read_settings(None, &absent).is_ok());
        let named = read_settings(Some(&absent), &absent);
        assert!(matches!(named, Err(ConfigError::Unreadable { .. })));
        // A folder is there and cannot be read as a file, whoever asks.
        let said = read_settings(None, folder.path()).unwrap_err();
        assert!(said.to_string().contains("cannot be read"), "{said}");
    }

    #[test]
    fn an_unknown_key_of_the_file_is_an_error() {
        assert!(toml::from_str::<Settings>("lisen = '127.0.0.1:1'").is_err());
        assert!(toml::from_str::<Settings>("[limits]\nnonsense = 1").is_err());
    }

    #[test]
    fn a_token_that_cannot_be_read_never_means_that_everybody_may_write() {
        use std::os::unix::ffi::OsStringExt as _;
        let absent = Path::new("/nowhere/token");
        let variable = || Ok("from-variable".to_owned());
        let named = write_token(Some(absent), variable(), None);
        assert!(matches!(named, Err(ConfigError::Unreadable { .. })));
        let variable_wins = write_token(None, variable(), Some(absent))
            .unwrap()
            .unwrap();
        assert!(variable_wins.matches(b"from-variable"));
        let strange = VarError::NotUnicode(std::ffi::OsString::from_vec(vec![0xff]));
        let refused = write_token(None, Err(strange), None);
        assert!(matches!(refused, Err(ConfigError::TokenNotText)));
        let empty = write_token(None, Ok(String::new()), None);
        assert!(matches!(empty, Err(ConfigError::EmptyToken)));
        assert!(
            write_token(None, Err(VarError::NotPresent), None)
                .unwrap()
                .is_none()
        );
    }
}
