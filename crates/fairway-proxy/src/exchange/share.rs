//! Chooses the share of a rule that a request belongs to, if shares have filters of their own or no backend.

use fairway_routing::{CompiledRule, Shares, Targets};

use super::decide::decide;
use super::environment::Exchange;
use super::{mirror, sticky};
use crate::fault::Fault;
use crate::filter::Verdict;
use crate::network::Network;

/// Continues with a request that passed its rule: starts its mirrored copies, and chooses its share.
#[inline]
pub(super) fn enter_share<'a, N: Network, D>(exchange: &mut Exchange<'_, 'a, N, D>) -> Verdict<'a> {
    begin_copies(exchange);
    match exchange.env.rule().targets() {
        Targets::Shares(shares) => choose_share(exchange, shares),
        _ => Verdict::Pass,
    }
}

/// Chooses a share. From here on the rule of the share applies.
#[inline(never)]
fn choose_share<'a, N: Network, D>(
    exchange: &mut Exchange<'_, 'a, N, D>,
    shares: &'a Shares<CompiledRule>,
) -> Verdict<'a> {
    let random = exchange.env.worker.random(|random| random.u32(..));
    let of_session = sticky::share_of_session(exchange, shares);
    let Some(rule) = of_session.or_else(|| shares.pick(random)) else {
        return Verdict::Refused(Fault::NoBackend);
    };
    exchange.env.enter_share(rule);
    // No byte of the body was read yet: guards only see heads.
    let max_bytes = exchange.env.max_body(&exchange.client_side.peer);
    exchange.buffers.body.set_limit(max_bytes);
    let verdict = decide(&exchange.env, 0, &exchange.client_side.peer, exchange.buffers);
    if matches!(verdict, Verdict::Pass) {
        begin_copies(exchange);
    }
    verdict
}

fn begin_copies<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>) {
    mirror::start_copies(&exchange.env, &exchange.client_side.peer, exchange.buffers);
}
