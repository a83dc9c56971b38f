//! What many routes are, where they come from, and how many there are.

use serde::Serialize;

/// What the routes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An Ingress with one path each.
    Ingress,
    /// An HTTPRoute with one rule each.
    HttpRoute,
}

/// Where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A directory with a file for each host.
    Directory,
    /// An API server.
    Api,
}

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Ingresses or HTTPRoutes.
    pub routes: usize,
    /// The hosts that they share evenly; each has a Service. Not 0, and no more than routes.
    pub hosts: usize,
    /// Endpoints of all Services.
    pub endpoints: usize,
}

impl Shape {
    /// The host of a route.
    pub(super) fn host_of(self, route: usize) -> usize {
        route % self.hosts
    }

    /// The endpoints of a host's Service.
    pub(super) fn endpoints_of(self, host: usize) -> usize {
        self.endpoints / self.hosts + usize::from(host < self.endpoints % self.hosts)
    }
}
