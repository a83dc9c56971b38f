//! What is allowed to whom: rules over what is known of a request, of which the first that holds decides.

use std::net::IpAddr;

use fairway_model::{Authorization, AuthorizationRule, CountryCode, Decision, GeoField, GeoFields, Match};
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
    /// The country of its address.
    pub country: Located<CountryCode>,
    /// The autonomous system of its address.
    pub asn: Located<u32>,
    /// What its verified token says.
    pub claims: Option<&'c Claims>,
    /// Whose API key it has.
    pub api_client: Option<&'c str>,
}

/// What a database says of the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Located<T> {
    /// Nothing: there is no such database, or the address is unknown.
    #[default]
    Unknown,
    /// That it is in none.
    Nowhere,
    /// That it is in this one.
    In(T),
}

impl<T: PartialEq> Located<T> {
    /// Whether it is in one of these; `unknown` where nobody knows.
    fn is_one_of(&self, listed: &[T], unknown: bool) -> bool {
        match self {
            Self::Unknown => unknown,
            Self::Nowhere => false,
            Self::In(found) => listed.contains(found),
        }
    }
}

impl AuthorizationCheck {
    pub(crate) fn compiled(of: &Authorization) -> Result<Self, String> {
        let rules = of.rules.iter().map(|rule| {
            let headers = Match { headers: rule.headers.clone(), ..Match::default() };
            Ok(CompiledRule { rule: rule.clone(), headers: Conditions::compiled(&headers)? })
        });
        Ok(Self { rules: rules.collect::<Result<_, String>>()?, otherwise: of.otherwise() })
    }

    /// What it asks of databases of addresses.
    #[must_use]
    pub fn geo_fields(&self) -> GeoFields {
        let country = self.rules.iter().any(|it| !it.rule.countries.is_empty());
        let asn = self.rules.iter().any(|it| !it.rule.asns.is_empty());
        let asked = [(country, GeoField::CountryCode), (asn, GeoField::Asn)];
        asked.into_iter().filter_map(|(is_asked, field)| is_asked.then_some(field)).collect()
    }

    /// Decides about a request.
    pub fn decide<F: Fields>(&self, request: &Request<'_, F>, caller: Caller<'_>) -> Decision {
        let met = self.rules.iter().find(|rule| rule.holds(request, caller));
        met.map_or(self.otherwise, |met| met.rule.decision)
    }
}

impl CompiledRule {
    /// Whether all conditions hold. What cannot be known, such as an address, its country without a database, or a header that is
    /// too long to be compared, is a reason to deny and none to allow.
    fn holds<F: Fields>(&self, request: &Request<'_, F>, caller: Caller<'_>) -> bool {
        let AuthorizationRule {
            decision,
            sources,
            countries,
            asns,
            methods,
            claims,
            scopes,
            clients,
            headers: _,
        } = &self.rule;
        let denies = *decision == Decision::Deny;
        let is_from = |address: IpAddr| sources.iter().any(|range| range.contains(&address));
        let has_claims = |known: &Claims| {
            claims.iter().all(|of| known.has_any(&of.claim, of.values.iter().map(|value| &**value)))
                && scopes.iter().all(|scope| known.has_scope(scope))
        };
        (sources.is_empty() || caller.address.map_or(denies, is_from))
            && (countries.is_empty() || caller.country.is_one_of(countries, denies))
            && (asns.is_empty() || caller.asn.is_one_of(asns, denies))
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

#[cfg(test)]
mod tests {
    use super::*;

    struct NoFields;

    impl Fields for NoFields {
        fn first(&self, _: &str) -> Option<&[u8]> {
            None
        }
    }

    #[test]
    fn a_place_that_nobody_knows_is_a_reason_to_deny_and_none_to_allow() {
        let country = |code: &str| code.parse::<CountryCode>().unwrap();
        let holds = |decision, of: Located<CountryCode>| {
            let mut rule = AuthorizationRule::new(decision);
            rule.countries = vec![country("DE"), country("FR")];
            let rule = CompiledRule { rule, headers: None };
            let (host, method, normalised, decoded, query) =
                ("a", &b"GET"[..], &b"/"[..], &b"/"[..], &b""[..]);
            let request = Request { host, method, normalised, decoded, query, fields: &NoFields };
            rule.holds(&request, Caller { country: of, ..Caller::default() })
        };
        for (of, allows, denies) in [
            (Located::In(country("DE")), true, true),
            (Located::In(country("AT")), false, false),
            (Located::Nowhere, false, false),
            (Located::Unknown, false, true),
        ] {
            assert_eq!(holds(Decision::Allow, of), allows, "{of:?}");
            assert_eq!(holds(Decision::Deny, of), denies, "{of:?}");
        }
    }

    #[test]
    fn only_what_a_rule_has_is_looked_up() {
        let asked = |edit: fn(&mut AuthorizationRule)| {
            let mut rule = AuthorizationRule::new(Decision::Deny);
            edit(&mut rule);
            let check = AuthorizationCheck::compiled(&Authorization { rules: vec![rule] }).unwrap();
            check.geo_fields().iter().collect::<Vec<_>>()
        };
        assert_eq!(asked(|_| {}), []);
        assert_eq!(asked(|rule| rule.asns.push(64500)), [GeoField::Asn]);
        assert_eq!(asked(|rule| rule.countries.push("DE".parse().unwrap())), [GeoField::CountryCode]);
    }
}
