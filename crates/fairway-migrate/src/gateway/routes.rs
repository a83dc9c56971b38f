//! Builds HTTPRoutes and GRPCRoutes from the rules of Ingresses: one per Ingress, and more if its hosts or their ports have
//! different rules or exceed the limits of a route.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::HostPattern;
use fairway_objects::gateway_api::{
    GrpcBackendRef, GrpcMethodMatch, GrpcRoute, GrpcRouteFilter, GrpcRouteMatch, GrpcRouteRule,
    GrpcRouteSpec, HttpBackendRef, HttpRoute, HttpRouteFilter, HttpRouteMatch, HttpRouteRule, HttpRouteSpec,
    LocalObjectReference, ParentReference, PolicyTargetReference,
};
use fairway_objects::kinds::GROUP;
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::{RouteFilter, RouteFilterSpec, SecurityPolicy, SecurityPolicySpec};
use k8s_openapi::Resource;

use crate::gateway::drafts::{Draft, Drafts};
use crate::gateway::filters;
use crate::gateway::naming::{self, Names};
use crate::gateway::object::{self, WrittenObject};
use crate::gateway::own_filter::has_headers_only;
use crate::gateway::remark::{Remark, Remarks};

/// Gateway API `HTTPRouteSpec.hostnames` and `HTTPRouteSpec.rules`.
const MAX_HOSTS: usize = 16;
const MAX_RULES: usize = 16;
/// Maximum number of targets of a SecurityPolicy.
const MAX_TARGETS: usize = 16;

const PROTOCOL_ANNOTATIONS: &[&str] = &["backend-protocol"];

/// The rules of each host, by Ingress.
pub(crate) type RulesByHost = BTreeMap<HostPattern, BTreeMap<ObjectKey, Drafts>>;

/// The plain and TLS listeners that the routes of a host attach to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attachment {
    pub(crate) http: Option<ParentReference>,
    pub(crate) https: Option<ParentReference>,
}

/// Hosts with the same rules and listeners.
#[derive(Clone, Debug)]
struct Block {
    hosts: Vec<HostPattern>,
    parents: Vec<ParentReference>,
    drafts: Vec<Draft>,
    /// The suffix of the route's name after the name of the Ingress.
    suffix: &'static str,
}

/// The routes, and which of them belong to each Ingress.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(crate) written: Vec<(ObjectKey, WrittenObject)>,
    pub(crate) by_ingress: BTreeMap<ObjectKey, Vec<String>>,
    pub(crate) filters: OwnFilters,
    pub(crate) protections: Protections,
}

/// The policies that protect rules. Identical policies of an Ingress are merged, so that its limits count together.
#[derive(Debug, Default)]
pub(crate) struct Protections(Vec<(ObjectKey, SecurityPolicySpec)>);

impl Protections {
    /// Protects the rules of a route: the whole route if all rules have the same protection, otherwise each protected rule by its
    /// name.
    fn attach(&mut self, ingress: &ObjectKey, kind: &str, route: &ObjectKey, drafts: &mut [Draft]) {
        let target = |section_name: Option<String>| PolicyTargetReference {
            group: GROUP.to_owned(),
            kind: kind.to_owned(),
            name: route.name.to_string(),
            section_name,
        };
        let first = drafts.first().and_then(|draft| draft.protection.clone());
        if drafts.iter().all(|draft| draft.protection == first) {
            return first.into_iter().for_each(|spec| self.add(ingress, spec, target(None)));
        }
        for (index, draft) in drafts.iter_mut().enumerate() {
            let Some(spec) = draft.protection.take() else { continue };
            let name = format!("rule-{index}");
            draft.rule.name = Some(name.clone());
            self.add(ingress, spec, target(Some(name)));
        }
    }

    fn add(&mut self, ingress: &ObjectKey, spec: SecurityPolicySpec, target: PolicyTargetReference) {
        let says_same = |policy: &&mut (ObjectKey, SecurityPolicySpec)| {
            let own_policy = SecurityPolicySpec { target_refs: Vec::new(), ..policy.1.clone() };
            policy.0 == *ingress && own_policy == spec && policy.1.target_refs.len() < MAX_TARGETS
        };
        match self.0.iter_mut().find(says_same) {
            Some((_, known)) => known.target_refs.push(target),
            None => self.0.push((ingress.clone(), SecurityPolicySpec { target_refs: vec![target], ..spec })),
        }
    }

