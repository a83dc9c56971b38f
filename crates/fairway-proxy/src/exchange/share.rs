//! The share of a rule's requests that one belongs to, where shares have filters of their own or lead nowhere.

use fairway_routing::{CompiledRule, Shares, Targets};

use super::decide::decide;
use super::environment::Exchange;
use super::{mirror, sticky};
use crate::fault::Fault;
use crate::filter::Verdict;
use crate::network::Network;

/// Lets a request that its rule let pass on to its backend: copies of it begin, and its share does what it does with it.
#[inline]
pub(super) fn enter<'a, N: Network, D>(exchange: &mut Exchange<'_, 'a, N, D>) -> Verdict<'a> {
    begin_copies(exchange);
    match exchange.env.rule().targets() {
        Targets::Shares(shares) => choose(exchange, shares),
        _ => Verdict::Pass,
    }
}

/// Chooses among the shares. From here on the request has the rule of its share.
#[inline(never)]
fn choose<'a, N: Network, D>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    shares: &'a Shares<CompiledRule>,
) -> Verdict<'a> {
    let random = exchange.env.worker.random(|random| random.u32(..));
    let of_session = sticky::share(exchange, shares);
    let Some(rule) = of_session.or_else(|| shares.pick(random)) else {
        return Verdict::Refused(Fault::NoBackend);
    };
    exchange.env.enter_share(rule);
    // No byte of it was read: guards are asked with heads alone.
    let most = exchange.env.max_body(&exchange.client_side.peer);
    exchange.buffers.body.limit(most);
    let verdict = decide(&exchange.env, 0, &exchange.client_side.peer, exchange.buffers);
    if matches!(verdict, Verdict::Pass) {
        begin_copies(exchange);
    }
    verdict
}

fn begin_copies<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>) {
    mirror::begin(&exchange.env, &exchange.client_side.peer, exchange.buffers);
}
