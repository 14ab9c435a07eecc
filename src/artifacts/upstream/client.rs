//! One question to one server over HTTP, redirects included.
//!
//! There is no proxy of the environment, and no redirect is followed by the HTTP library itself. What
//! stands in a 200 is [`super::offer`]'s business.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{self, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode, Url};
use tokio::time::{sleep, timeout};

use super::address::{PublicOnly, is_public};
use super::asker::Asker;
use super::failure::{Failure, whole};
use super::offer::Offer;
use super::{UpstreamSettings, Wanted, What};
use crate::metrics::VERSION;

/// Redirects that are followed: a mirror, a storage service behind it, and some reserve.
const REDIRECTS_MAX: usize = 5;

/// How often one question is put while the failure may pass.
const ATTEMPTS_MAX: u32 = 3;

/// The pause before it is put again, which doubles.
const PAUSE: Duration = Duration::from_millis(250);

/// Longest wait for a connection, within that for the first byte.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Connections to one server that are kept for the next question.
const IDLE_CONNECTIONS_MAX: usize = 8;

/// The largest answer that is read to its end only to use its connection again.
const DRAINED_BYTES_MAX: u64 = 16 << 10;

/// What stays as it is in a path, as the reference client has it.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

const FORWARDED_FOR: &str = "x-forwarded-for";
const ACCEPTED_ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, zstd");

/// Where redirects of upstream servers may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamAddresses {
    /// To addresses of the public Internet, and to the configured servers themselves.
    #[default]
    Public,
    /// Anywhere.
    All,
}

/// The HTTP client cannot be set up: there are no root certificates, for instance.
#[derive(Debug, thiserror::Error)]
#[error("upstream servers cannot be asked: {detail}")]
pub struct SetupError {
    detail: String,
}

/// How one server is asked.
#[derive(Debug)]
pub(super) struct Client {
    base: Url,
    name: String,
    silence: Duration,
    http: Arc<Http>,
}

/// What all servers share.
#[derive(Debug)]
struct Http {
    /// Connects anywhere: the configured servers may be private.
    anywhere: reqwest::Client,
    /// Connects to public addresses only.
    public_only: reqwest::Client,
    redirects_to: UpstreamAddresses,
    /// The servers that the configuration names, and may thus be redirected to.
    configured: Vec<Url>,
}

/// What a server says of a file.
#[derive(Debug)]
pub(super) enum Head {
    /// It has it.
    Offers(Box<Offer>),
    /// It does not exist there, definitely.
    Absent,
}

impl Client {
    /// A client for each of the servers.
    pub(super) fn all(settings: &UpstreamSettings) -> Result<Vec<Self>, SetupError> {
        if settings.servers.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: reqwest::Error| SetupError {
            detail: whole(&error),
        };
        let http = Http {
            anywhere: builder().build().map_err(failed)?,
            public_only: builder().dns_resolver(PublicOnly).build().map_err(failed)?,
            redirects_to: settings.redirects_to,
            configured: settings.servers.clone(),
        };
        let http = Arc::new(http);
        let clients = settings.servers.iter().map(|base| Self {
            base: base.clone(),
            name: authority(base),
            silence: settings.limits.silence,
            http: Arc::clone(&http),
        });
        Ok(clients.collect())
    }

    /// Host and port: how metrics and logs call the server.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Asks for a file and reads the head of the answer; what may pass is asked again a little
    /// later. All of that takes no longer than one silence.
    pub(super) async fn head(&self, wanted: &Wanted, asker: &Asker) -> Result<Head, Failure> {
        let within = self.silence;
        let mut last = None;
        let asking = async {
            let mut pause = PAUSE;
            for _ in 1..ATTEMPTS_MAX {
                match self.follow(wanted, asker).await {
                    Err(failure) if failure.may_pass() => last = Some(failure),
                    settled => return settled,
                }
                sleep(pause).await;
                pause = pause.saturating_mul(2);
            }
            self.follow(wanted, asker).await
        };
        let answered = timeout(within, asking).await;
        answered.unwrap_or_else(|_elapsed| {
            let what = "answer";
            Err(last.unwrap_or(Failure::Timeout { what, within }))
        })
    }