    /// The policies as objects.
    pub(crate) fn written(&self) -> Vec<WrittenObject> {
        let mut names = Names::default();
        let mut write = |(ingress, spec): &(ObjectKey, SecurityPolicySpec)| {
            let key =
                object_key(&ingress.namespace, &names.claim_free_name(&ingress.namespace, &ingress.name));
            object::write_object::<SecurityPolicy>(&key, spec, object::about_own_crd())
        };
        self.0.iter().map(&mut write).collect()
    }
}

/// The HTTPRouteFilters of rules. Rules with identical filters share one object.
#[derive(Debug, Default)]
pub(crate) struct OwnFilters {
    pub(crate) written: Vec<WrittenObject>,
    names: Names,
    known_filters: Vec<(ObjectKey, RouteFilterSpec)>,
}

impl OwnFilters {
    /// The draft with a reference to its filter.
    fn name_filter(&mut self, ingress: &ObjectKey, draft: &Draft) -> Draft {
        let mut draft = draft.clone();
        if let Some(spec) = draft.filter.take() {
            let reference = LocalObjectReference {
                group: RouteFilter::GROUP.to_owned(),
                kind: RouteFilter::KIND.to_owned(),
                name: self.filter_key(ingress, spec).name.to_string(),
            };
            let filter = filters::filter_of_kind("ExtensionRef");
            draft.rule.filters.push(HttpRouteFilter { extension_ref: Some(reference), ..filter });
        }
        draft
    }

    fn filter_key(&mut self, ingress: &ObjectKey, spec: RouteFilterSpec) -> ObjectKey {
        let is_known = |(key, known): &&(ObjectKey, RouteFilterSpec)| {
            key.namespace == ingress.namespace && *known == spec
        };
        if let Some((key, _)) = self.known_filters.iter().find(is_known) {
            return key.clone();
        }
        let key =
            object_key(&ingress.namespace, &self.names.claim_free_name(&ingress.namespace, &ingress.name));
        self.written.push(object::write_object::<RouteFilter>(&key, &spec, object::about_own_crd()));
        self.known_filters.push((key.clone(), spec));
        key
    }
}

/// Builds the routes of all Ingresses.
pub(crate) fn routes(
    hosts: &RulesByHost,
    attached: &BTreeMap<HostPattern, Attachment>,
    names: &mut Names,
    remarks: &mut Remarks,
) -> Routes {
    let mut routes = Routes::default();
    let grpc = grpc_hosts(hosts);
    let ingresses: BTreeSet<&ObjectKey> = hosts.values().flat_map(BTreeMap::keys).collect();
    for ingress in ingresses {
        for block in blocks(ingress, hosts, attached) {
            let speaks_grpc =
                block.hosts.iter().all(|host| grpc.contains(host)) && !block.drafts.iter().all(is_redirect);
            if !speaks_grpc {
                report_mixed_grpc(ingress, &block.drafts, remarks);
            }
            for part in block.drafts.chunks(MAX_RULES) {
                let preferred = format!("{}{}", ingress.name, block.suffix);
                let key =
                    object_key(&ingress.namespace, &names.claim_free_name(&ingress.namespace, &preferred));
                let mut part: Vec<_> =
                    part.iter().map(|draft| routes.filters.name_filter(ingress, draft)).collect();
                let kind = if speaks_grpc { "GRPCRoute" } else { "HTTPRoute" };
                let is_protected = part.iter().any(|draft| draft.protection.is_some());
                routes.protections.attach(ingress, kind, &key, &mut part);
                let mut written = match speaks_grpc {
                    true => grpc_route(&key, &block, &part),
                    false => http_route(&key, &block, &part),
                };
                if is_protected {
                    let remark = "SecurityPolicies protect it: apply it only where their CRD is installed";
                    written.about.push(remark.to_owned());
                }
                routes.by_ingress.entry(ingress.clone()).or_default().push(format!("{kind} {key}"));
                routes.written.push((ingress.clone(), written));
            }
        }
    }
    routes
}

fn object_key(namespace: &Arc<str>, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.clone(), name: name.into() }
}

