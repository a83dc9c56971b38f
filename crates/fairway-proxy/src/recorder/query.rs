//! Which recorded exchanges somebody wants to see.

use std::time::Duration;

use fairway_net::clock::Instant;

use super::entry::Entry;

/// The most exchanges that a worker gives for one query.
const MAX_LIMIT: usize = 250;

/// Which exchanges are wanted: those for which everything that is given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedQuery {
    /// `X-Request-ID`.
    pub request_id: Option<String>,
    /// The host, lower case.
    pub host: Option<String>,
    /// The first and the last status.
    pub status: Option<(u16, u16)>,
    /// Only those that failed or took more than one attempt.
    pub failed: bool,
    /// Only those that ended within this time.
    pub within: Option<Duration>,
    /// Only those of one worker before one of its exchanges.
    pub before: Option<Before>,
    /// How many, the last ones first.
    pub limit: usize,
}

/// A place among the exchanges of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The worker.
    pub worker: usize,
    /// The number of its exchange.
    pub number: u64,
}

/// Why a query cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// There is no such parameter.
    #[error("unknown parameter {0:?}: use id, host, status, failed, within, before or limit")]
    Unknown(String),
    /// The value of a parameter is not what it should be.
    #[error("{parameter}={value:?}: expected {expected}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl RecordedQuery {
    /// What is asked for when nothing else is said.
    const LIMIT: usize = 100;

    /// Of decoded parameters.
    ///
    /// # Errors
    /// A parameter is unknown, or its value cannot be read.
    pub fn read<'a>(
        parameters: impl Iterator<Item = (impl AsRef<str> + 'a, impl AsRef<str> + 'a)>,
    ) -> Result<Self, QueryError> {
        let mut query = Self { limit: Self::LIMIT, ..Self::default() };
        for (name, value) in parameters {
            let value = value.as_ref();
            let wrong =
                |parameter, expected| QueryError::Value { parameter, value: value.to_owned(), expected };
            match name.as_ref() {
                "id" => query.request_id = Some(value.to_owned()),
                "host" => query.host = Some(value.to_ascii_lowercase()),
                "status" => {
                    query.status =
                        Some(status(value).ok_or_else(|| {
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
                    query.before = Some(before(value).ok_or_else(|| wrong("before", expected))?);
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

    /// Whether it asks for this exchange.
    pub(super) fn wants(&self, entry: &Entry, now: Instant) -> bool {
        let Self { request_id, host, status, failed, within, before, limit: _ } = self;
        request_id.as_ref().is_none_or(|id| entry.has_request_id(id.as_bytes()))
            && host.as_ref().is_none_or(|host| entry.has_host(host.as_bytes()))
            && status.is_none_or(|(first, last)| (first..=last).contains(&entry.status))
            && (!failed || entry.is_failed())
            && before.is_none_or(|before| entry.number < before.number)
            && within.is_none_or(|within| now.saturating_duration_since(entry.ended()) <= within)
    }
}

/// `404`, or `4xx`.
fn status(text: &str) -> Option<(u16, u16)> {
    match text.strip_suffix("xx") {
        Some(class) => {
            let class: u16 = class.parse().ok().filter(|class| (1..=5).contains(class))?;
            Some((class * 100, class * 100 + 99))
        }
        None => text.parse().ok().map(|status| (status, status)),
    }
}

/// `0-17`, or `0-` for the end.
fn before(text: &str) -> Option<Before> {
    let (worker, number) = text.split_once('-')?;
    let number = if number.is_empty() { u64::MAX } else { number.parse().ok()? };
    Some(Before { worker: worker.parse().ok()?, number })
}
