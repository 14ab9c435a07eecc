//! The parameters of a query as a question, and the question as it is told back: everything that was left open filled in.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::moment::{moment, span};
use crate::answers::Asked;
use crate::http::error::ApiError;
use crate::query::{Question, Window};
use crate::selector::Selector;
use crate::view::{FilterTexts, Heading, ProfileType, StackFilter};

/// The window of a question that has none.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// The parameters that all questions have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common<'p> {
    pub(super) query: Option<&'p str>,
    pub(super) from: Option<&'p str>,
    pub(super) to: Option<&'p str>,
    pub(super) profile_type: Option<&'p str>,
}

/// The question, and the path and parameters that ask it.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) question: Question,
    pub(super) asked: Asked,
}

impl Asking {
    /// Reads the parameters; `all` are the same and the others, for the permalink.
    pub(super) fn read(
        path: &str,
        common: Common<'_>,
        (all, now): (&impl Serialize, Timestamp),
    ) -> Result<Self, ApiError> {
        let selector: Selector = common
            .query
            .unwrap_or("{}")
            .parse()
            .map_err(|error| ApiError::bad_request(format!("query: {error}")))?;
        let to = common.to.map_or(Ok(now), |to| time("to", to, now))?;
        let from = match common.from {
            Some(from) => time("from", from, now)?,
            None => to.checked_sub(WINDOW).unwrap_or(Timestamp::UNIX_EPOCH),
        };
        let window = Window::new(from, to);
        let window = window.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let profile_type = common
            .profile_type
            .map_or_else(ProfileType::cpu, ProfileType::of);
        let mut asked = Asked {
            query: selector.to_string(),
            profile_type: profile_type.to_string(),
            from: from.to_string(),
            to: to.to_string(),
            permalink: String::new(),
        };
        asked.permalink = permalink(path, &asked, all).map_err(ApiError::internal)?;
        let question = Question {
            selector,
            profile_type,
            window,
        };
        Ok(Self { question, asked })
    }

    /// What pictures and files say of themselves.
    pub(super) fn heading(&self) -> Heading {
        let window = self.question.window;
        let title = if self.question.profile_type.is_cpu() {
            "CPU time".to_owned()
        } else {
            self.asked.profile_type.clone()
        };
        let Asked {
            query, from, to, ..
        } = &self.asked;
        Heading {
            title,
            subtitle: format!("{query}, {from} to {to}"),
            from_unix_nanos: u64::try_from(window.from().as_nanosecond()).unwrap_or_default(),
            duration_nanos: u64::try_from(window.length().as_nanos()).unwrap_or_default(),
        }
    }
}

/// Path and parameters with an absolute window: the same question at any later time.
fn permalink(path: &str, asked: &Asked, all: &impl Serialize) -> Result<String, NoPermalink> {
    let mut url = reqwest::Url::parse("http://store/").map_err(|_never| NoPermalink)?;
    url.set_path(path);
    let parameters = serde_json::to_value(all).map_err(|_never| NoPermalink)?;
    {
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("query", &asked.query);
        pairs.append_pair("from", &asked.from);
        pairs.append_pair("to", &asked.to);
        for (name, value) in parameters.as_object().into_iter().flatten() {
            if let (false, Value::String(value)) = (is_common(name), value) {
                pairs.append_pair(name, value);
            }
        }
    }
    let query = url.query().unwrap_or_default();
    Ok(format!("{}?{query}", url.path()))
}

fn is_common(name: &str) -> bool {
    ["query", "from", "to"].contains(&name)
}

/// A question that cannot be written again.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the question cannot be written as a link")]
struct NoPermalink;

fn time(name: &str, text: &str, now: Timestamp) -> Result<Timestamp, ApiError> {
    moment(text, now).ok_or_else(|| {
        ApiError::bad_request(format!(
            "{name}: {text:?} is no time: wanted is RFC 3339 (2026-12-01T12:00:00Z), seconds since 1970, or a time before now (-90m, now-2d)"
        ))
    })
}

/// A number of things, at most `max`.
pub(super) fn count(
    name: &str,
    text: Option<&str>,
    (default, max): (usize, usize),
) -> Result<usize, ApiError> {
    let Some(text) = text else {
        return Ok(default);
    };
    let number: Option<usize> = text.parse().ok();
    number
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| {
            ApiError::bad_request(format!("{name}: {text:?} is no number from 1 to {max}"))
        })
}

/// Seconds of a step, as a number or like `5m`; at least a minute, since compacted rows have no shorter times.
pub(super) fn step(text: Option<&str>) -> Result<Option<u32>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    let seconds = span(text).and_then(|span| u32::try_from(span.as_secs()).ok());
    let seconds = seconds.filter(|seconds| *seconds >= 60);
    seconds.map(Some).ok_or_else(|| {
        ApiError::bad_request(format!(
            "step: {text:?} is no step of at least 60 seconds, as 300 or 5m"
        ))
    })
}

/// The words of a list with commas.
pub(super) fn words(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Which stacks: a name exactly, or behind `~` a pattern that is found in one.
pub(super) fn filter(
    function: Option<&str>,
    binary: Option<&str>,
) -> Result<StackFilter, ApiError> {
    let pattern = |text: &str| match text.strip_prefix('~') {
        Some(pattern) => pattern.to_owned(),
        None => format!("^(?:{})$", regex::escape(text)),
    };
    let (function, binary) = (function.map(pattern), binary.map(pattern));
    let texts = FilterTexts {
        function: function.as_deref(),
        binary: binary.as_deref(),
    };
    StackFilter::new(texts).map_err(|error| ApiError::bad_request(error.to_string()))
}
