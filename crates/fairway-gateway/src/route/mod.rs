//! Routes of all kinds: their parents, hostnames and rules.

pub(crate) mod external_auth;
mod grpc;
mod http;
mod session;
pub(crate) mod stream;

use fairway_model::Origin;
use fairway_objects::gateway_api::{
    GrpcRoute, HttpRoute, ParentReference, RouteStatus, TcpRoute, TlsRoute, UdpRoute,
};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};
use fairway_objects::resources::Resources;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::backend::{Resolver, RouteProtocol};
use crate::rules::{RouteRules, RuleBuilder};

/// Supported kinds of routes.
pub(crate) const ROUTE_KINDS: &[Kind] =
    &[Kind::HttpRoute, Kind::GrpcRoute, Kind::TlsRoute, Kind::TcpRoute, Kind::UdpRoute];

/// A route.
#[derive(Clone, Copy)]
pub(crate) enum Route<'a> {
    Http(&'a Sourced<HttpRoute>),
    Grpc(&'a Sourced<GrpcRoute>),
    Tls(&'a Sourced<TlsRoute>),
    Tcp(&'a Sourced<TcpRoute>),
    Udp(&'a Sourced<UdpRoute>),
}

impl<'a> Route<'a> {
    /// The route with this kind and name.
    pub(crate) fn find(reference: &ObjectRef, resources: &'a Resources) -> Option<Self> {
        let (gateway, key) = (&resources.gateway, &reference.key);
        match reference.kind {
            Kind::HttpRoute => gateway.http_routes.get(key).map(Self::Http),
            Kind::GrpcRoute => gateway.grpc_routes.get(key).map(Self::Grpc),
            Kind::TlsRoute => gateway.tls_routes.get(key).map(Self::Tls),
            Kind::TcpRoute => gateway.streams.tcp.get(key).map(Self::Tcp),
            Kind::UdpRoute => gateway.streams.udp.get(key).map(Self::Udp),
            _ => None,
        }
    }

    /// All routes in a namespace.
    pub(crate) fn in_namespace(
        namespace: &'a str,
        resources: &'a Resources,
    ) -> impl Iterator<Item = ObjectRef> + 'a {
        let gateway = &resources.gateway;
        let first = ObjectKey::new(namespace, "");
        let inside = move |key: &&ObjectKey| *key.namespace == *namespace;
        let reference_to = |kind| move |key: &ObjectKey| ObjectRef::new(kind, key.clone());
        let http = gateway.http_routes.range(first.clone()..).map(|(key, _)| key).take_while(inside);
        let grpc = gateway.grpc_routes.range(first.clone()..).map(|(key, _)| key).take_while(inside);
        let tls = gateway.tls_routes.range(first.clone()..).map(|(key, _)| key).take_while(inside);
        let tcp = gateway.streams.tcp.range(first.clone()..).map(|(key, _)| key).take_while(inside);
        let udp = gateway.streams.udp.range(first..).map(|(key, _)| key).take_while(inside);
        let requests = http.map(reference_to(Kind::HttpRoute)).chain(grpc.map(reference_to(Kind::GrpcRoute)));
        let streams = tls.map(reference_to(Kind::TlsRoute)).chain(tcp.map(reference_to(Kind::TcpRoute)));
        requests.chain(streams).chain(udp.map(reference_to(Kind::UdpRoute)))
    }

    pub(crate) fn metadata(self) -> &'a ObjectMeta {
        match self {
            Self::Http(it) => &it.object.metadata,
            Self::Grpc(it) => &it.object.metadata,
            Self::Tls(it) => &it.object.metadata,
            Self::Tcp(it) => &it.object.metadata,
            Self::Udp(it) => &it.object.metadata,
        }
    }

    /// Its creation time in seconds since 1970.
    pub(crate) fn created(self) -> Option<i64> {
        self.metadata().creation_timestamp.as_ref().map(|at| at.0.as_second())
    }

    pub(crate) fn parents(self) -> &'a [ParentReference] {
        match self {
            Self::Http(it) => &it.object.spec.parent_refs,
            Self::Grpc(it) => &it.object.spec.parent_refs,
            Self::Tls(it) => &it.object.spec.parent_refs,
            Self::Tcp(it) => &it.object.spec.parent_refs,
            Self::Udp(it) => &it.object.spec.parent_refs,
        }
    }

    pub(crate) fn hostnames(self) -> &'a [String] {
        match self {
            Self::Http(it) => &it.object.spec.hostnames,
            Self::Grpc(it) => &it.object.spec.hostnames,
            Self::Tls(it) => &it.object.spec.hostnames,
            Self::Tcp(_) | Self::Udp(_) => &[],
        }
    }

    /// The names of its rules, if any.
    pub(crate) fn rule_names(self) -> Vec<Option<&'a str>> {
        match self {
            Self::Http(it) => it.object.spec.rules.iter().map(|rule| rule.name.as_deref()).collect(),
            Self::Grpc(it) => it.object.spec.rules.iter().map(|rule| rule.name.as_deref()).collect(),
            _ => Vec::new(),
        }
    }

    fn asks_for_default_gateways(self) -> bool {
        let scope = match self {
            Self::Http(it) => &it.object.spec.use_default_gateways,
            Self::Grpc(it) => &it.object.spec.use_default_gateways,
            Self::Tls(it) => &it.object.spec.use_default_gateways,
            Self::Tcp(it) => &it.object.spec.use_default_gateways,
            Self::Udp(it) => &it.object.spec.use_default_gateways,
        };
        scope.as_deref().is_some_and(|scope| !matches!(scope, "" | "None"))
    }

    /// Whether its status has an entry of this controller.
    pub(crate) fn has_status_of(self, controller: &str) -> bool {
        let status: Option<&RouteStatus> = match self {
            Self::Http(it) => it.object.status.as_ref(),
            Self::Grpc(it) => it.object.status.as_ref(),
            Self::Tls(it) => it.object.status.as_ref(),
            Self::Tcp(it) => it.object.status.as_ref(),
            Self::Udp(it) => it.object.status.as_ref(),
        };
        status.is_some_and(|status| status.parents.iter().any(|it| it.controller_name == controller))
    }

    /// The origin of a field of the route.
    pub(crate) fn origin(self, reference: &ObjectRef, field: &str) -> Origin {
        match self {
            Self::Http(it) => it.origin(reference.kind, &reference.key, field),
            Self::Grpc(it) => it.origin(reference.kind, &reference.key, field),
            Self::Tls(it) => it.origin(reference.kind, &reference.key, field),
            Self::Tcp(it) => it.origin(reference.kind, &reference.key, field),
            Self::Udp(it) => it.origin(reference.kind, &reference.key, field),
        }
    }

    /// Translates its rules.
    pub(crate) fn rules(self, resolver: Resolver<'_>) -> RouteRules {
        let reference = resolver.route;
        let origin_of = |field: &str| self.origin(reference, field);
        let mut builder = RuleBuilder::new(resolver, &origin_of);
        if self.asks_for_default_gateways() {
            let problem = "default Gateways are not supported";
            let consequence = "the route is attached to its parentRefs only";
            builder.report_ignored("spec.useDefaultGateways", problem, consequence);
        }
        match self {
            Self::Http(it) => http::read(&it.object.spec, &mut builder),
            Self::Grpc(it) => grpc::read(&it.object.spec, &mut builder),
            Self::Tls(it) => stream::read(&it.object.spec.rules, &mut builder),
            Self::Tcp(it) => stream::read(&it.object.spec.rules, &mut builder),
            Self::Udp(it) => stream::read(&it.object.spec.rules, &mut builder),
        }
        builder.rules
    }

    /// The protocol to its backends, depending on whether TLS is passed through.
    pub(crate) fn protocol(self, passes_through: bool) -> RouteProtocol {
        match self {
            Self::Http(_) => RouteProtocol::Http,
            Self::Grpc(_) => RouteProtocol::Grpc,
            Self::Tls(_) if passes_through => RouteProtocol::ClientTls,
            Self::Tls(_) | Self::Tcp(_) => RouteProtocol::Bytes,
            Self::Udp(_) => RouteProtocol::Datagrams,
        }
    }
}
