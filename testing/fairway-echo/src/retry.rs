//! `/retry/`: fails a number of times per `uuid` before it succeeds. Owns the counts, decides, never answers.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use http::StatusCode;

use crate::query::Query;

/// What `/retry/` does about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Echoes.
    Succeed,
    /// Answers this status after this time.
    Answer(StatusCode, Duration),
    /// Resets the connection after this time.
    Reset(Duration),
}

/// How often each `uuid` failed.
#[derive(Default)]
pub(crate) struct Retries(Mutex<HashMap<String, u64>>);

impl Retries {
    /// Decides about the next attempt; an error says what is wrong with the query.
    pub(crate) fn attempt(&self, query: Query<'_>) -> Result<Attempt, String> {
        let uuid = query.first("uuid").filter(|uuid| !uuid.is_empty()).ok_or("uuid is required")?;
        let succeed_after: u64 = query.number("succeedAfter").ok_or("succeedAfter is required")?;
        let delay = query.duration("delayRetry")?.unwrap_or_default();
        let mut failures = self.0.lock().expect("no holder of this lock panics");
        let failures = failures.entry(uuid).or_default();
        if *failures >= succeed_after {
            return Ok(Attempt::Succeed);
        }
        *failures += 1;
        Ok(match query.number("responseCode") {
            Some(code) => {
                Attempt::Answer(final_status(code).ok_or("responseCode is no final status")?, delay)
            }
            None => Attempt::Reset(delay),
        })
    }
}

/// A status that can end an exchange.
pub(crate) fn final_status(code: u16) -> Option<StatusCode> {
    StatusCode::from_u16(code).ok().filter(|status| !status.is_informational())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_fails_as_often_as_told() {
        let retries = Retries::default();
        let failing = Query("uuid=a&succeedAfter=2&responseCode=503&delayRetry=5ms");
        let failed = Attempt::Answer(StatusCode::SERVICE_UNAVAILABLE, Duration::from_millis(5));
        assert_eq!(retries.attempt(failing), Ok(failed));
        assert_eq!(retries.attempt(failing), Ok(failed));
        assert_eq!(retries.attempt(failing), Ok(Attempt::Succeed));
        let reset = Query("uuid=b&succeedAfter=1");
        assert_eq!(retries.attempt(reset), Ok(Attempt::Reset(Duration::ZERO)));
        assert_eq!(retries.attempt(reset), Ok(Attempt::Succeed));
    }

    #[test]
    fn an_incomplete_query_is_an_error_that_counts_nothing() {
        let retries = Retries::default();
        for query in
            ["", "uuid=a", "uuid=a&succeedAfter=x", "succeedAfter=1", "uuid=a&succeedAfter=1&delayRetry=x"]
        {
            assert!(retries.attempt(Query(query)).is_err(), "{query:?}");
        }
        assert_eq!(retries.attempt(Query("uuid=a&succeedAfter=0")), Ok(Attempt::Succeed));
    }
}
