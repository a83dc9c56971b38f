//! Where a request is forwarded to, and what its endpoint receives, as far as known.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_http::path;
use fairway_model::{
    Backend, BackendKey, Config, ForwardedPath, PathForm, ReferenceStatus, RequestEdit, RouteFilters,
    WeightedBackend,
};

use super::candidates::ServingRule;
use super::configuration::ComparedConfig;
use super::recorded_request::RequestPaths;
use crate::rule::Targets;

/// A forwarded request.
pub(super) struct Forwarded<'s> {
    pub(super) shares: Vec<BackendShare<'s>>,
    /// The path that the endpoint receives.
    pub(super) path: String,
    /// The host that it receives, if it differs from the request's.
    pub(super) host: Option<&'s str>,
}

/// A backend that may get the request.
pub(super) struct BackendShare<'s> {
    /// The Service with its port; its name in the configuration if there is no such backend.
    pub(super) service: String,
    weight: u64,
    pub(super) backend: Option<&'s Arc<Backend>>,
    pub(super) filters: Option<&'s RouteFilters>,
}

/// The impact of changed backends on a request.
pub(super) enum BackendChange<'f> {
    /// One of these gets it, as before.
    Stays(Vec<&'f str>),
    /// Another one gets it.
    Moves,
    /// That is random.
    Chance,
}

impl<'s> Forwarded<'s> {
    /// `None` if no backend has a share: it is answered with 500.
    pub(super) fn new(
        side: &ComparedConfig<'s>,
        request: &RequestPaths<'_>,
        found: ServingRule<'s>,
        shares: &'s [WeightedBackend],
    ) -> Option<Self> {
        let rule = found.rule.rule();
        let config = side.snapshot.config();
        let forwarding = rule.phases.forwarding.as_deref();
        let secured =
            forwarding.and_then(|it| it.tls_backend.as_ref()).filter(|_| request.known_request.over_tls);
        let shares: Vec<_> = match secured {
            Some(backend) => vec![BackendShare::new(config, backend, 1)],
            None if matches!(found.rule.targets(), Targets::None) => return None,
            None => shares
                .iter()
                .filter(|it| it.weight > 0)
                .map(|it| BackendShare::weighted(config, it))
                .collect(),
        };
        let host = rule.phases.request.iter().rev().find_map(|edit| match edit {
            RequestEdit::Host(host) => Some(&**host),
            _ => None,
        });
        Some(Self { shares, path: forwarded_path(found, request), host })
    }

    /// The Services, with their shares if there are several.
    pub(super) fn services(&self) -> String {
        let weights = self.weights();
        let shown = |(service, weight): (&&str, &u64)| match weights.len() {
            1 => format!("Service {service}"),
            _ => format!("Service {service} ({weight})"),
        };
        weights.iter().map(shown).collect::<Vec<_>>().join(" or ")
    }

    /// The shares of this Service.
    pub(super) fn shares_of<'f>(&'f self, service: &'f str) -> impl Iterator<Item = &'f BackendShare<'s>> {
        self.shares.iter().filter(move |share| share.service == service)
    }

    /// The impact on a request that `endpoint` answered, if `after` replaces these backends.
    pub(super) fn backend_change<'f>(
        &'f self,
        after: &Self,
        endpoint: Option<SocketAddr>,
    ) -> BackendChange<'f> {
        let (before, now) = (self.weights(), after.weights());
        let same = is_shared_alike(&before, &now);
        let known = match before.len() {
            1 => before.keys().next().copied(),
            _ => endpoint.and_then(|endpoint| self.service_of(endpoint)),
        };
        match known {
            Some(service) if !now.contains_key(service) => BackendChange::Moves,
            Some(service) if same || now.len() == 1 => BackendChange::Stays(vec![service]),
            Some(_) => BackendChange::Chance,
            None if same => BackendChange::Stays(before.into_keys().collect()),
            None if before.keys().any(|service| now.contains_key(service)) => BackendChange::Chance,
            None => BackendChange::Moves,
        }
    }

    /// The only Service with this endpoint.
    fn service_of(&self, endpoint: SocketAddr) -> Option<&str> {
        let has = |share: &&BackendShare<'_>| {
            share.backend.is_some_and(|backend| backend.endpoints.iter().any(|it| it.address == endpoint))
        };
        let mut services: Vec<_> = self.shares.iter().filter(has).map(|share| &*share.service).collect();
        services.dedup();
        match *services.as_slice() {
            [service] => Some(service),
            _ => None,
        }
    }

    fn weights(&self) -> BTreeMap<&str, u64> {
        let mut weights = BTreeMap::new();
        for share in &self.shares {
            *weights.entry(&*share.service).or_default() += share.weight;
        }
        weights
    }
}

/// Whether the same Services have the same proportions.
fn is_shared_alike(before: &BTreeMap<&str, u64>, after: &BTreeMap<&str, u64>) -> bool {
    let total = |weights: &BTreeMap<&str, u64>| u128::from(weights.values().sum::<u64>());
    let (all_before, all_after) = (total(before), total(after));
    let alike = |((one, weight), (other, now)): ((&&str, &u64), (&&str, &u64))| {
        one == other && u128::from(*weight) * all_after == u128::from(*now) * all_before
    };
    before.len() == after.len() && before.iter().zip(after).all(alike)
}

impl<'s> BackendShare<'s> {
    fn new(config: &'s Config, key: &BackendKey, weight: u64) -> Self {
        let backend = config.backends.get(key);
        let named = backend.map(|backend| &backend.service).filter(|service| !service.name.is_empty());
        let service = match named {
            Some(it) => format!("{}/{}:{}", it.namespace, it.name, it.port),
            // The text after the Service and its port says how it is used.
            None => key.0.split(';').next().unwrap_or_default().to_owned(),
        };
        Self { service, weight, backend, filters: None }
    }

    fn weighted(config: &'s Config, share: &'s WeightedBackend) -> Self {
        if share.reference == ReferenceStatus::Invalid {
            let service = format!("{} (an invalid reference)", share.backend);
            return Self { service, weight: share.weight.into(), backend: None, filters: None };
        }
        let filters = share.filters.as_deref();
        Self { filters, ..Self::new(config, &share.backend, share.weight.into()) }
    }
}

fn forwarded_path(found: ServingRule<'_>, request: &RequestPaths<'_>) -> String {
    let received = request.known_request.path;
    let mut path = Vec::new();
    if let Some(rewrite) = found.rule.rewrite() {
        // A pattern that does not match leaves the target as received.
        if !rewrite.apply(request.in_form(rewrite.path_form()), b"", found.prefix, &mut path) {
            return received.to_owned();
        }
    } else {
        let is_decoded = found.rule.path_form() == PathForm::Decoded;
        match found.rule.rule().policy.forwarded_path {
            ForwardedPath::AsReceived => return received.to_owned(),
            ForwardedPath::Normalised if !is_decoded => path.clone_from(&request.normalised),
            ForwardedPath::Normalised => {
                if path::normalise_as_decoded(received.as_bytes(), &mut path).is_err() {
                    path.clone_from(&request.normalised);
                }
            }
        }
    }
    String::from_utf8_lossy(&path).into_owned()
}
