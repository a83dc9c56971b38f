//! What is remembered between two updates. Owns the memory, and nothing of how it comes about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{self as model, HostKey, HostPattern, StreamPolicy, StreamRoute, WeightedBackend};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::placement::Placement;
use fairway_objects::users::Users;
use imbl::{OrdMap, OrdSet};

use crate::afford::{Price, Unaffordable};
use crate::attach::{AtParent, Parents};
use crate::class::Class;
use crate::gateway::Reading;
use crate::listener::{Entry, ListenerId};
use crate::listening::Listeners;
use crate::naming::Naming;
use crate::noted::Noted;
use crate::place::PortUsers;
use crate::policy::Attached;
use crate::rules::Rules;
use crate::shared::{Claimant, Claims, SharedHost};
use crate::tls_policy::{Policy, Targets};
use crate::translation::GatewayTranslation;

/// The translation of all Gateway API objects, kept up to date. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Gateways {
    pub(crate) controller: Arc<str>,
    pub(crate) noted: Noted,
    pub(crate) naming: Naming,
    pub(crate) listening: Listening,
    pub(crate) policies: Policies,
    /// Policies of Fairway's own.
    pub(crate) attached: Attached,
    pub(crate) routes: Routes,
    pub(crate) tables: Tables,
    pub(crate) translation: GatewayTranslation,
}

/// Classes, Gateways and ListenerSets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listening {
    pub(crate) classes: OrdMap<ObjectKey, Arc<Class>>,
    /// The listeners of each Gateway and ListenerSet by themselves.
    pub(crate) entries: OrdMap<ObjectRef, Arc<[Arc<Entry>]>>,
    pub(crate) readings: OrdMap<ObjectKey, Arc<Reading>>,
    pub(crate) parents: Parents,
    pub(crate) ports: PortUsers,
    pub(crate) places: OrdMap<ObjectKey, Arc<Placement>>,
    /// The Gateways that want a host at the address of Ingresses, the oldest first.
    pub(crate) claimants: Users<SharedHost, Claimant>,
    /// What each of them wants.
    pub(crate) claims: OrdMap<ObjectKey, Arc<Claims>>,
    /// The listeners of each Gateway in the configuration.
    pub(crate) configured: OrdMap<ObjectKey, Arc<Listeners>>,
    /// Gateways, ListenerSets and routes that refer to something in another namespace.
    pub(crate) foreign: Users<Arc<str>, ObjectRef>,
    pub(crate) foreign_of: OrdMap<ObjectRef, BTreeSet<Arc<str>>>,
}

/// BackendTLSPolicies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub(crate) by_key: OrdMap<ObjectKey, Arc<Policy>>,
    pub(crate) targets: Targets,
}

/// Routes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    pub(crate) by_key: OrdMap<ObjectRef, Arc<RouteMemo>>,
    /// The routes that name a parent or an HTTPRouteFilter, whether it exists or not.
    pub(crate) by_named: Users<ObjectRef, ObjectRef>,
    /// The routes that name a Service, whether it exists or not.
    pub(crate) by_service: Users<ObjectKey, ObjectRef>,
    /// The routes that name an InferencePool, whether it exists or not.
    pub(crate) by_pool: Users<ObjectKey, ObjectRef>,
    /// The routes at a listener, the oldest first.
    pub(crate) attached: Users<ListenerId, Aged>,
    /// Those of them that are GRPCRoutes.
    pub(crate) grpc: Users<ListenerId, Aged>,
    /// The routes that other routes keep from a listener: of HTTPRoutes and GRPCRoutes with the same hosts, one is
    /// accepted.
    pub(crate) losers: OrdMap<ListenerId, OrdSet<ObjectRef>>,
    /// What each route contributes to hosts, in order.
    pub(crate) contributed: OrdMap<ObjectRef, Arc<[Part]>>,
}

