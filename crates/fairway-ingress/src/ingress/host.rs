//! Builds the virtual host of all Ingresses of a host: rules, filters and certificate.

use std::sync::Arc;

use fairway_model::{
    HostKey, HostPattern, HostSuites, PathForm, RuleOrder, StreamRoute, SuitePreference, VirtualHost,
};
use fairway_objects::backend::BackendRef;
use fairway_objects::diagnostic::Diagnostic;

use crate::ingress::context::Context;
use crate::ingress::contributions::HostClients;
use crate::ingress::host_certificate::{HostCertificate, TlsSection, Usable};
use crate::ingress::layout::{self, Layout, Matching};
use crate::ingress::location::Location;
use crate::ingress::order::{self, LocationEntry};
use crate::ingress::ownership::{HostIngresses, decides};
use crate::ingress::passthrough;
use crate::ingress::rules::Builder;
use crate::ingress::served::ServedIngress;
use crate::ingress::shared_service::SharedServices;
use crate::ingress::sharing::SharedHost;
use crate::ingress::snippets;
use crate::ingress::values::{self, Values};
use crate::listeners::ingress_table;

/// Inputs for building a host, besides its Ingresses.
pub(crate) struct HostInputs<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) services: &'a SharedServices,
    pub(crate) certificates: Usable<'a>,
    /// The certificate of the wildcard host that covers this one.
    pub(crate) wildcard: HostCertificate,
    /// The alias under which the host is built, if any.
    pub(crate) alias: Option<&'a HostPattern>,
}

/// The result of building a host.
#[derive(Debug)]
pub(crate) struct BuiltHost {
    pub(crate) host: VirtualHost,
    /// The route for its TLS, if it is passed through.
    pub(crate) stream: Option<StreamRoute>,
    /// Its own certificate, before a wildcard host's replaces it.
    pub(crate) certificate: HostCertificate,
    pub(crate) backends: Vec<BackendRef>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Builds a host.
pub(crate) fn build(host: &HostPattern, serving: &HostIngresses, inputs: &HostInputs<'_>) -> BuiltHost {
    let mut layout = layout::layout(host, serving);
    let mut diagnostics = std::mem::take(&mut layout.diagnostics);
    let section = TlsSection::for_host(host, serving);
    let own_certificate = section.map_or(HostCertificate::None, |section| {
        section.certificate(host, inputs.certificates, &mut diagnostics)
    });
    let shown = match inputs.alias {
        Some(alias) => own_certificate.clone().for_name(alias, inputs.certificates),
        None => own_certificate.clone(),
    };
    let certificate = if shown == HostCertificate::None { inputs.wildcard.clone() } else { shown };
    // An alias is never redirected: no certificate is known for it.
    let has_certificate = *host != HostPattern::Any && certificate != HostCertificate::None;
    snippets::close_snippets_with_canaries(&mut layout, inputs.services, &inputs.context, &mut diagnostics);
    let snippet = snippets::snippet_of_host(host, serving, &layout, &inputs.context, &mut diagnostics);
    let (entries, refused) = order::entries(&layout);
    diagnostics.extend(refused);
    let root = app_root(&layout, &entries);
    let clients =
        serving.deciding_ingresses().find_map(|ingress| ingress.contributions.host.clients.as_ref());
    let mut builder =
        Builder::new(inputs.context, inputs.services, &layout, has_certificate, clients, snippet.as_ref());
    let mut routes = builder.routes(&entries, root);
    if *host == HostPattern::Any {
        routes.extend(builder.health());
    }
    let shared = SharedHost {
        host,
        layout: &layout,
        entries: &entries,
        root,
        tls: section
            .filter(|_| has_certificate && inputs.wildcard == HostCertificate::None)
            .map(|section| section.ingress),
        annotations_prefix: &inputs.context.inputs.options.annotations_prefix,
    };
    diagnostics.extend(shared.describe());
    let stream = match inputs.alias {
        Some(_) => None,
        None => passthrough::stream(host, serving, &layout, &mut builder),
    };
    diagnostics.append(&mut builder.diagnostics);
    let host = VirtualHost {
        key: HostKey { table: ingress_table(), host: inputs.alias.unwrap_or(host).clone() },
        order: match layout.matching {
            Matching::Text => RuleOrder::Precedence,
            Matching::Patterns => RuleOrder::Listed,
        },
        path_form: PathForm::Decoded,
        routes,
        certificate: certificate.key(),
        clients: clients.and_then(HostClients::rules).cloned(),
        suites: suites(serving, &inputs.context.defaults.values),
        falls_through: false,
    };
    BuiltHost { host, stream, certificate: own_certificate, backends: builder.backends, diagnostics }
}

/// The cipher suites of the oldest Ingress that sets them, else of the settings. The preference is that of the oldest
/// Ingress that sets it.
fn suites(serving: &HostIngresses, defaults: &Values) -> Option<HostSuites> {
    let hosts = || serving.deciding_ingresses().map(|ingress| &ingress.contributions.host);
    let named = hosts().map(|host| &host.suites).find(|suites| !suites.is_empty());
    let offered = named.cloned().or_else(|| defaults.get("ssl-ciphers", values::ciphers));
    let chosen_by = hosts().find_map(|host| host.suite_chosen_by);
    (offered.is_some() || chosen_by.is_some()).then(|| HostSuites {
        offered: offered.unwrap_or_default(),
        chosen_by: chosen_by.unwrap_or(SuitePreference::Server),
    })
}

/// The location whose Ingress redirects `/` to `app-root`: the first in nginx's order, among those that decide about
/// the host.
fn app_root<'a>(layout: &'a Layout, entries: &[LocationEntry]) -> Option<&'a Location> {
    let order = entries.iter().map(|entry| &layout.locations[entry.location]);
    let may = |owner: &Arc<ServedIngress>| decides(layout.host_owner.as_ref(), owner);
    let redirects = |location: &&Location| {
        let owner = location.owner.as_ref();
        let asks = owner.is_some_and(|it| it.contributions.app_root.is_some() && may(it));
        location.closed().is_none() && asks
    };
    order.into_iter().find(redirects)
}
