//! Limits per client: request rate and concurrent requests.

use std::net::Ipv4Addr;
use std::sync::Arc;

use fairway_model::{ConcurrencyLimit, LimitScope, RateLimit};
use fairway_net::clock::Instant;
use fairway_net::counts::{ClientCounts, RequestRate};
use fairway_routing::PolicyId;
use ipnet::IpNet;

use super::caller::counted_identity;
use super::verdict::{FilterContext, Verdict};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::request::client::Client;

/// Counts the request against a rate limit, and refuses it if the limit is exceeded.
pub(super) fn check_rate<'r>(
    context: &FilterContext<'_>,
    policy: PolicyId,
    limit: &RateLimit,
    buffers: &Buffers,
) -> Verdict<'r> {
    let FilterContext { counts, fleet, client, .. } = context;
    let interval = limit.per / limit.requests.max(1);
    let rate = RequestRate { interval, burst: interval.saturating_mul(limit.burst) };
    let asks = || {
        let (identity, now) = (counted_identity(&limit.key, buffers), Instant::now());
        match (limit.scope, identity) {
            (LimitScope::Fleet, identity) => {
                fleet.admits(policy, identity.as_ref(), client.counted_address(), rate, now)
            }
            // The client is identified without its address.
            (LimitScope::Replica, Some(identity)) => {
                counts.admit((policy, identity), Ipv4Addr::UNSPECIFIED.into(), rate, now)
            }
            (LimitScope::Replica, None) => counts.admit(policy, client.counted_address(), rate, now),
        }
    };
    if is_exempt(&limit.exempt, client) || asks() {
        Verdict::Pass
    } else {
        Verdict::Refused(Fault::TooManyRequests(limit.status))
    }
}

/// Counts the request against a concurrency limit until its exchange ends, and refuses it if the limit is reached.
pub(super) fn check_concurrency<'r>(
    counts: &Arc<ClientCounts>,
    policy: PolicyId,
    limit: &ConcurrencyLimit,
    client: &Client,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    if is_exempt(&limit.exempt, client) {
        return Verdict::Pass;
    }
    match counts.begin_exchange(policy, client.counted_address(), limit.max) {
        Some(under_way) => {
            buffers.under_way.push(under_way);
            Verdict::Pass
        }
        None => Verdict::Refused(Fault::TooMuchUnderWay(limit.status)),
    }
}

fn is_exempt(exempt: &[IpNet], client: &Client) -> bool {
    client.address.is_some_and(|address| exempt.iter().any(|range| range.contains(&address)))
}