    async fn follow(&self, wanted: &Wanted, asker: &Asker) -> Result<Head, Failure> {
        let mut url = self.url(wanted)?;
        for _ in 0..=REDIRECTS_MAX {
            let response = self.ask(url.clone(), asker).await?;
            match response.status() {
                StatusCode::OK => {
                    let offer = Offer::read(response, self.silence)?;
                    return Ok(Head::Offers(Box::new(offer)));
                }
                StatusCode::NOT_FOUND | StatusCode::GONE => {
                    drain(response).await;
                    return Ok(Head::Absent);
                }
                status if is_redirect(status) => url = target(&url, &response)?,
                status => return Err(Failure::Status(status.as_u16())),
            }
        }
        let detail = format!("more than {REDIRECTS_MAX} in a row");
        Err(Failure::Redirect(detail))
    }

    fn url(&self, wanted: &Wanted) -> Result<Url, Failure> {
        let id = &wanted.id;
        let path = match &wanted.what {
            What::Debuginfo => format!("/buildid/{id}/debuginfo"),
            What::Executable => format!("/buildid/{id}/executable"),
            What::Source(path) => {
                format!("/buildid/{id}/source{}", utf8_percent_encode(path, PATH))
            }
        };
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path}"))
            .map_err(|error| Failure::Connection(format!("no URL: {error}")))
    }

    /// One request, which no redirect is followed of.
    async fn ask(&self, url: Url, asker: &Asker) -> Result<Response, Failure> {
        let is_configured = self.http.is_configured(&url);
        let trusted = is_configured || self.http.redirects_to == UpstreamAddresses::All;
        if !trusted && let Some(address) = literal_address(&url) {
            check_public(address)?;
        }
        let client = if trusted {
            &self.http.anywhere
        } else {
            &self.http.public_only
        };
        let mut request = client
            .get(url)
            .header(header::ACCEPT_ENCODING, ACCEPTED_ENCODINGS);
        // Who asks is the business of the servers that were chosen, not of where they lead.
        if is_configured && let Some(forwarded_for) = asker.forwarded_for() {
            request = request.header(FORWARDED_FOR, forwarded_for);
        }
        let response = request.send().await;
        let response =
            response.map_err(|error| Failure::Connection(whole(&error.without_url())))?;
        if !trusted && let Some(address) = response.remote_addr() {
            check_public(address.ip())?;
        }
        Ok(response)
    }
}

impl Http {
    /// Whether a URL is of a server that the configuration names.
    fn is_configured(&self, url: &Url) -> bool {
        let mut servers = self.configured.iter();
        servers.any(|server| server.origin() == url.origin())
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(format!("unhex/{VERSION}"))
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(CONNECT_WAIT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads.
fn target(from: &Url, response: &Response) -> Result<Url, Failure> {
    let refused = |detail: &str| Failure::Redirect(detail.to_owned());
    let location = response.headers().get(header::LOCATION);
    let location = location.ok_or_else(|| refused("it has no Location"))?;
    let location = location.to_str().ok();
    let location = location.ok_or_else(|| refused("its Location is no text"))?;
    let url = from.join(location);
    let mut url = url.map_err(|error| Failure::Redirect(format!("no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refused("it leads to another scheme than http and https"));
    }
    if from.origin() == url.origin() {
        // What the configuration has of user name and password stays with its server.
        let (name, password) = (from.username().to_owned(), from.password());
        let _has_a_host = url.set_username(&name);
        let _has_a_host = url.set_password(password);
    }
    Ok(url)
}

/// The address that the host of a URL is, when it is no name.
fn literal_address(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

fn check_public(address: IpAddr) -> Result<(), Failure> {
    if is_public(address) {
        return Ok(());
    }
    let detail = format!("{address} is no public address");
    Err(Failure::Redirect(detail))
}

/// Reads what is left of a short answer, so that its connection can be used again.
async fn drain(response: Response) {
    if response.content_length().unwrap_or(u64::MAX) <= DRAINED_BYTES_MAX {
        // What fails here costs a connection and no more.
        drop(response.bytes().await);
    }
}

/// Host and port of a URL.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
