//! Queries for recorded exchanges.

use std::time::Duration;

use fairway_net::clock::Instant;

use super::entry::RecordedEntry;

/// Exchanges returned per worker and query.
const MAX_LIMIT: usize = 250;

/// A filter for exchanges; all given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedQuery {
    /// `X-Request-ID`.
    pub request_id: Option<String>,
    /// Host in lower case.
    pub host: Option<String>,
    /// Range of statuses, inclusive.
    pub status: Option<(u16, u16)>,
    /// Only failures and exchanges with more than one attempt.
    pub failed: bool,
    /// Only exchanges that ended within this time.
    pub within: Option<Duration>,
    /// Only exchanges of one worker before this one.
    pub before: Option<BeforeExchange>,
    /// Maximum number, newest first.
    pub limit: usize,
}

/// A position among the exchanges of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeforeExchange {
    /// The worker.
    pub worker: usize,
    /// Number of the exchange.
    pub number: u64,
}

/// Why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Unknown parameter.
    #[error("unknown parameter {0:?}: use id, host, status, failed, within, before or limit")]
    Unknown(String),
    /// Invalid value of a parameter.
    #[error("{parameter}={value:?}: expected {expected}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// The expected form.
        expected: &'static str,
    },
}

impl RecordedQuery {
    /// The default limit.
    const DEFAULT_LIMIT: usize = 100;

    /// Parses decoded parameters.
    ///
    /// # Errors
    /// A parameter is unknown, or its value is invalid.
    pub fn from_parameters<'a>(
        parameters: impl Iterator<Item = (impl AsRef<str> + 'a, impl AsRef<str> + 'a)>,
    ) -> Result<Self, QueryError> {
        let mut query = Self { limit: Self::DEFAULT_LIMIT, ..Self::default() };
        for (name, value) in parameters {
            let value = value.as_ref();
            let wrong =
                |parameter, expected| QueryError::Value { parameter, value: value.to_owned(), expected };
            match name.as_ref() {
                "id" => query.request_id = Some(value.to_owned()),
                "host" => query.host = Some(value.to_ascii_lowercase()),
                "status" => {
                    query.status =
                        Some(parse_status(value).ok_or_else(|| {
                            wrong("status", "a status such as 404, or a class such as 5xx")
                        })?);
                }
                "failed" => query.failed = value.is_empty() || value == "true" || value == "1",
                "within" => {
                    let seconds = value.parse().map_err(|_| wrong("within", "a number of seconds"))?;
                    query.within = Some(Duration::from_secs(seconds));
                }
                "before" => {
                    let expected =
                        "the number of an exchange such as 0-17, or 0- for the last ones of worker 0";
                    query.before = Some(parse_before(value).ok_or_else(|| wrong("before", expected))?);
                }
                "limit" => {
                    let limit: usize = value.parse().map_err(|_| wrong("limit", "a number from 1 to 250"))?;
                    query.limit = limit.clamp(1, MAX_LIMIT);
                }
                unknown => return Err(QueryError::Unknown(unknown.to_owned())),
            }
        }
        Ok(query)
    }

    /// Whether an exchange matches.
    pub(super) fn matches(&self, entry: &RecordedEntry, now: Instant) -> bool {
        let Self { request_id, host, status, failed, within, before, limit: _ } = self;
        request_id.as_ref().is_none_or(|id| entry.has_request_id(id.as_bytes()))
            && host.as_ref().is_none_or(|host| entry.has_host(host.as_bytes()))
            && status.is_none_or(|(first, last)| (first..=last).contains(&entry.status))
            && (!failed || entry.is_failed())
            && before.is_none_or(|before| entry.number < before.number)
            && within.is_none_or(|within| now.saturating_duration_since(entry.ended_at()) <= within)
    }
}

/// `404`, or `4xx`.
fn parse_status(text: &str) -> Option<(u16, u16)> {
    match text.strip_suffix("xx") {
        Some(class) => {
            let class: u16 = class.parse().ok().filter(|class| (1..=5).contains(class))?;
            Some((class * 100, class * 100 + 99))
        }
        None => text.parse().ok().map(|status| (status, status)),
    }
}

/// `0-17`, or `0-` for the newest.
fn parse_before(text: &str) -> Option<BeforeExchange> {
    let (worker, number) = text.split_once('-')?;
    let number = if number.is_empty() { u64::MAX } else { number.parse().ok()? };
    Some(BeforeExchange { worker: worker.parse().ok()?, number })
}
