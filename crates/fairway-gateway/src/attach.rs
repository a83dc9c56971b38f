//! Attaches routes to listeners: parent references and the routes that listeners allow (Gateway API
//! `ParentReference`, `AllowedRoutes`).

use std::cell::RefCell;
use std::sync::Arc;

use fairway_model::HostPattern;
use fairway_objects::gateway_api::ParentReference;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Resources;
use fairway_objects::shared::RecentValues;
use imbl::OrdMap;

use crate::condition::Fault;
use crate::gateway::{Listener, Parent};
use crate::hostname;
use crate::listener::ListenerId;
use crate::status::GATEWAY_GROUP;

thread_local! {
    /// Recently read parent references: most routes of a Gateway have equal ones.
    static RECENT_REFERENCES: RefCell<RecentValues<ParentReference>> = const { RefCell::new(RecentValues::new()) };
}

/// All Gateways and ListenerSets of this controller.
pub(crate) type Parents = OrdMap<ObjectRef, Arc<Parent>>;

/// A route attached to a listener.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attachment {
    pub(crate) listener: ListenerId,
    pub(crate) gateway: ObjectKey,
    /// The route table of the listener; `None` if it is not served.
    pub(crate) table: Option<Arc<str>>,
    /// The host of the listener.
    pub(crate) host: HostPattern,
    /// The route's hosts at the listener.
    pub(crate) hosts: Box<[HostPattern]>,
}

/// A route at one of its parents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParentAttachment {
    /// As written in the route; shared by routes with equal references.
    pub(crate) reference: Arc<ParentReference>,
    pub(crate) gateway: ObjectKey,
    /// The attachments, or why there are none.
    pub(crate) attached: Result<Vec<Attachment>, Fault>,
}

/// What attaching a route needs to know about it.
pub(crate) struct AttachableRoute<'a> {
    pub(crate) route: &'a ObjectRef,
    /// `None` if it names hosts but none is valid.
    pub(crate) hosts: Option<Vec<HostPattern>>,
    pub(crate) references: &'a [ParentReference],
}

/// The parent object of a reference; `None` if it is not a Gateway or ListenerSet.
pub(crate) fn parent_object(reference: &ParentReference, namespace: &str) -> Option<ObjectRef> {
    if reference.group.as_deref().unwrap_or(GATEWAY_GROUP) != GATEWAY_GROUP {
        return None;
    }
    let kind = match reference.kind.as_deref().unwrap_or("Gateway") {
        "Gateway" => Kind::Gateway,
        "ListenerSet" => Kind::ListenerSet,
        _ => return None,
    };
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    Some(ObjectRef::new(kind, ObjectKey::new(namespace, &reference.name)))
}

/// The hosts of a route; `None` if it names some but none is valid.
pub(crate) fn parse_hostnames(written: &[String]) -> Option<Vec<HostPattern>> {
    let read: Vec<_> = written.iter().filter_map(|host| hostname::read(Some(host))).collect();
    (written.is_empty() || !read.is_empty()).then_some(read)
}

impl AttachableRoute<'_> {
    /// Attaches the route to those of its parents that belong to this controller.
    pub(crate) fn at(&self, parents: &Parents, resources: &Resources) -> Vec<ParentAttachment> {
        let own_references = self.references.iter().filter_map(|reference| {
            let parent = parents.get(&parent_object(reference, &self.route.key.namespace)?)?;
            Some(ParentAttachment {
                reference: RECENT_REFERENCES
                    .with_borrow_mut(|recent| recent.shared(Arc::new(reference.clone()))),
                gateway: parent.gateway.clone(),
                attached: self.attach_to(reference, parent, resources),
            })
        });
        own_references.collect()
    }

    fn attach_to(
        &self,
        reference: &ParentReference,
        parent: &Parent,
        resources: &Resources,
    ) -> Result<Vec<Attachment>, Fault> {
        let named: Vec<&Listener> =
            parent.listeners.iter().filter(|it| names_listener(reference, it)).collect();
        if named.is_empty() {
            let section = reference.section_name.as_deref().map(|name| format!("the name {name}"));
            let port = reference.port.map(|port| format!("port {port}"));
            let requested = section.into_iter().chain(port).collect::<Vec<_>>().join(" and ");
            let with = if requested.is_empty() { "" } else { " with " };
            let problem = format!("{} has no listener{with}{requested}", reference.name);
            return Err(Fault::new("NoMatchingParent", problem));
        }
        let allowing: Vec<&Listener> =
            named.into_iter().filter(|listener| self.is_allowed(listener, resources)).collect();
        if allowing.is_empty() {
            let (kind, namespace) = (self.route.kind.name(), &self.route.key.namespace);
            let problem = format!("no listener takes a route of kind {kind} from namespace {namespace}");
            return Err(Fault::new("NotAllowedByListeners", problem));
        }
        let hosts = self.hosts.iter();
        let mut attached: Vec<Attachment> = hosts
            .flat_map(|hosts| allowing.iter().filter_map(|listener| attachment(listener, parent, hosts)))
            .collect();
        if attached.is_empty() {
            let problem = "no hostname of it is one of a listener that takes it";
            return Err(Fault::new("NoMatchingListenerHostname", problem));
        }
        attached.shrink_to_fit();
        Ok(attached)
    }

    fn is_allowed(&self, listener: &Listener, resources: &Resources) -> bool {
        let entry = &listener.entry;
        let owner_namespace = &entry.id.owner.key.namespace;
        entry.kinds.contains(&self.route.kind)
            && entry.allowed_namespaces.admits(&self.route.key.namespace, owner_namespace, resources)
    }
}

fn names_listener(reference: &ParentReference, listener: &Listener) -> bool {
    let section = reference.section_name.as_deref().filter(|name| !name.is_empty());
    let port = reference.port.is_none_or(|port| port == i32::from(listener.entry.port));
    port && section.is_none_or(|name| *name == *listener.entry.id.name)
}

fn attachment(listener: &Listener, parent: &Parent, route: &[HostPattern]) -> Option<Attachment> {
    let entry = &listener.entry;
    let hosts = hostname::intersections(&entry.host, route);
    let served = parent.refused.is_none() && listener.is_served();
    (!hosts.is_empty()).then(|| Attachment {
        listener: entry.id.clone(),
        gateway: parent.gateway.clone(),
        table: served.then(|| listener.table.clone()),
        host: entry.host.clone(),
        hosts,
    })
}
