//! Authorization rules: the first rule that matches a request decides.

use std::net::IpAddr;

use fairway_model::{Authorization, AuthorizationRule, CountryCode, Decision, GeoField, GeoFields, Match};
use fairway_token::Claims;

use crate::conditions::Conditions;
use crate::request::{Fields, Request};

/// The compiled rules of an [`Authorization`].
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
    /// Its address; `None` if the header that should contain it is invalid.
    pub address: Option<IpAddr>,
    /// The country of its address.
    pub country: GeoLookup<CountryCode>,
    /// The autonomous system of its address.
    pub asn: GeoLookup<u32>,
    /// The claims of its verified token.
    pub claims: Option<&'c Claims>,
    /// The client that its API key belongs to.
    pub api_client: Option<&'c str>,
}

/// The result of a GeoIP lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeoLookup<T> {
    /// There is no database, or the address is not in it.
    #[default]
    Unknown,
    /// The database says that it belongs to none.
    Nowhere,
    /// The database's value.
    In(T),
}

impl<T: PartialEq> GeoLookup<T> {
    /// Whether it is one of these; `unknown` if that cannot be determined.
    fn is_one_of(&self, listed: &[T], unknown: bool) -> bool {
        match self {
            Self::Unknown => unknown,
            Self::Nowhere => false,
            Self::In(found) => listed.contains(found),
        }
    }
}

impl AuthorizationCheck {
    pub(crate) fn compiled(authorization: &Authorization) -> Result<Self, String> {
        let rules = authorization.rules.iter().map(|rule| {
            let headers = Match { headers: rule.headers.clone(), ..Match::default() };
            Ok(CompiledRule { rule: rule.clone(), headers: Conditions::compiled(&headers)? })
        });
        Ok(Self { rules: rules.collect::<Result<_, String>>()?, otherwise: authorization.otherwise() })
    }

    /// The fields it needs from GeoIP databases.
    #[must_use]
    pub fn geo_fields(&self) -> GeoFields {
        let country = self.rules.iter().any(|it| !it.rule.countries.is_empty());
        let asn = self.rules.iter().any(|it| !it.rule.asns.is_empty());
        let lookups = [(country, GeoField::CountryCode), (asn, GeoField::Asn)];
        lookups.into_iter().filter_map(|(is_asked, field)| is_asked.then_some(field)).collect()
    }

    /// Decides whether to allow a request.
    pub fn decide<F: Fields>(&self, request: &Request<'_, F>, caller: Caller<'_>) -> Decision {
        let met = self.rules.iter().find(|rule| rule.holds(request, caller));
        met.map_or(self.otherwise, |met| met.rule.decision)
    }
}

impl CompiledRule {
    /// Whether all conditions hold. If one cannot be evaluated, such as an unknown address, its country without a
    /// database, or a header that is too long to compare, that is a reason to deny but not to allow.
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
            claims
                .iter()
                .all(|required| known.has_any(&required.claim, required.values.iter().map(|value| &**value)))
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
    fn an_unknown_country_allows_denying_and_prevents_allowing() {
        let country = |code: &str| code.parse::<CountryCode>().unwrap();
        let holds = |decision, lookup: GeoLookup<CountryCode>| {
            let mut rule = AuthorizationRule::new(decision);
            rule.countries = vec![country("DE"), country("FR")];
            let rule = CompiledRule { rule, headers: None };
            let (host, method, normalised, decoded, query) =
                ("a", &b"GET"[..], &b"/"[..], &b"/"[..], &b""[..]);
            let request = Request { host, method, normalised, decoded, query, fields: &NoFields };
            rule.holds(&request, Caller { country: lookup, ..Caller::default() })
        };
        for (geo_lookup, allows, denies) in [
            (GeoLookup::In(country("DE")), true, true),
            (GeoLookup::In(country("AT")), false, false),
            (GeoLookup::Nowhere, false, false),
            (GeoLookup::Unknown, false, true),
        ] {
            assert_eq!(holds(Decision::Allow, geo_lookup), allows, "{geo_lookup:?}");
            assert_eq!(holds(Decision::Deny, geo_lookup), denies, "{geo_lookup:?}");
        }
    }

    #[test]
    fn only_the_databases_of_a_rule_are_looked_up() {
        let reads = |edit: fn(&mut AuthorizationRule)| {
            let mut rule = AuthorizationRule::new(Decision::Deny);
            edit(&mut rule);
            let check = AuthorizationCheck::compiled(&Authorization { rules: vec![rule] }).unwrap();
            check.geo_fields().iter().collect::<Vec<_>>()
        };
        assert_eq!(reads(|_| {}), []);
        assert_eq!(reads(|rule| rule.asns.push(64500)), [GeoField::Asn]);
        assert_eq!(reads(|rule| rule.countries.push("DE".parse().unwrap())), [GeoField::CountryCode]);
    }
}
