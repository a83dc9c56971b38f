//! State kept between updates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{self as model, HostKey, HostPattern, StreamPolicy, StreamRoute, WeightedBackend};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::placement::Placement;
use fairway_objects::users::ReverseIndex;
use imbl::{OrdMap, OrdSet};

use crate::attach::{ParentAttachment, Parents};
use crate::class::Class;
use crate::gateway::GatewayReading;
use crate::listener::{ListenerEntry, ListenerId};
use crate::listening::Listeners;
use crate::naming::Naming;
use crate::pattern_budget::{MatchCost, RejectedMatch};
use crate::placement::PortClaimants;
use crate::policy::AttachedPolicies;
use crate::rules::RouteRules;
use crate::shared::{HostClaimant, HostClaims, SharedHost};
use crate::snapshot::ObjectSnapshot;
use crate::tls_policy::{TlsPolicy, TlsTargets};
use crate::translation::GatewayTranslation;

/// The translation of all Gateway API objects, updated incrementally. Cloning is free.
#[derive(Clone, Debug)]
pub struct Gateways {
    pub(crate) controller: Arc<str>,
    pub(crate) snapshot: ObjectSnapshot,
    pub(crate) naming: Naming,
    pub(crate) listening: ListenerState,
    pub(crate) tls_policies: TlsPolicies,
    /// Fairway's own policies.
    pub(crate) own_policies: AttachedPolicies,
    pub(crate) routes: RouteState,
    pub(crate) tables: RouteTables,
    pub(crate) translation: GatewayTranslation,
}

/// Classes, Gateways and ListenerSets.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerState {
    pub(crate) classes: OrdMap<ObjectKey, Arc<Class>>,
    /// The listeners of each Gateway and ListenerSet by themselves.
    pub(crate) entries: OrdMap<ObjectRef, Arc<[Arc<ListenerEntry>]>>,
    pub(crate) readings: OrdMap<ObjectKey, Arc<GatewayReading>>,
    pub(crate) parents: Parents,
    pub(crate) ports: PortClaimants,
    pub(crate) placements: OrdMap<ObjectKey, Arc<Placement>>,
    /// Gateways that request a host at the address of Ingresses, oldest first.
    pub(crate) claimants: ReverseIndex<SharedHost, HostClaimant>,
    /// What each of them requests.
    pub(crate) claims: OrdMap<ObjectKey, Arc<HostClaims>>,
    /// The listeners of each Gateway in the configuration.
    pub(crate) configured: OrdMap<ObjectKey, Arc<Listeners>>,
    /// Gateways, ListenerSets and routes that refer to another namespace.
    pub(crate) foreign: ReverseIndex<Arc<str>, ObjectRef>,
    pub(crate) foreign_of: OrdMap<ObjectRef, BTreeSet<Arc<str>>>,
}

/// BackendTLSPolicies.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsPolicies {
    pub(crate) by_key: OrdMap<ObjectKey, Arc<TlsPolicy>>,
    pub(crate) targets: TlsTargets,
}

/// Routes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteState {
    pub(crate) by_key: OrdMap<ObjectRef, Arc<RouteMemo>>,
    /// Routes by the parent or HTTPRouteFilter that they name, existing or not.
    pub(crate) by_named: ReverseIndex<ObjectRef, ObjectRef>,
    /// Routes by the Service that they name, existing or not.
    pub(crate) by_service: ReverseIndex<ObjectKey, ObjectRef>,
    /// Routes by the InferencePool that they name, existing or not.
    pub(crate) by_pool: ReverseIndex<ObjectKey, ObjectRef>,
    /// Routes by listener, oldest first.
    pub(crate) attached: ReverseIndex<ListenerId, RouteByAge>,
    /// GRPCRoutes among them.
    pub(crate) grpc: ReverseIndex<ListenerId, RouteByAge>,
    /// Routes that lose a listener to another route: of HTTPRoutes and GRPCRoutes with the same hosts, only one is
    /// accepted.
    pub(crate) losers: OrdMap<ListenerId, OrdSet<ObjectRef>>,
    /// Contributions of each route to hosts, in order.
    pub(crate) contributed: OrdMap<ObjectRef, Arc<[HostContribution]>>,
}

