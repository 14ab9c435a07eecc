//! The configuration: flags, then `UNHEX_AGENT_*` variables, then `unhex-agent.toml`, then the defaults.
//!
//! The only place that reads the environment. The result says all that the program needs to know, so that a test can make
//! one by hand.

mod words;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::export::{Compression, ExporterOptions};
use crate::kubelet::KubeletOptions;
use crate::labels::{ParseRuleError, Rule, RuleSettings};
use crate::upload::UploadOptions;

pub use words::{EngineChoice, Label, LogFormat};

/// The file that is read when no other is named.
const CONFIG_FILE: &str = "unhex-agent.toml";
/// The label that says which host it is.
const HOST_NAME: &str = "host.name";
/// How often the kubelet is asked.
const PODS_EVERY: Duration = Duration::from_secs(30);
/// How fast debug information is sent by default: a host's share of a server that a fleet sends to.
const UPLOAD_BYTES_PER_SECOND: u64 = 4 << 20;
/// Most samples that can be asked for: perf does not allow more by itself, and nobody gains by it.
const SAMPLES_PER_SECOND_MAX: u32 = 1_000;
/// Longest batch: names of services appear with it, and what waits is lost with the agent.
const BATCH_SECONDS_MAX: u64 = 300;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where profiles go.
    pub exporter: ExporterOptions,
    /// How they are packed.
    pub compression: Compression,
    /// Where metrics are asked for; none if nobody may.
    pub listen: Option<SocketAddr>,
    /// What takes the samples.
    pub engine: EngineChoice,
    /// How many of each processor in a second.
    pub samples_per_second: u32,
    /// How long a batch grows at most; the least is half of it.
    pub batch: Duration,
    /// Bytes of batches that wait.
    pub queue_bytes_max: usize,
    /// Of the host's processor time, from 0 to 1.
    pub cpu_share_max: f64,
    /// Labels of everything on this host, where nobody says otherwise.
    pub host_labels: Vec<(String, String)>,
    /// Rules for labels, the first that fits counts.
    pub rules: Vec<Rule>,
    /// Variables of a process that may be read, beside OpenTelemetry's, and the labels that they become.
    pub environment: Vec<(String, String)>,
    /// Where pods are asked for, if at all.
    pub kubelet: Option<KubeletOptions>,
    /// Where debug information goes that a symbol server lacks, if anywhere.
    pub upload: Option<UploadOptions>,
}

/// What the program writes to standard error.
#[derive(Clone, Debug, Default)]
pub struct LogConfig {
    /// How.
    pub format: LogFormat,
    /// What, as tracing's directives: `info`, `unhex_agent=debug,info`.
    pub filter: String,
}

/// The flags that every command has.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConfigArgs {
    /// A file with settings; without this flag `unhex-agent.toml` in the current folder, if there is one.
    ///
    /// Keys are the flags' names with `_` for `-`, labels of the host under `[labels]`, variables under `[environment]`, rules under
    /// `[[rules]]`. A flag wins over its `UNHEX_AGENT_*` variable, a variable over the file, the file over the default.
    #[arg(long, env = "UNHEX_AGENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A label of everything on this host, where nothing else says otherwise; may be given several times.
    #[arg(
        long = "label",
        env = "UNHEX_AGENT_LABELS",
        value_delimiter = ',',
        value_name = "NAME=VALUE"
    )]
    pub labels: Vec<Label>,
    /// All that the file may say too.
    #[command(flatten)]
    pub settings: Settings,
}

