//! Keeps the OCSP response of one certificate fresh: fetches at once, again after half of a response's
//! validity, and with increasing delays after failures.

use std::convert::Infallible;
use std::sync::Weak;
use std::time::Duration;

use fairway_model::CertificateKey;
use rustls_pki_types::UnixTime;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use super::counts::{FetchCounts, FetchOutcome};
use super::fetch::{AddressRule, FetchError, FetchTimeouts, fetch};
use super::request::OcspRequest;
use super::response::{Status, verify};
use super::staple::Staple;

/// Timeouts of a fetch.
const FETCH_TIMEOUTS: FetchTimeouts =
    FetchTimeouts { connect: Duration::from_secs(3), total: Duration::from_secs(10) };
/// Concurrent first fetches, and separately concurrent fetches after a failure: unresponsive responders do not
/// delay others for long.
const MAX_FETCHES: usize = 8;
/// Delay after a successful fetch: minimum and maximum.
const REFRESH_RANGE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(86_400)];
/// Delay after a failed fetch: first and maximum.
const RETRY_RANGE: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(3_600)];

/// A certificate whose response is kept fresh until it is dropped.
pub(super) struct WatchedCertificate {
    pub(super) name: CertificateKey,
    pub(super) inquiry: OcspRequest,
    pub(super) staple: Weak<Staple>,
    /// Ends when the certificate is dropped.
    pub(super) in_use: oneshot::Receiver<Infallible>,
}

/// State shared by all watched certificates.
pub(super) struct StaplingShared {
    pub(super) rule: AddressRule,
    pub(super) counts: FetchCounts,
    first_fetches: Semaphore,
    after_failures: Semaphore,
}

/// Result of a fetch.
struct Attempt {
    outcome: FetchOutcome,
    /// Delay before the next fetch.
    wait: Duration,
}

impl StaplingShared {
    pub(super) fn new(rule: AddressRule) -> Self {
        let [first_fetches, after_failures] = [0, 1].map(|_| Semaphore::new(MAX_FETCHES));
        Self { rule, counts: FetchCounts::default(), first_fetches, after_failures }
    }
}

impl WatchedCertificate {
    pub(super) async fn run(self, shared: &StaplingShared) {
        let Self { name, inquiry, staple, in_use } = self;
        let asking = async {
            let mut failures = 0;
            loop {
                let turn = if failures == 0 { &shared.first_fetches } else { &shared.after_failures };
                // The semaphore is never closed.
                let turn = turn.acquire().await;
                let attempt = fetch_and_staple(&name, &inquiry, &staple, failures, shared).await;
                drop(turn);
                shared.counts.add(attempt.outcome);
                failures = if attempt.outcome == FetchOutcome::Good { 0 } else { failures + 1 };
                sleep(attempt.wait).await;
            }
        };
        tokio::select! {
            _ = in_use => {}
            () = asking => {}
        }
    }
}

/// Fetches once, and staples a good response.
async fn fetch_and_staple(
    name: &CertificateKey,
    inquiry: &OcspRequest,
    staple: &Weak<Staple>,
    failures: u32,
    shared: &StaplingShared,
) -> Attempt {
    let url = &inquiry.responder;
    let wait = retry_in(failures);
    let must = if inquiry.must_staple {
        "; the certificate requires stapling, so clients may refuse it"
    } else {
        ""
    };
    let remains = format!("the last good OCSP response, if any, stays stapled until it expires{must}");
    let retried = |outcome| Attempt { outcome, wait };
    // Boxed: large, and rarely alive.
    let response = match Box::pin(fetch(inquiry, &shared.rule, FETCH_TIMEOUTS)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(certificate = %name, "the OCSP responder {url} {error}; {remains}");
            return retried(match error {
                FetchError::Refused(_) => FetchOutcome::Refused,
                FetchError::Failed(_) => FetchOutcome::Failed,
            });
        }
    };
    let now = UnixTime::now();
    let verdict = match verify(&response, inquiry, now) {
        Ok(verdict) => verdict,
        Err(error) => {
            tracing::warn!(certificate = %name, "the response of the OCSP responder {url} {error}; {remains}");
            return retried(FetchOutcome::Unusable);
        }
    };
    // The certificate was dropped: the outcome no longer matters.
    let Some(staple) = staple.upgrade() else { return retried(FetchOutcome::Good) };
    match verdict.status {
        Status::Good => {
            staple.set(response.into(), verdict.next_update);
            let validity = Duration::from_secs(verdict.next_update.saturating_sub(now.as_secs()));
            Attempt { outcome: FetchOutcome::Good, wait: refresh_in(validity) }
        }
        Status::Revoked => {
            staple.withdraw();
            tracing::error!(
                certificate = %name,
                "the OCSP responder {url} reports the certificate as revoked; no OCSP response is stapled: replace the certificate"
            );
            retried(FetchOutcome::Revoked)
        }
        Status::Unknown => {
            tracing::warn!(certificate = %name, "the OCSP responder {url} does not know the certificate; {remains}");
            retried(FetchOutcome::Unknown)
        }
    }
}

/// Delay before refreshing a response valid for `left`: half of it, minus up to a tenth at random, so that
/// replicas and certificates of a rollout do not all fetch at once.
fn refresh_in(validity: Duration) -> Duration {
    let [least, most] = REFRESH_RANGE;
    with_jitter((validity / 2).min(most)).clamp(least, most)
}

/// Delay before retrying after this many earlier failures.
fn retry_in(failures: u32) -> Duration {
    let [least, most] = RETRY_RANGE;
    with_jitter(least.saturating_mul(1 << failures.min(10)).min(most))
}

fn with_jitter(wait: Duration) -> Duration {
    wait.mul_f64(1.0 - fastrand::f64() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn responses_are_refreshed_after_half_of_their_validity_within_limits() {
        for (left, least, most) in
            [(DAY, DAY * 45 / 100, DAY / 2), (7 * DAY, DAY * 9 / 10, DAY), (10, 60, 60), (0, 60, 60)]
        {
            let wait = refresh_in(Duration::from_secs(left)).as_secs();
            assert!((least..=most).contains(&wait), "{left} {wait}");
        }
        assert!(refresh_in(Duration::MAX) <= REFRESH_RANGE[1]);
    }

    #[test]
    fn failing_responders_are_retried_with_increasing_delays() {
        for (failures, most) in [(0, 30), (1, 60), (3, 240), (7, 3_600), (u32::MAX, 3_600)] {
            let wait = retry_in(failures);
            let limit = Duration::from_secs(most);
            assert!(wait <= limit && wait >= limit.mul_f64(0.89), "{failures} {wait:?}");
        }
    }
}
