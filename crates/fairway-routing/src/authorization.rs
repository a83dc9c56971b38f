//! What is allowed to whom: rules over what is known of a request, of which the first that holds decides.

use std::net::IpAddr;

use fairway_model::{Authorization, AuthorizationRule, Decision, Match};
use fairway_token::Claims;

use crate::conditions::Conditions;
use crate::request::{Fields, Request};

/// The rules of an [`Authorization`], compiled.
#[derive(Clone, Debug)]
pub struct AuthorizationCheck {
    rules: Box<[CompiledRule]>,
    otherwise: Decision,
}

#[derive(Clone, Debug)]
struct CompiledRule {
    rule: AuthorizationRule,
    headers: Option<Conditions>,
}

/// What is known of the client besides its request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'c> {
    /// Its address; none where whoever speaks for it cannot be read.
    pub address: Option<IpAddr>,
    /// What its verified token says.
    pub claims: Option<&'c Claims>,
    /// Whose API key it has.
    pub api_client: Option<&'c str>,
}

impl AuthorizationCheck {
    pub(crate) fn compiled(of: &Authorization) -> Result<Self, String> {
        let rules = of.rules.iter().map(|rule| {
            let headers = Match { headers: rule.headers.clone(), ..Match::default() };
            Ok(CompiledRule { rule: rule.clone(), headers: Conditions::compiled(&headers)? })
        });
        Ok(Self { rules: rules.collect::<Result<_, String>>()?, otherwise: of.otherwise() })
    }

    /// Decides about a request.
    pub fn decide<F: Fields>(&self, request: &Request<'_, F>, caller: Caller<'_>) -> Decision {
        let met = self.rules.iter().find(|rule| rule.holds(request, caller));
        met.map_or(self.otherwise, |met| met.rule.decision)
    }
}

impl CompiledRule {
    /// Whether all conditions hold. What cannot be known, such as an address or a header that is too long to be compared, is a reason
    /// to deny and none to allow.
    fn holds<F: Fields>(&self, request: &Request<'_, F>, caller: Caller<'_>) -> bool {
        let AuthorizationRule { decision, sources, methods, claims, scopes, clients, headers: _ } =
            &self.rule;
        let denies = *decision == Decision::Deny;
        let is_from = |address: IpAddr| sources.iter().any(|range| range.contains(&address));
        let has_claims = |known: &Claims| {
            claims.iter().all(|of| known.has_any(&of.claim, of.values.iter().map(|value| &**value)))
                && scopes.iter().all(|scope| known.has_scope(scope))
        };
        (sources.is_empty() || caller.address.map_or(denies, is_from))
            && (methods.is_empty() || methods.iter().any(|method| method.as_bytes() == request.method))
            && (claims.is_empty() && scopes.is_empty() || caller.claims.is_some_and(has_claims))
            && (clients.is_empty()
                || caller.api_client.is_some_and(|name| clients.iter().any(|it| **it == *name)))
            && self.headers.as_ref().is_none_or(|headers| match denies {
                true => headers.refuse(request),
                false => headers.hold(request),
            })
    }
}
