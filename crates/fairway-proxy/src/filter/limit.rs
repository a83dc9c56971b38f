//! Limits of what each client may ask, and of what it may have under way.

use std::net::Ipv4Addr;
use std::sync::Arc;

use fairway_model::{ConcurrencyLimit, LimitScope, RateLimit};
use fairway_net::clock::Instant;
use fairway_net::counts::{Counts, Rate};
use fairway_routing::PolicyId;
use ipnet::IpNet;

use super::caller::counted_identity;
use super::verdict::{FilterContext, Verdict};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::request::client::Client;

/// Counts the request, if it does not come too early.
pub(super) fn rate<'r>(
    context: &FilterContext<'_>,
    policy: PolicyId,
    limit: &RateLimit,
    buffers: &Buffers,
) -> Verdict<'r> {
    let FilterContext { counts, fleet, client, .. } = context;
    let interval = limit.per / limit.requests.max(1);
    let rate = Rate { interval, burst: interval.saturating_mul(limit.burst) };
    let asks = || {
        let (identity, now) = (counted_identity(&limit.key, buffers), Instant::now());
        match (limit.scope, identity) {
            (LimitScope::Fleet, identity) => {
                fleet.asks(policy, identity.as_ref(), client.counted(), rate, now)
            }
            // The address says nothing about it.
            (LimitScope::Replica, Some(identity)) => {
                counts.asks((policy, identity), Ipv4Addr::UNSPECIFIED.into(), rate, now)
            }
            (LimitScope::Replica, None) => counts.asks(policy, client.counted(), rate, now),
        }
    };
    if is_exempt(&limit.exempt, client) || asks() {
        Verdict::Pass
    } else {
        Verdict::Refused(Fault::TooManyRequests(limit.status))
    }
}

/// Counts the request until its exchange is over, if not too much is under way.
pub(super) fn concurrency<'r>(
    counts: &Arc<Counts>,
    policy: PolicyId,
    limit: &ConcurrencyLimit,
    client: &Client,
    buffers: &mut Buffers,
) -> Verdict<'r> {
    if is_exempt(&limit.exempt, client) {
        return Verdict::Pass;
    }
    match counts.begins(policy, client.counted(), limit.most) {
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