/// What flags, variables and the file may each say.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The profile store, or any receiver of OTLP profiles over HTTP [default: <http://127.0.0.1:8003>].
    #[arg(long, env = "UNHEX_AGENT_STORE", value_name = "URL")]
    pub store: Option<String>,
    /// File with the token that the store wants to see; read for each batch, so that a new one counts at once.
    #[arg(long, env = "UNHEX_AGENT_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with certificates (PEM) that sign the store's, beside those of the system.
    #[arg(long, env = "UNHEX_AGENT_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// How messages are packed [default: zstd].
    #[arg(long, env = "UNHEX_AGENT_COMPRESSION", value_name = "HOW")]
    pub compression: Option<Compression>,
    /// Address and port for `/metrics` and `/healthz`; `none` without [default: 127.0.0.1:8004].
    #[arg(long, env = "UNHEX_AGENT_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// What takes the samples [default: auto].
    #[arg(long, env = "UNHEX_AGENT_ENGINE", value_name = "ENGINE")]
    pub engine: Option<EngineChoice>,
    /// Samples of each processor in a second [default: 19].
    #[arg(long, env = "UNHEX_AGENT_SAMPLES_PER_SECOND", value_name = "NUMBER")]
    pub samples_per_second: Option<u32>,
    /// How long a batch grows, in seconds: between half of this and this [default: 10].
    #[arg(long, env = "UNHEX_AGENT_BATCH_SECONDS", value_name = "SECONDS")]
    pub batch_seconds: Option<u64>,
    /// Bytes of packed batches that wait while the store is away; then the oldest are dropped [default: 33554432].
    #[arg(long, env = "UNHEX_AGENT_QUEUE_BYTES_MAX", value_name = "BYTES")]
    pub queue_bytes_max: Option<usize>,
    /// How much of the host's processor time the agent may take; beyond it samples are taken less often [default: 1].
    #[arg(long, env = "UNHEX_AGENT_CPU_PERCENT_MAX", value_name = "PERCENT")]
    pub cpu_percent_max: Option<f64>,
    /// The kubelet's list of pods, as <https://127.0.0.1:10250/pods>: processes in containers get their pods' names.
    #[arg(long, env = "UNHEX_AGENT_KUBELET", value_name = "URL")]
    pub kubelet: Option<String>,
    /// File with the token of a service account that may see the pods.
    #[arg(long, env = "UNHEX_AGENT_KUBELET_TOKEN_FILE", value_name = "FILE")]
    pub kubelet_token_file: Option<PathBuf>,
    /// File with certificates (PEM) that sign the kubelet's.
    #[arg(long, env = "UNHEX_AGENT_KUBELET_CA_FILE", value_name = "FILE")]
    pub kubelet_ca_file: Option<PathBuf>,
    /// Takes any certificate of the kubelet, as of one that signs its own; the connection should not leave this machine then.
    #[arg(long, env = "UNHEX_AGENT_KUBELET_ANY_CERTIFICATE", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, value_name = "true|false")]
    pub kubelet_any_certificate: Option<bool>,
    /// A symbol server that is sent debug information of what runs here where it lacks it, by default none.
    #[arg(long, env = "UNHEX_AGENT_UPLOAD_TO", value_name = "URL")]
    pub upload_to: Option<String>,
    /// File with the write token of that server.
    #[arg(long, env = "UNHEX_AGENT_UPLOAD_TOKEN_FILE", value_name = "FILE")]
    pub upload_token_file: Option<PathBuf>,
    /// How fast it is sent, in bytes of files a second on average [default: 4194304].
    #[arg(
        long,
        env = "UNHEX_AGENT_UPLOAD_BYTES_PER_SECOND",
        value_name = "BYTES"
    )]
    pub upload_bytes_per_second: Option<u64>,
    /// What the log has: `error`, `warn`, `info`, `debug`, or tracing's directives [default: info].
    #[arg(long, env = "UNHEX_AGENT_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// How log lines are written [default: text].
    #[arg(long, env = "UNHEX_AGENT_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Labels of everything on this host; only in the file, see `--label`.
    #[arg(skip)]
    pub labels: BTreeMap<String, String>,
    /// Variables that may be read of processes, and the labels that they become; only in the file.
    #[arg(skip)]
    pub environment: BTreeMap<String, String>,
    /// Rules for labels; only in the file.
    #[arg(skip)]
    pub rules: Vec<RuleSettings>,
}

/// Why the program cannot start as it is configured.
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
    /// A label that is none.
    #[error("{0:?} is no label; write it like team=search")]
    Label(String),
    /// A rule that cannot be used.
    #[error("rule {number} cannot be used: {source}")]
    Rule {
        /// Which, from 1.
        number: usize,
        /// Why.
        source: ParseRuleError,
    },
    /// An address that is none.
    #[error("{0:?} is no address and port, as 127.0.0.1:8004, nor none")]
    Listen(String),
    /// A number out of its range.
    #[error("{name} is {value}, and has to be {range}")]
    Range {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        range: String,
    },
}

