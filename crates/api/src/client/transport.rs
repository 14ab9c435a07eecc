//! One connection pool to one server: addresses, tokens, time-outs and retries, for every request alike.

use std::future::Future;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{ClientError, Problem, chain};
use super::retry::{Patience, Repetition, RetryPolicy, retry_after};
use super::token::Token;

/// No answer in JSON is larger, if nothing else is said: a million symbolized addresses are a few hundred megabytes at most.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// How a server is reached.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Its address, such as `http://127.0.0.1:8002`; a path is kept as a prefix.
    pub server: String,
    /// Sent as a bearer token where given.
    pub token: Option<Token>,
    /// Names the program in the server's log.
    pub user_agent: String,
    /// How often and how patiently requests are repeated.
    pub retries: RetryPolicy,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long an answer may take when nothing else is said.
    pub answer_timeout: Duration,
    /// The longest answer in JSON that is taken: a server that is none decides over no memory.
    pub answer_bytes_max: usize,
    /// How long an upload may stand still, its answer included.
    pub stall_timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            server: "http://127.0.0.1:8002".to_owned(),
            token: None,
            user_agent: concat!("unhex/", env!("CARGO_PKG_VERSION")).to_owned(),
            retries: RetryPolicy::default(),
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_mins(1),
            answer_bytes_max: ANSWER_BYTES_MAX,
            stall_timeout: Duration::from_mins(3),
        }
    }
}

/// A client of one server; cheap to clone, clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<Token>,
    retries: RetryPolicy,
    pub(super) answer_timeout: Duration,
    answer_bytes_max: usize,
    pub(super) stall_timeout: Duration,
}

/// Why one attempt brought no answer.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// The connection failed.
    Send(reqwest::Error),
    /// Nothing moved for so long.
    Stalled(Duration),
    /// Not the server's fault, so it is not repeated.
    Own(ClientError),
}

impl Client {
    /// A client of the server that `options` name; nothing is sent yet.
    ///
    /// # Errors
    /// If the address is no http or https URL.
    pub fn new(options: ClientOptions) -> Result<Self, ClientError> {
        let base = base_url(&options.server)?;
        let mut builder = reqwest::Client::builder()
            .user_agent(options.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(options.connect_timeout);
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| ClientError::Setup(chain(&error)))?;
        Ok(Self {
            http,
            base,
            token: options.token,
            retries: options.retries,
            answer_timeout: options.answer_timeout,
            answer_bytes_max: options.answer_bytes_max,
            stall_timeout: options.stall_timeout,
        })
    }

    /// The server's address, as it is shown in messages.
    pub fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether the server is on this machine, where compression costs more than it saves.
    pub fn is_local(&self) -> bool {
        is_loopback(&self.base)
    }

    /// The URL of a path of this server, or of a URL that this server gave.
    pub(super) fn url(&self, path: &str) -> Result<Url, ClientError> {
        if path.starts_with("http://") || path.starts_with("https://") {
            return Url::parse(path).map_err(|error| self.answer_error(&error.to_string()));
        }
        self.base
            .join(path.trim_start_matches('/'))
            .map_err(|error| self.answer_error(&error.to_string()))
    }

