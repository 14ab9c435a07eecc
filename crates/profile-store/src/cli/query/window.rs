//! Whose profiles and when: the arguments that all questions have.

use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};

use crate::limits::Seconds;
use crate::selector::Selector;

/// The selector and the window.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct WindowArgs {
    /// Whose: matchers as in Prometheus, such as '{service="checkout",version=~"2.*"}'. Everything if there is none.
    #[arg(value_name = "SELECTOR", default_value = "{}")]
    selector: String,

    /// The first moment: RFC 3339, or seconds since 1970.
    #[arg(long, value_name = "TIME", conflicts_with = "since")]
    from: Option<String>,

    /// The first moment after the window [default: now].
    #[arg(long, value_name = "TIME")]
    to: Option<String>,

    /// How long the window is.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    since: Seconds,
}

/// The same as the store is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Asked {
    pub(in crate::cli) query: String,
    pub(in crate::cli) from: Timestamp,
    pub(in crate::cli) to: Timestamp,
}

impl WindowArgs {
    /// With a window that is absolute.
    ///
    /// # Errors
    /// If the selector or a time cannot be read, or the window ends before it begins.
    pub(in crate::cli) fn asked(&self, now: Timestamp) -> anyhow::Result<Asked> {
        let selector: Selector = self.selector.parse()?;
        let to = match &self.to {
            Some(text) => moment("--to", text)?,
            None => now,
        };
        let from = if let Some(text) = &self.from {
            moment("--from", text)?
        } else {
            let length = SignedDuration::try_from(self.since.duration())?;
            to.checked_sub(length).context("--since is too long")?
        };
        if from >= to {
            bail!("the window ends at {to}, which is not after its begin {from}");
        }
        Ok(Asked {
            query: selector.to_string(),
            from,
            to,
        })
    }
}

fn moment(what: &str, text: &str) -> anyhow::Result<Timestamp> {
    let unreadable = || format!("{what} {text:?} is neither RFC 3339 nor seconds since 1970");
    if let Ok(seconds) = text.parse::<i64>() {
        return Timestamp::from_second(seconds).with_context(unreadable);
    }
    text.parse().with_context(unreadable)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        window: WindowArgs,
    }

    fn asked(arguments: &[&str]) -> Result<Asked, String> {
        let line = Line::try_parse_from(std::iter::once(&"x").chain(arguments));
        let line = line.map_err(|error| error.to_string())?;
        let now = Timestamp::from_second(100_000).unwrap();
        line.window.asked(now).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_window_is_absolute_before_it_is_asked_for() {
        let seconds = |asked: &Asked| (asked.from.as_second(), asked.to.as_second());
        let hour = asked(&[r#"{version=~"2.*",service="a"}"#]).unwrap();
        assert_eq!(hour.query, r#"{service="a",version=~"2.*"}"#);
        assert_eq!(seconds(&hour), (96_400, 100_000));
        assert_eq!(
            seconds(&asked(&["--since", "1d"]).unwrap()),
            (13_600, 100_000)
        );
        let absolute = asked(&["--from", "1970-01-01T00:00:10Z", "--to", "20"]);
        assert_eq!(seconds(&absolute.unwrap()), (10, 20));
    }

    #[test]
    fn what_cannot_be_asked_is_said_before_anybody_is_asked() {
        assert!(asked(&["{service}"]).unwrap_err().contains("character 9"));
        assert!(
            asked(&["--from", "yesterday"])
                .unwrap_err()
                .contains("RFC 3339")
        );
        assert!(
            asked(&["--to", "5", "--from", "5"])
                .unwrap_err()
                .contains("not after")
        );
        assert!(asked(&["--from", "5", "--since", "1h"]).is_err());
    }
}