/// A route by age: older ones come first, and equally old ones by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Aged {
    pub(crate) created: i64,
    pub(crate) key: ObjectKey,
    pub(crate) kind: Kind,
}

/// What the rules of a route differ by: the certificate that its Gateway shows to endpoints, whether TLS is passed
/// through, and what protects the listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Variant {
    pub(crate) client_certificate: Option<ObjectKey>,
    pub(crate) passes_through: bool,
    /// The SecurityPolicies that are for the listener, from the least specific one on.
    pub(crate) guards: Vec<ObjectKey>,
    /// The ExtensionPolicies that are for the listener, in the same order.
    pub(crate) extensions: Vec<ObjectKey>,
    /// Whether the Gateway itself asks the clients of the listener for certificates; said only where there are such policies.
    pub(crate) verified: bool,
}

/// A host, and the part that a route has in it.
pub(crate) type Part = (HostKey, Arc<Contribution>);

/// A route's part in a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contribution {
    pub(crate) route: Aged,
    /// The host of the listener to which it is attached.
    pub(crate) listener: HostPattern,
    pub(crate) variant: Variant,
}

/// A route as it was read. Its lists have no room for more: there may be 100,000 routes, most of them with one of each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RouteMemo {
    pub(crate) age: Aged,
    /// The objects that it names as its parents, and the HTTPRouteFilters that its rules name, each once.
    pub(crate) named: Box<[ObjectRef]>,
    /// The Services that it names, each once.
    pub(crate) services: Box<[ObjectKey]>,
    /// The InferencePools that it names, each once.
    pub(crate) pools: Box<[ObjectKey]>,
    /// The hosts that it names.
    pub(crate) hosts: Box<[HostPattern]>,
    /// Its parents that are this controller's.
    pub(crate) parents: Box<[AtParent]>,
    /// One of each variant.
    pub(crate) made: Box<[(Variant, Made)]>,
}

/// The rules of a route for the data plane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Made {
    pub(crate) rules: Arc<Rules>,
    /// For HTTP.
    pub(crate) route: Arc<model::Route>,
    /// What the regular expressions of the route cost.
    pub(crate) prices: Arc<[Price]>,
}

/// What a host cannot afford of each route.
pub(crate) type OverBudget = BTreeMap<ObjectRef, Overrun>;

/// What a host cannot afford of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overrun {
    pub(crate) refused: Vec<Unaffordable>,
    /// Whether no rule of the route is left in the host.
    pub(crate) nothing_left: bool,
}

/// The route tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// The hosts of the listeners of each table.
    pub(crate) listeners: OrdMap<Arc<str>, OrdSet<HostPattern>>,
    /// The tables that are none of HTTP.
    pub(crate) streams: OrdSet<Arc<str>>,
    /// The routes of each host.
    pub(crate) hosts: Users<HostKey, Arc<Contribution>>,
    /// What hosts cannot afford.
    pub(crate) over_budget: OrdMap<HostKey, Arc<OverBudget>>,
}

impl Aged {
    /// As an object.
    pub(crate) fn reference(&self) -> ObjectRef {
        ObjectRef::new(self.kind, self.key.clone())
    }
}

impl Made {
    /// Where connections go that are not HTTP.
    pub(crate) fn stream(&self, key: model::StreamKey) -> StreamRoute {
        let backends: Vec<WeightedBackend> = self.rules.shares.clone();
        StreamRoute { key, origin: self.route.origin.clone(), backends, policy: StreamPolicy::default() }
    }
}

impl Gateways {
    /// Without objects.
    #[must_use]
    pub fn new(controller: &Arc<str>) -> Self {
        Self {
            controller: controller.clone(),
            noted: Noted::default(),
            naming: Naming::new(controller),
            listening: Listening::default(),
            policies: Policies::default(),
            attached: Attached::default(),
            routes: Routes::default(),
            tables: Tables::default(),
            translation: GatewayTranslation::default(),
        }
    }
}
