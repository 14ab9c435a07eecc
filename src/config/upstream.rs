//! Which other debuginfod servers are asked for what is missing.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;
use serde::Deserialize;

/// What can be set of upstream servers, but for their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// The servers, the preferred first.
    pub servers: Vec<UpstreamUrl>,
    /// Whether their redirects may lead to private addresses.
    pub allow_private: bool,
}

/// The URL of a debuginfod server, perhaps with a path, a user name and a password, which is never
/// shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UpstreamUrl(Url);

/// A text that is no [`UpstreamUrl`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no URL of an upstream server, such as https://debuginfod.debian.net: {0}")]
pub struct ParseUpstreamUrlError(String);

impl UpstreamUrl {
    /// The URL, with the password.
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for UpstreamUrl {
    type Err = ParseUpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |why: &str| ParseUpstreamUrlError(why.to_owned());
        let url = Url::parse(text.trim());
        let url = url.map_err(|error| ParseUpstreamUrlError(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("it has to begin with http:// or https://"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refused("it has a query or a fragment"));
        }
        Ok(Self(url))
    }
}

impl TryFrom<String> for UpstreamUrl {
    type Error = ParseUpstreamUrlError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Debug for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        if shown.password().is_some() {
            let _has_a_host = shown.set_password(Some("secret"));
        }
        f.write_str(shown.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_http_url_without_query() {
        for sound in [
            "https://debuginfod.debian.net",
            "http://10.0.0.1:8002/a/b/",
            "http://[::1]:1",
        ] {
            assert!(sound.parse::<UpstreamUrl>().is_ok(), "{sound}");
        }
        for wrong in [
            "",
            "debuginfod.debian.net",
            "ftp://x",
            "file:///srv",
            "http://",
            "http://x/?a=b",
            "http://x/#a",
        ] {
            assert!(wrong.parse::<UpstreamUrl>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_used_and_never_shown() {
        let url: UpstreamUrl = "https://ci:pa55@x/".parse().unwrap();
        assert_eq!(url.url().password(), Some("pa55"));
        assert_eq!(format!("{url:?}"), "https://ci:secret@x/");
    }
}