/// The rules of an Ingress, with hosts that have the same rules grouped.
fn blocks(
    ingress: &ObjectKey,
    hosts: &RulesByHost,
    attached: &BTreeMap<HostPattern, Attachment>,
) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (host, drafts_by_ingress) in hosts {
        let (Some(drafts), Some(attachment)) = (drafts_by_ingress.get(ingress), attached.get(host)) else {
            continue;
        };
        let Attachment { http, https } = attachment.clone();
        if drafts.http == drafts.https {
            let parents = http.into_iter().chain(https).collect();
            add(&mut blocks, host, parents, "", &drafts.http);
            continue;
        }
        let plain = if https.is_some() { "-http" } else { "" };
        add(&mut blocks, host, http.into_iter().collect(), plain, &drafts.http);
        add(&mut blocks, host, https.into_iter().collect(), "", &drafts.https);
    }
    // Routes that serve requests come before those that redirect to them.
    blocks.sort_by_key(|block| block.suffix.len());
    blocks
}

fn add(
    blocks: &mut Vec<Block>,
    host: &HostPattern,
    parents: Vec<ParentReference>,
    suffix: &'static str,
    drafts: &[Draft],
) {
    if drafts.is_empty() || parents.is_empty() {
        return;
    }
    let every = |host: &HostPattern| *host == HostPattern::Any;
    let fits = |block: &&mut Block| {
        block.suffix == suffix
            && block.drafts == drafts
            && block.hosts.len() < MAX_HOSTS
            && !every(host)
            && !block.hosts.iter().any(every)
    };
    match blocks.iter_mut().find(fits) {
        Some(block) => {
            block.hosts.push(host.clone());
            let new: Vec<_> = parents.into_iter().filter(|parent| !block.parents.contains(parent)).collect();
            block.parents.extend(new);
        }
        None => blocks.push(Block { hosts: vec![host.clone()], parents, drafts: drafts.to_vec(), suffix }),
    }
}

/// Hosts that GRPCRoutes can express completely. GRPCRoutes cannot share a host with HTTPRoutes.
fn grpc_hosts(hosts: &RulesByHost) -> BTreeSet<HostPattern> {
    let fits = |draft: &Draft| {
        let speaks_grpc = draft.grpc || draft.closed.is_some();
        speaks_grpc && draft.filter.as_ref().is_none_or(has_headers_only) && grpc_rule(&draft.rule).is_some()
    };
    let side_fits = |drafts: &[&Draft]| {
        drafts.iter().all(|draft| is_redirect(draft)) || drafts.iter().all(|draft| fits(draft))
    };
    let of_grpc = |drafts_by_route: &BTreeMap<ObjectKey, Drafts>| {
        let [http, https]: [Vec<&Draft>; 2] = [
            drafts_by_route.values().flat_map(|drafts| &drafts.http).collect(),
            drafts_by_route.values().flat_map(|drafts| &drafts.https).collect(),
        ];
        http.iter().chain(&https).any(|draft| draft.grpc) && side_fits(&http) && side_fits(&https)
    };
    hosts.iter().filter(|(_, drafts)| of_grpc(drafts)).map(|(host, _)| host.clone()).collect()
}

fn is_redirect(draft: &Draft) -> bool {
    draft.rule.filters.iter().any(|filter| filter.request_redirect.is_some())
}

/// Adds a remark for gRPC backends of an HTTPRoute, whose Service needs an appProtocol.
fn report_mixed_grpc(ingress: &ObjectKey, drafts: &[Draft], remarks: &mut Remarks) {
    for backend in drafts.iter().filter(|draft| draft.grpc).flat_map(|draft| &draft.rule.backend_refs) {
        let remark = format!(
            "port {} of Service {}/{} needs appProtocol: kubernetes.io/h2c: the paths of this host do not fit a GRPCRoute",
            backend.port.unwrap_or_default(),
            ingress.namespace,
            backend.name
        );
        remarks.add(ingress, Remark::differs(PROTOCOL_ANNOTATIONS, remark));
    }
}

fn http_route(key: &ObjectKey, block: &Block, drafts: &[Draft]) -> WrittenObject {
    let spec = HttpRouteSpec {
        hostnames: block.hosts.iter().filter_map(naming::hostname).collect(),
        parent_refs: block.parents.clone(),
        rules: drafts.iter().map(|draft| draft.rule.clone()).collect(),
        ..HttpRouteSpec::default()
    };
    object::write_object::<HttpRoute>(key, &spec, comments_on_closed(drafts))
}

