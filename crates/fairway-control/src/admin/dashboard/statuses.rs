//! The status of Gateways, routes and policies.

use fairway_gateway::{Condition, ListenerStatus, ObjectStatus, OwnStatus, ParentStatus};
use fairway_objects::gateway_api::ParentReference;
use fairway_objects::kinds::{ApiResource, GATEWAY_KINDS};
use fairway_objects::object::ObjectRef;
use serde::Serialize;

use super::listing::{Paging, paginate};
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::search::Search;
use crate::pipeline::View;

/// Conditions that indicate a problem when they are true.
const PROBLEM_CONDITIONS: [&str; 4] =
    ["Conflicted", "OverlappingTLSConfig", "InsecureFrontendValidationMode", "PartiallyInvalid"];

#[derive(Serialize)]
struct Statuses<'q> {
    q: &'q str,
    kind: &'q str,
    kinds: Vec<&'static str>,
    paging: Paging,
    objects: Vec<StatusRow>,
}

#[derive(Serialize)]
struct StatusRow {
    object: ObjectLink,
    facts: Vec<String>,
    conditions: Vec<ConditionRow>,
}

#[derive(Serialize)]
struct ConditionRow {
    /// The listener, or the parent of a route; empty for the object itself.
    about: String,
    kind: &'static str,
    status: &'static str,
    is_trouble: bool,
    reason: &'static str,
    message: String,
}

/// The objects that match the parameters.
pub(super) fn page(view: &View, query: &Query) -> Result<Page, Problem> {
    let (search, kind) = (Search::from_query(query), query.value("kind"));
    let kinds = || GATEWAY_KINDS.iter().filter(|known| known.has_conditions).map(|known| known.name);
    let requested_kind = match kind {
        None => None,
        Some(name) => {
            let known = ApiResource::find_gateway_kind(name).filter(|known| known.has_conditions);
            let known = known.ok_or_else(|| {
                let known: Vec<_> = kinds().collect();
                Problem::bad_parameter("kind", format!("{name:?} is none of {}", known.join(", ")))
            })?;
            Some(known.kind)
        }
    };
    let is_wanted = |object: &ObjectRef| {
        requested_kind.is_none_or(|kind| kind == object.kind)
            && (search.is_empty() || search.finds(&mut format!("{} {}", object.kind.name(), object.key)))
    };
    let statuses = view.outcome.translation.gateway.statuses.iter();
    let (shown, paging) = paginate(statuses.filter(|(object, _)| is_wanted(object)), query)?;
    let content = Statuses {
        q: query.value("q").unwrap_or_default(),
        kind: kind.unwrap_or_default(),
        kinds: kinds().collect(),
        paging,
        objects: shown.into_iter().map(|(object, status)| row(object, status)).collect(),
    };
    Ok(Page::new("statuses.html", "gateways", "Gateways, routes and policies", content))
}

fn row(object: &ObjectRef, status: &ObjectStatus) -> StatusRow {
    let mut row = StatusRow {
        object: ObjectLink::from_name(object.kind.name(), &object.key.namespace, &object.key.name),
        facts: Vec::new(),
        conditions: Vec::new(),
    };
    match &status.own_status {
        OwnStatus::Class(class) => row.add("", &class.conditions),
        OwnStatus::Gateway(gateway) => {
            let addresses = gateway.addresses.iter().map(|it| format!("{} {}", it.kind.name(), it.value));
            row.facts.extend(addresses);
            row.add("", &gateway.conditions);
            row.add_listeners(&gateway.listeners);
        }
        OwnStatus::ListenerSet(set) => {
            row.add("", &set.conditions);
            row.add_listeners(&set.listeners);
        }
        OwnStatus::Route(parents) => row.add_parents("parent", parents),
        OwnStatus::Policy(ancestors) => row.add_parents("for", ancestors),
    }
    row
}

impl StatusRow {
    fn add(&mut self, about: &str, conditions: &[Condition]) {
        let row = |it: &Condition| ConditionRow {
            about: about.to_owned(),
            kind: it.kind,
            status: if it.holds { "True" } else { "False" },
            is_trouble: it.holds == PROBLEM_CONDITIONS.contains(&it.kind),
            reason: it.reason,
            message: it.message.to_string(),
        };
        self.conditions.extend(conditions.iter().map(row));
    }

    fn add_listeners(&mut self, listeners: &[ListenerStatus]) {
        for listener in listeners {
            self.facts.push(format!("listener {}: {} routes", listener.name, listener.attached_routes));
            self.add(&format!("listener {}", listener.name), &listener.conditions);
        }
    }

    fn add_parents(&mut self, kind: &str, parents: &[ParentStatus]) {
        for ParentStatus { parent, conditions } in parents {
            self.add(&format!("{kind} {}", parent_text(parent)), conditions);
        }
    }
}

/// A parent as its route names it.
fn parent_text(parent: &ParentReference) -> String {
    let kind = parent.kind.as_deref().unwrap_or("Gateway");
    let namespace = parent.namespace.as_ref().map(|it| format!("{it}/")).unwrap_or_default();
    let section = parent.section_name.as_ref().map(|it| format!(", listener {it}")).unwrap_or_default();
    let port = parent.port.map(|it| format!(", port {it}")).unwrap_or_default();
    format!("{kind} {namespace}{}{section}{port}", parent.name)
}