macro_rules! settings_over {
    ($flags:ident, $file:ident: $($field:ident)+) => {
        Settings {
            $( $field: $flags.$field.or($file.$field), )+
            labels: $file.labels,
            environment: $file.environment,
            rules: $file.rules,
        }
    };
}

impl Settings {
    /// These, and of another what these do not say.
    fn over(self, file: Self) -> Self {
        settings_over!(self, file: store token_file ca_file compression listen engine samples_per_second
            batch_seconds queue_bytes_max cpu_percent_max kubelet kubelet_token_file kubelet_ca_file
            kubelet_any_certificate upload_to upload_token_file upload_bytes_per_second log log_format)
    }
}

/// The configuration of the agent, and of its log.
///
/// # Errors
/// If a file cannot be read or understood, or a setting is out of its range.
pub fn load(arguments: ConfigArgs) -> Result<(Config, LogConfig), ConfigError> {
    let file = read_settings(arguments.config.as_deref(), Path::new(CONFIG_FILE))?;
    let settings = arguments.settings.over(file);
    let log = LogConfig {
        format: settings.log_format.unwrap_or_default(),
        filter: settings.log.clone().unwrap_or_else(|| "info".to_owned()),
    };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok((resolve(settings, arguments.labels, host.trim())?, log))
}

/// The settings with defaults for what nobody said.
fn resolve(settings: Settings, labels: Vec<Label>, host: &str) -> Result<Config, ConfigError> {
    let defaults = ExporterOptions::default();
    let batch_seconds = settings.batch_seconds.unwrap_or(10);
    in_range("batch_seconds", batch_seconds, (1, BATCH_SECONDS_MAX))?;
    let samples_per_second = settings.samples_per_second.unwrap_or(19);
    in_range(
        "samples_per_second",
        samples_per_second,
        (1, SAMPLES_PER_SECOND_MAX),
    )?;
    let cpu_percent = settings.cpu_percent_max.unwrap_or(1.0);
    in_range("cpu_percent_max", cpu_percent, (0.01, 100.0))?;
    let kubelet = settings.kubelet.map(|url| KubeletOptions {
        url,
        token_file: settings.kubelet_token_file,
        ca_file: settings.kubelet_ca_file,
        takes_any_certificate: settings.kubelet_any_certificate.unwrap_or(false),
        every: PODS_EVERY,
    });
    let upload = settings.upload_to.map(|server| UploadOptions {
        server,
        token_file: settings.upload_token_file,
        bytes_per_second: settings
            .upload_bytes_per_second
            .unwrap_or(UPLOAD_BYTES_PER_SECOND),
        proc: PathBuf::from("/proc"),
    });
    // What is given first counts: flags, the file, and then the name that the host has.
    let mut host_labels: Vec<_> = labels.into_iter().map(|label| (label.0, label.1)).collect();
    host_labels.extend(settings.labels);
    host_labels.push((HOST_NAME.to_owned(), host.to_owned()));
    let rules = settings.rules.into_iter().zip(1..);
    let rules = rules.map(|(rule, number)| {
        Rule::new(rule).map_err(|source| ConfigError::Rule { number, source })
    });
    Ok(Config {
        exporter: ExporterOptions {
            server: settings.store.unwrap_or(defaults.server),
            token_file: settings.token_file,
            ca_file: settings.ca_file,
            pause_first: defaults.pause_first,
        },
        compression: settings.compression.unwrap_or_default(),
        listen: listen(settings.listen.as_deref())?,
        engine: settings.engine.unwrap_or_default(),
        samples_per_second,
        batch: Duration::from_secs(batch_seconds),
        queue_bytes_max: settings.queue_bytes_max.unwrap_or(32 << 20),
        cpu_share_max: cpu_percent / 100.0,
        host_labels,
        rules: rules.collect::<Result<Vec<Rule>, ConfigError>>()?,
        environment: settings.environment.into_iter().collect(),
        kubelet,
        upload,
    })
}