fn grpc_route(key: &ObjectKey, block: &Block, drafts: &[Draft]) -> WrittenObject {
    let spec = GrpcRouteSpec {
        hostnames: block.hosts.iter().filter_map(naming::hostname).collect(),
        parent_refs: block.parents.clone(),
        rules: drafts.iter().filter_map(|draft| grpc_rule(&draft.rule)).collect(),
        ..GrpcRouteSpec::default()
    };
    object::write_object::<GrpcRoute>(key, &spec, comments_on_closed(drafts))
}

/// The comment on closed rules.
fn comments_on_closed(drafts: &[Draft]) -> Vec<String> {
    let closed = drafts.iter().enumerate().filter_map(|(index, draft)| Some((index, draft.closed.as_ref()?)));
    closed.map(|(index, why)| format!("spec.rules[{index}] is closed and returns 500: {why}")).collect()
}

/// Converts the rule to a rule of a GRPCRoute; `None` if its matches or filters do not exist there.
fn grpc_rule(rule: &HttpRouteRule) -> Option<GrpcRouteRule> {
    if rule.retry.is_some() {
        return None;
    }
    let matches = rule.matches.iter().map(grpc_match).collect::<Option<Vec<_>>>()?;
    let everything = matches.iter().any(|route_match| *route_match == GrpcRouteMatch::default());
    Some(GrpcRouteRule {
        matches: if everything { Vec::new() } else { matches },
        filters: rule.filters.iter().map(grpc_filter).collect::<Option<_>>()?,
        backend_refs: rule.backend_refs.iter().map(grpc_backend).collect(),
        name: rule.name.clone(),
        ..GrpcRouteRule::default()
    })
}

/// Converts a path: `/` is every call, `/shop.Cart` a service, `/shop.Cart/Add` a method.
fn grpc_match(route_match: &HttpRouteMatch) -> Option<GrpcRouteMatch> {
    if route_match.method.is_some() || !route_match.query_params.is_empty() {
        return None;
    }
    let path = route_match.path.as_ref()?;
    let elements: Vec<&str> = path.value.as_deref()?.trim_start_matches('/').split('/').collect();
    let method = match (path.type_.as_deref(), &*elements) {
        (Some("PathPrefix"), [""]) => None,
        (Some("PathPrefix"), [service]) => Some(((*service).to_owned(), None)),
        (Some("Exact"), [service, method]) => Some(((*service).to_owned(), Some((*method).to_owned()))),
        _ => return None,
    };
    let method =
        method.map(|(service, method)| GrpcMethodMatch { service: Some(service), method, type_: None });
    Some(GrpcRouteMatch { method, headers: route_match.headers.clone() })
}

fn grpc_filter(filter: &HttpRouteFilter) -> Option<GrpcRouteFilter> {
    let known = ["RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror", "ExtensionRef"];
    known.contains(&&*filter.type_).then(|| GrpcRouteFilter {
        type_: filter.type_.clone(),
        request_header_modifier: filter.request_header_modifier.clone(),
        response_header_modifier: filter.response_header_modifier.clone(),
        request_mirror: filter.request_mirror.clone(),
        extension_ref: filter.extension_ref.clone(),
    })
}

fn grpc_backend(backend: &HttpBackendRef) -> GrpcBackendRef {
    GrpcBackendRef {
        name: backend.name.clone(),
        port: backend.port,
        weight: backend.weight,
        ..GrpcBackendRef::default()
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::gateway_api::TypedValue;

    use super::*;

    #[test]
    fn grpc_paths_become_services_and_methods() {
        let converted = |kind: &str, value: &str| {
            let path = TypedValue { type_: Some(kind.into()), value: Some(value.into()) };
            let found = grpc_match(&HttpRouteMatch { path: Some(path), ..HttpRouteMatch::default() })?;
            Some(found.method.map(|it| (it.service.unwrap(), it.method)))
        };
        assert_eq!(converted("PathPrefix", "/"), Some(None));
        assert_eq!(converted("PathPrefix", "/shop.Cart"), Some(Some(("shop.Cart".into(), None))));
        assert_eq!(
            converted("Exact", "/shop.Cart/Add"),
            Some(Some(("shop.Cart".into(), Some("Add".into()))))
        );
        for (kind, value) in [("Exact", "/"), ("PathPrefix", "/a/b"), ("RegularExpression", "/a")] {
            assert_eq!(converted(kind, value), None, "{kind} {value}");
        }
    }
}
