//! The names that a host has besides its own: those of `server-alias`, and the other of a name and its `www.`
//! (`from-to-www-redirect`). A name that Ingresses have rules for is theirs, whoever is older, except where hosts have owners:
//! there the namespace of the oldest Ingress with the name owns it, whether it has the name by a rule or claims it here.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    Action, Answer, AnswerReason, CertificateKey, Guard, HostKey, HostPattern, Match, PathForm, Phases,
    Policy, Redirect, RedirectTarget, Route, Rule, RuleLabels, RuleOrder, VirtualHost, WildcardSpan,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::ownership::HostIngresses;
use crate::ingress::served::ServedIngress;
use crate::listeners::ingress_table;

/// What becomes of requests for a further name. In the order in which nginx would list the servers: of two hosts that want
/// a name, the one that redirects it gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Further {
    /// They are redirected to the host.
    Redirected,
    /// They are served as the host's own.
    Alias,
}

/// The further names of a host, and what becomes of requests for them.
pub(crate) type Names = BTreeSet<(Further, HostPattern)>;

impl Further {
    /// The annotation that asks for it.
    fn annotation(self) -> &'static str {
        match self {
            Self::Redirected => "from-to-www-redirect",
            Self::Alias => "server-alias",
        }
    }

    /// The Ingress that asks for it: the oldest that decides about the host.
    pub(crate) fn asking(self, serving: &HostIngresses) -> Option<&Arc<ServedIngress>> {
        serving.deciding().find(|ingress| match self {
            Self::Redirected => ingress.contributions.host.www,
            Self::Alias => !ingress.contributions.host.aliases.is_empty(),
        })
    }

    /// Why a host does not get a name that it asks for, and what has it.
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

/// The further names of a host.
pub(crate) fn names(host: &HostPattern, serving: &HostIngresses) -> Names {
    let other = Further::Redirected.asking(serving).and_then(|_| other_of_www(host));
    let asking = Further::Alias.asking(serving).into_iter();
    let aliases = asking.flat_map(|it| it.contributions.host.aliases.iter().cloned());
    let aliases = aliases.filter(|alias| one_label(alias) != *host).map(|alias| (Further::Alias, alias));
    aliases.chain(other.map(|other| (Further::Redirected, other))).collect()
}

/// The names that an Ingress claims besides its hosts, whether or not it gets them.
pub(crate) fn claims(ingress: &ServedIngress) -> BTreeSet<HostPattern> {
    let asked = &ingress.contributions.host;
    let hosts = ingress.hosts();
    if ingress.canary().is_some() || hosts.is_empty() {
        return BTreeSet::new();
    }
    let others = hosts.iter().filter(|_| asked.www).filter_map(other_of_www);
    others.chain(asked.aliases.iter().cloned()).collect()
}

/// `www.a` of `a`, and `a` of `www.a`.
fn other_of_www(host: &HostPattern) -> Option<HostPattern> {
    let HostPattern::Exact(name) = host else { return None };
    let other = name.strip_prefix("www.").map_or_else(|| format!("www.{name}"), str::to_owned);
    HostPattern::parse(&other, WildcardSpan::OneLabel).ok()
}

/// The name as a rule would have it: the star of a rule stands for one label.
pub(crate) fn one_label(name: &HostPattern) -> HostPattern {
    match name {
        HostPattern::Wildcard { suffix, .. } => {
            HostPattern::Wildcard { suffix: suffix.clone(), span: WildcardSpan::OneLabel }
        }
        other => other.clone(),
    }
}

/// The host `name` that only redirects to `main`, as `asking` wants it.
pub(crate) fn redirecting(
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
        phases: Phases::from(Guard::Redirect(Redirect { status, target })).kept(),
        action: Action::Answer(Answer { status: 404, reason: AnswerReason::NoRoute }),
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
    fn a_name_and_its_www_are_the_other_of_each_other() {
        let other = |text: &str| {
            let host = HostPattern::parse(text, WildcardSpan::OneLabel).unwrap();
            other_of_www(&host).map(|other| other.to_string())
        };
        assert_eq!(other("a.test"), Some("www.a.test".into()));
        assert_eq!(other("www.a.test"), Some("a.test".into()));
        assert_eq!((other("*.a.test"), other("")), (None, None));
    }
}
