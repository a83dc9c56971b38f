//! Retries: `proxy-next-upstream*`. Where a retry is safe, Fairway retries regardless of these.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::Forwarding;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs};
use crate::ingress::values::{self, Failures, value};

/// The family. It runs after `limits`, which creates the policy.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let defaults = &context.defaults.values;
    let failures = value(reader, defaults, "proxy-next-upstream", values::failures);
    let failures = failures.unwrap_or(Failures::Statuses(Vec::new()));
    let tries = value(reader, defaults, "proxy-next-upstream-tries", values::count);
    let limit = value(reader, defaults, "proxy-next-upstream-timeout", values::count);
    let policy = Arc::make_mut(&mut contributions.policy);
    let retry = &mut policy.retry;
    match (&failures, tries) {
        (Failures::None, _) => retry.tries = 1,
        (_, Some(0)) => retry.tries = MAX_TRIES,
        (_, Some(tries)) => retry.tries = u8::try_from(tries).unwrap_or(MAX_TRIES).min(MAX_TRIES),
        (_, None) => {}
    }
    let all = policy.timeouts.connect.saturating_mul(u32::from(retry.tries));
    let limit =
        limit.filter(|limit| *limit > 0).map_or(Duration::MAX, |limit| Duration::from_secs(limit.into()));
    retry.connect_total = all.min(limit);
    if let Failures::Statuses(statuses) = failures
        && !statuses.is_empty()
    {
        contributions.added.add(Forwarding { retry_statuses: statuses, ..Forwarding::default() });
    }
    Ok(())
});

/// Maximum attempts: if no endpoint responds, one request must not use up the retry budget of all others.
const MAX_TRIES: u8 = 8;

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs(
        "proxy-next-upstream",
        "attempts that no endpoint has seen are retried, except with `off`; others only with idempotent methods, after `http_*` only at untried endpoints",
    ),
    differs("proxy-next-upstream-timeout", "includes the first connect"),
    differs("proxy-next-upstream-tries", "at most 8, also with `0`"),
];
