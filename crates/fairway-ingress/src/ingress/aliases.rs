//! Alias names of a host: those of `server-alias`, and its `www.` counterpart (`from-to-www-redirect`). A name for
//! which Ingresses have rules belongs to them, however old they are, unless hosts have owners: then the namespace of
//! the oldest Ingress with the name owns it, whether by a rule or by an alias.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    Action, CertificateKey, FixedResponse, FixedResponseReason, Guard, HostKey, HostPattern, Match, PathForm,
    Phases, Policy, Redirect, RedirectTarget, Route, Rule, RuleLabels, RuleOrder, VirtualHost, WildcardSpan,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::ownership::HostIngresses;
use crate::ingress::served::ServedIngress;
use crate::listeners::ingress_table;

/// How requests for an alias are handled. In the order in which nginx would list the servers: if two hosts request a
/// name, the one that redirects it gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AliasKind {
    /// They are redirected to the host.
    Redirected,
    /// They are served like the host's own.
    Alias,
}

/// The aliases of a host and how requests for them are handled.
pub(crate) type AliasNames = BTreeSet<(AliasKind, HostPattern)>;

impl AliasKind {
    /// The annotation that requests it.
    fn annotation(self) -> &'static str {
        match self {
            Self::Redirected => "from-to-www-redirect",
            Self::Alias => "server-alias",
        }
    }

    /// The Ingress that requests it: the oldest that decides about the host.
    pub(crate) fn requesting_ingress(self, serving: &HostIngresses) -> Option<&Arc<ServedIngress>> {
        serving.deciding_ingresses().find(|ingress| match self {
            Self::Redirected => ingress.contributions.host.www,
            Self::Alias => !ingress.contributions.host.aliases.is_empty(),
        })
    }

    /// Why a host does not get an alias, and who has it.
    pub(crate) fn refusal(
        self,
        name: &HostPattern,
        holder: &str,
        asking: &ServedIngress,
        annotations_prefix: &str,
    ) -> Diagnostic {
        let field = format!("metadata.annotations[\"{annotations_prefix}/{}\"]", self.annotation());
        let found = Diagnostic::new(Severity::Warning, "name-taken", asking.origin(&field));
        found.because(format!("{name} {holder}"), "requests for it are not served by this host")
    }
}

/// The aliases of a host.
pub(crate) fn names(host: &HostPattern, serving: &HostIngresses) -> AliasNames {
    let other = AliasKind::Redirected.requesting_ingress(serving).and_then(|_| www_counterpart(host));
    let asking = AliasKind::Alias.requesting_ingress(serving).into_iter();
    let aliases = asking.flat_map(|it| it.contributions.host.aliases.iter().cloned());
    let aliases = aliases.filter(|alias| one_label(alias) != *host).map(|alias| (AliasKind::Alias, alias));
    aliases.chain(other.map(|other| (AliasKind::Redirected, other))).collect()
}

/// The names that an Ingress claims in addition to its hosts, whether or not it gets them.
pub(crate) fn claimed_names(ingress: &ServedIngress) -> BTreeSet<HostPattern> {
    let contributed = &ingress.contributions.host;
    let hosts = ingress.hosts();
    if ingress.canary().is_some() || hosts.is_empty() {
        return BTreeSet::new();
    }
    let others = hosts.iter().filter(|_| contributed.www).filter_map(www_counterpart);
    others.chain(contributed.aliases.iter().cloned()).collect()
}

/// `www.a` of `a`, and `a` of `www.a`.
fn www_counterpart(host: &HostPattern) -> Option<HostPattern> {
    let HostPattern::Exact(name) = host else { return None };
    let other = name.strip_prefix("www.").map_or_else(|| format!("www.{name}"), str::to_owned);
    HostPattern::parse(&other, WildcardSpan::OneLabel).ok()
}

/// The name in the form of a rule's host, in which the star covers one label.
pub(crate) fn one_label(name: &HostPattern) -> HostPattern {
    match name {
        HostPattern::Wildcard { suffix, .. } => {
            HostPattern::Wildcard { suffix: suffix.clone(), span: WildcardSpan::OneLabel }
        }
        other => other.clone(),
    }
}

/// The host `name`, which only redirects to `main`, as `asking` requests.
pub(crate) fn redirecting_host(
    name: &HostPattern,
    main: &HostPattern,
    asking: &ServedIngress,
    status: u16,
    policy: Policy,
    certificate: Option<CertificateKey>,
) -> VirtualHost {
    let target = RedirectTarget::Host(main.to_string().into());
    let labels = RuleLabels {
        namespace: asking.key.namespace.clone(),
        ingress: asking.key.name.clone(),
        path: "/".into(),
        ..RuleLabels::default()
    };
    let rule = Rule {
        origin: asking.origin(""),
        matches: vec![Match::default()],
        phases: Phases::from(Guard::Redirect(Redirect { status, target })).shared(),
        action: Action::FixedResponse(FixedResponse { status: 404, reason: FixedResponseReason::NoRoute }),
        policy: Arc::new(policy),
        labels,
    };
    let route =
        Route { origin: asking.origin(""), created: asking.created, hostname_rank: 0, rules: vec![rule] };
    VirtualHost {
        key: HostKey { table: ingress_table(), host: name.clone() },
        order: RuleOrder::Precedence,
        path_form: PathForm::Decoded,
        routes: vec![Arc::new(route)],
        certificate,
        clients: None,
        suites: None,
        falls_through: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_www_name_are_counterparts() {
        let other = |text: &str| {
            let host = HostPattern::parse(text, WildcardSpan::OneLabel).unwrap();
            www_counterpart(&host).map(|other| other.to_string())
        };
        assert_eq!(other("a.test"), Some("www.a.test".into()));
        assert_eq!(other("www.a.test"), Some("a.test".into()));
        assert_eq!((other("*.a.test"), other("")), (None, None));
    }
}