fn listen(text: Option<&str>) -> Result<Option<SocketAddr>, ConfigError> {
    match text {
        None => Ok(Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8004)))),
        Some("none") => Ok(None),
        Some(text) => {
            let address = text.parse();
            address
                .map(Some)
                .map_err(|_no_address| ConfigError::Listen(text.to_owned()))
        }
    }
}

fn in_range<T: PartialOrd + Copy + ToString>(
    name: &'static str,
    value: T,
    (least, most): (T, T),
) -> Result<(), ConfigError> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(ConfigError::Range {
        name,
        value: value.to_string(),
        range: format!("from {} to {}", least.to_string(), most.to_string()),
    })
}

/// The settings of the file that was named, or of the usual one where it is there.
fn read_settings(named: Option<&Path>, usual: &Path) -> Result<Settings, ConfigError> {
    let path = named.unwrap_or(usual);
    let text = match fs::read_to_string(path) {
        Err(source) if named.is_none() && source.kind() == io::ErrorKind::NotFound => {
            return Ok(Settings::default());
        }
        text => text.map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?,
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

    fn of(text: &str) -> Result<Config, ConfigError> {
        resolve(settings(text), Vec::new(), "host1")
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let flags = settings("store = 'http://flag'");
        let file = settings("store = 'http://file'\nsamples_per_second = 99\nengine = 'perf_copy'");
        let config = resolve(flags.over(file), Vec::new(), "h").unwrap();
        assert_eq!(config.exporter.server, "http://flag");
        assert_eq!(config.samples_per_second, 99);
        assert_eq!(config.engine, EngineChoice::PerfCopy);
        assert_eq!(config.batch, Duration::from_secs(10));
        assert_eq!(config.listen.map(|address| address.port()), Some(8004));
        assert_eq!(of("listen = 'none'").unwrap().listen, None);
    }

    #[test]
    fn labels_of_flags_come_before_those_of_the_file_and_the_name_of_the_host_last() {
        let file = settings("[labels]\n'service.version' = '1'\n'host.name' = 'given'");
        let flags = vec!["team=a=b".parse().unwrap()];
        let config = resolve(file, flags, "host1").unwrap();
        let labels: Vec<_> = config
            .host_labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "team=a=b",
            "host.name=given",
            "service.version=1",
            "host.name=host1",
        ];
        assert_eq!(labels, expected);
        assert!("team".parse::<Label>().is_err());
        assert!("=x".parse::<Label>().is_err());
    }

    #[test]
    fn rules_and_variables_come_from_the_file() {
        let config = of(
            "[environment]\nTEAM = 'team'\n[[rules]]\ncgroup = '/x'\nlabels = { 'service.name' = 's' }\n",
        );
        let config = config.unwrap();
        assert_eq!(config.environment, [("TEAM".to_owned(), "team".to_owned())]);
        assert_eq!(config.rules.len(), 1);
        let error = of(
            "[[rules]]\nexecutable = '/a'\nlabels = { a = 'b' }\n[[rules]]\ncgroup = '('\nlabels = { a = 'b' }",
        );
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("rule 2 cannot be used"), "{error}");
    }

    #[test]
    fn what_is_out_of_its_range_is_said_with_the_range() {
        for text in [
            "samples_per_second = 0",
            "samples_per_second = 100000",
            "batch_seconds = 0",
            "cpu_percent_max = 0.0",
            "cpu_percent_max = nan",
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains("has to be from"), "{error}");
        }
        let error = of("listen = 'localhost'").unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:8004"), "{error}");
    }

    #[test]
    fn an_unknown_key_of_the_file_is_an_error() {
        assert!(toml::from_str::<Settings>("stor = 'x'").is_err());
        assert!(toml::from_str::<Settings>("[[rules]]\nexe = 'x'").is_err());
    }

    #[test]
    fn only_the_usual_file_may_be_absent() {
        let absent = Path::new("/nowhere/unhex-agent.toml");
        assert!(read_settings(None, absent).is_ok());
        let named = read_settings(Some(absent), absent);
        assert!(matches!(named, Err(ConfigError::Unreadable { .. })));
    }
}