    /// A request to `url`, with the token when that is this server: a presigned URL of an object
    /// store is a secret of its own, and the token none of its business.
    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let is_own = url.origin() == self.base.origin();
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) if is_own => request.header(AUTHORIZATION, token.header()),
            _ => request,
        }
    }

    pub(super) fn answer_error(&self, reason: &str) -> ClientError {
        ClientError::Answer {
            server: self.server().to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// GET of a JSON document; `None` for a 404 of an Unhex server. A 404 of a proxy or of another
    /// server says nothing, and is an error.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, ClientError> {
        let url = self.url(path)?;
        let answer = self
            .repeat(Repetition::Idempotent, || async {
                let request = self.request(Method::GET, url.clone());
                request
                    .timeout(self.answer_timeout)
                    .send()
                    .await
                    .map_err(AttemptError::Send)
            })
            .await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return if is_problem(&answer) {
                Ok(None)
            } else {
                Err(self.answer_error("404 without a problem document"))
            };
        }
        let answer = self.accepted(answer).await?;
        self.json(answer).await.map(Some)
    }

    /// POST of a JSON document, answered by another.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
        patience: Patience,
    ) -> Result<T, ClientError> {
        self.post_accepting(path, body, ("application/json", patience))
            .await
    }

    /// POST of a JSON document, answered by one of a media type that is JSON, too.
    pub(super) async fn post_accepting<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
        (media_type, patience): (&'static str, Patience),
    ) -> Result<T, ClientError> {
        let Patience {
            timeout,
            repetition,
        } = patience;
        let url = self.url(path)?;
        let answer = self
            .repeat(repetition, || async {
                let request = self.request(Method::POST, url.clone()).json(body);
                request
                    .header(ACCEPT, media_type)
                    .timeout(timeout)
                    .send()
                    .await
                    .map_err(AttemptError::Send)
            })
            .await?;
        let answer = self.accepted(answer).await?;
        self.json(answer).await
    }

    /// Repeats `attempt` while the server may answer otherwise soon. The answer may be an error.
    pub(super) async fn repeat<F>(
        &self,
        repetition: Repetition,
        attempt: impl Fn() -> F,
    ) -> Result<Response, ClientError>
    where
        F: Future<Output = Result<Response, AttemptError>>,
    {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let outcome = attempt().await;
            let asked = match &outcome {
                Ok(answer) if repetition.is_passing(answer.status()) => {
                    retry_after(answer.headers(), SystemTime::now())
                }
                Ok(_) | Err(AttemptError::Own(_)) => {
                    return outcome.map_err(|error| self.given_up(error, attempts));
                }
                Err(_) => None,
            };
            match (self.retries.wait(attempts, rand::random(), asked), outcome) {
                (Some(wait), _) => tokio::time::sleep(wait).await,
                (None, Ok(answer)) => return Err(self.busy(answer, attempts).await),
                (None, Err(error)) => return Err(self.given_up(error, attempts)),
            }
        }
    }

    async fn busy(&self, answer: Response, attempts: u32) -> ClientError {
        let (status, problem) = problem(answer).await;
        ClientError::Busy {
            status: status.as_u16(),
            attempts,
            detail: problem.words().to_owned(),
        }
    }

    fn given_up(&self, error: AttemptError, attempts: u32) -> ClientError {
        let server = self.server().to_owned();
        match error {
            AttemptError::Own(error) => error,
            AttemptError::Stalled(waited) => ClientError::Stalled {
                server,
                attempts,
                waited,
            },
            AttemptError::Send(error) => ClientError::Unreachable {
                server,
                attempts,
                reason: chain(&error.without_url()),
            },
        }
    }

    /// The answer if it is a success, else the error in the server's words.
    pub(super) async fn accepted(&self, answer: Response) -> Result<Response, ClientError> {
        if answer.status().is_success() {
            return Ok(answer);
        }
        let location = answer.headers().get(LOCATION);
        let location = location
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let (status, problem) = problem(answer).await;
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ClientError::Unauthorized {
                status: status.as_u16(),
                detail: problem.words().to_owned(),
            },
            status if status.is_server_error() => ClientError::Busy {
                status: status.as_u16(),
                attempts: 1,
                detail: problem.words().to_owned(),
            },
            status if status.is_client_error() => ClientError::Refused {
                status: status.as_u16(),
                problem,
            },
            status => {
                let to = location.map(|to| format!(" to {to}; give that address"));
                self.answer_error(&format!("status {status}{}", to.unwrap_or_default()))
            }
        })
    }

    /// The body as a JSON document.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        answer: Response,
    ) -> Result<T, ClientError> {
        let body = body(answer, self.answer_bytes_max)
            .await
            .map_err(|reason| self.answer_error(&reason))?;
        serde_json::from_slice(&body).map_err(|error| self.answer_error(&error.to_string()))
    }

    /// The headers and body of a small text, such as of `/healthz`.
    pub(super) async fn text(
        &self,
        path: &str,
    ) -> Result<(StatusCode, HeaderMap, String), ClientError> {
        let url = self.url(path)?;
        let answer = self
            .request(Method::GET, url)
            .timeout(self.answer_timeout)
            .send()
            .await;
        let answer = answer.map_err(|error| self.given_up(AttemptError::Send(error), 1))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = body(answer, 1 << 20)
            .await
            .map_err(|reason| self.answer_error(&reason))?;
        Ok((status, headers, String::from_utf8_lossy(&body).into_owned()))
    }
}

/// The whole body, when it is not larger than `bytes_max`.
async fn body(mut answer: Response, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| chain(&error))? {
        if bytes.len().saturating_add(chunk.len()) > bytes_max {
            return Err(format!("an answer of more than {bytes_max} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn is_problem(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/problem+json"))
}

async fn problem(answer: Response) -> (StatusCode, Problem) {
    let status = answer.status();
    let body = body(answer, 1 << 20).await.unwrap_or_default();
    (status, Problem::from_body(status, &body))
}

fn base_url(server: &str) -> Result<Url, ClientError> {
    let refused = |reason: &str| ClientError::Address {
        url: server.to_owned(),
        reason: reason.to_owned(),
    };
    let mut url = Url::parse(server).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it starts with neither http:// nor https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("it has a query or a fragment"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str) -> Result<Client, ClientError> {
        Client::new(ClientOptions {
            server: server.to_owned(),
            ..ClientOptions::default()
        })
    }

    #[test]
    fn a_path_of_the_server_address_is_a_prefix() {
        let client = client("https://symbols.example/unhex").unwrap();
        let url = client.url("/build-ids/ab").unwrap();
        assert_eq!(url.as_str(), "https://symbols.example/unhex/build-ids/ab");
        assert_eq!(client.server(), "https://symbols.example/unhex");
        assert!(!client.is_local());
    }

    #[test]
    fn an_address_that_is_no_url_is_explained() {
        let message = client("localhost:8002").unwrap_err().to_string();
        assert!(
            message.contains("write it like http://127.0.0.1:8002"),
            "{message}"
        );
        assert!(client("ftp://x").is_err());
        assert!(client("http://[::1]:8002").unwrap().is_local());
    }

    #[test]
    fn the_token_goes_to_the_server_only() {
        let client = Client::new(ClientOptions {
            token: Some(Token::new("s3cret").unwrap()),
            ..ClientOptions::default()
        });
        let client = client.unwrap();
        let has_token = |url: &str| {
            let request = client.request(Method::PUT, client.url(url).unwrap());
            request
                .build()
                .unwrap()
                .headers()
                .contains_key(AUTHORIZATION)
        };
        assert!(has_token("/uploads/1"));
        assert!(has_token("http://127.0.0.1:8002/uploads/1"));
        assert!(!has_token(
            "https://bucket.s3.example/key?X-Amz-Signature=1"
        ));
    }
}