/// A route in order of age: older first, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteByAge {
    pub(crate) created: i64,
    pub(crate) key: ObjectKey,
    pub(crate) kind: Kind,
}

/// What the rules of a route depend on besides the route: the Gateway's client certificate, TLS passthrough, and the
/// policies of the listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Variant {
    pub(crate) client_certificate: Option<ObjectKey>,
    pub(crate) passes_through: bool,
    /// SecurityPolicies for the listener, least specific first.
    pub(crate) guards: Vec<ObjectKey>,
    /// ExtensionPolicies for the listener, in the same order.
    pub(crate) extensions: Vec<ObjectKey>,
    /// Whether the Gateway requires client certificates at the listener; only set if there are such policies.
    pub(crate) verified: bool,
}

/// A host and a route's contribution to it.
pub(crate) type HostContribution = (HostKey, Arc<Contribution>);

/// A route's contribution to a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contribution {
    pub(crate) route: RouteByAge,
    /// The host of the listener that it is attached to.
    pub(crate) listener: HostPattern,
    pub(crate) variant: Variant,
}

/// A route after reading. Its lists have no spare capacity: there may be 100,000 routes, most with one element each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RouteMemo {
    pub(crate) age: RouteByAge,
    /// Parents and HTTPRouteFilters that it names, each once.
    pub(crate) named: Box<[ObjectRef]>,
    /// Services that it names, each once.
    pub(crate) services: Box<[ObjectKey]>,
    /// InferencePools that it names, each once.
    pub(crate) pools: Box<[ObjectKey]>,
    /// Its hostnames.
    pub(crate) hosts: Box<[HostPattern]>,
    /// Its parents that belong to this controller.
    pub(crate) parents: Box<[ParentAttachment]>,
    /// Its rules for each variant.
    pub(crate) rules_by_variant: Box<[(Variant, BuiltRules)]>,
}

/// The rules of a route for the data plane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BuiltRules {
    pub(crate) rules: Arc<RouteRules>,
    /// The HTTP route.
    pub(crate) route: Arc<model::Route>,
    /// Cost of the route's regular expressions.
    pub(crate) match_costs: Arc<[MatchCost]>,
}

/// Rejected matches of a host, by route.
pub(crate) type OverBudget = BTreeMap<ObjectRef, OverBudgetRoute>;

/// Rejected matches of a route in a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OverBudgetRoute {
    pub(crate) refused: Vec<RejectedMatch>,
    /// Whether no rule of the route is left in the host.
    pub(crate) nothing_left: bool,
}

/// The route tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteTables {
    /// Listener hosts of each table.
    pub(crate) listeners: OrdMap<Arc<str>, OrdSet<HostPattern>>,
    /// Non-HTTP tables.
    pub(crate) streams: OrdSet<Arc<str>>,
    /// Routes of each host.
    pub(crate) hosts: ReverseIndex<HostKey, Arc<Contribution>>,
    /// Rejected matches of each host.
    pub(crate) over_budget: OrdMap<HostKey, Arc<OverBudget>>,
}

impl RouteByAge {
    /// Its object reference.
    pub(crate) fn reference(&self) -> ObjectRef {
        ObjectRef::new(self.kind, self.key.clone())
    }
}

impl BuiltRules {
    /// The stream route for a key.
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
            snapshot: ObjectSnapshot::default(),
            naming: Naming::new(controller),
            listening: ListenerState::default(),
            tls_policies: TlsPolicies::default(),
            own_policies: AttachedPolicies::default(),
            routes: RouteState::default(),
            tables: RouteTables::default(),
            translation: GatewayTranslation::default(),
        }
    }
}
