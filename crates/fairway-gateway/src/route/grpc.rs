//! GRPCRoutes: methods become paths; everything else is as in HTTPRoutes.

use std::cell::RefCell;

use fairway_model::{Policy, RouteFilters};
use fairway_objects::gateway_api::{GrpcRouteFilter, GrpcRouteRule, GrpcRouteSpec};

use crate::backend::BackendReference;
use crate::filter::FilterError;
use crate::route::session;
use crate::rules::{RuleBuilder, RuleDraft};
use crate::{filter, matches};

/// Reads the rules.
pub(crate) fn read(spec: &GrpcRouteSpec, builder: &mut RuleBuilder<'_>) {
    for (index, rule) in spec.rules.iter().enumerate() {
        let draft = draft(index, rule, builder);
        builder.add(draft);
    }
}

fn draft<'r>(index: usize, rule: &'r GrpcRouteRule, builder: &mut RuleBuilder<'_>) -> RuleDraft<'r> {
    let at = format!("spec.rules[{index}]");
    let session = session::read(index, rule.name.as_deref(), rule.session_persistence.as_deref(), builder);
    let account = &mut builder.account;
    let matches = rule.matches.iter().map(|it| matches::grpc_match(it, account)).collect();
    let filters = filters(builder, &at, &rule.filters);
    let mut shares = Vec::with_capacity(rule.backend_refs.len());
    for (number, it) in rule.backend_refs.iter().enumerate() {
        let at = format!("{at}.backendRefs[{number}]");
        let mirror = &mut |reference: BackendReference<'_>| builder.mirror(&at, reference);
        let filters = filter::FilterReader { named: None, mirror, prefixes: false }.read_grpc(&it.filters);
        shares.push(builder.share(index, &at, it.into(), it.weight, filters, session.as_ref()));
    }
    let name = rule.name.as_deref();
    let (retry_statuses, policy) = (Vec::new(), Ok(Policy::default()));
    RuleDraft {
        index,
        name,
        matches,
        filters,
        guards: Some(Vec::new()),
        retry_statuses,
        policy,
        session,
        shares,
    }
}

/// The filters of a rule.
fn filters(
    builder: &mut RuleBuilder<'_>,
    at: &str,
    filters: &[GrpcRouteFilter],
) -> Result<RouteFilters, FilterError> {
    let builder = RefCell::new(builder);
    let mirror = &mut |reference: BackendReference<'_>| builder.borrow_mut().mirror(at, reference);
    let named = &mut |name: &str| builder.borrow_mut().filter(name);
    filter::FilterReader { named: Some(named), mirror, prefixes: false }.read_grpc(filters)
}
