//! Host names of listeners and routes: coverage and intersection (Gateway API `Hostname`).

use std::collections::BTreeSet;

use fairway_model::{HostPattern, WildcardSpan};
use imbl::OrdSet;

/// Parses a host name; `None` as input is every name. Returns `None` for an invalid name.
pub(crate) fn read(text: Option<&str>) -> Option<HostPattern> {
    HostPattern::parse(text.unwrap_or_default(), WildcardSpan::ManyLabels).ok()
}

/// Whether `wide` covers every name that `narrow` covers.
pub(crate) fn covers(wide: &HostPattern, narrow: &HostPattern) -> bool {
    match (wide, narrow) {
        (HostPattern::Any, _) => true,
        (HostPattern::Wildcard { .. }, HostPattern::Exact(name)) => wide.covers(name),
        (HostPattern::Wildcard { suffix: wide, .. }, HostPattern::Wildcard { suffix, .. }) => {
            wide == suffix || suffix.strip_suffix(&**wide).is_some_and(|rest| rest.ends_with('.'))
        }
        (wide, narrow) => wide == narrow,
    }
}

/// Specificity: exact names over wildcards, and longer over shorter ones.
pub(crate) type Specificity = (u8, usize);

/// The specificity of a name.
pub(crate) fn specificity(host: &HostPattern) -> Specificity {
    match host {
        HostPattern::Exact(name) => (2, name.len()),
        HostPattern::Wildcard { suffix, .. } => (1, suffix.len()),
        HostPattern::Any => (0, 0),
    }
}

/// The names that both cover; this is always one of them, or nothing.
pub(crate) fn intersection(a: &HostPattern, b: &HostPattern) -> Option<HostPattern> {
    if covers(a, b) {
        Some(b.clone())
    } else if covers(b, a) {
        Some(a.clone())
    } else {
        None
    }
}

/// The names of a route at a listener, each once: their intersections, or the listener's if the route has none.
pub(crate) fn intersections(listener: &HostPattern, route: &[HostPattern]) -> Box<[HostPattern]> {
    if route.is_empty() {
        return [listener.clone()].into();
    }
    let common: BTreeSet<_> = route.iter().filter_map(|host| intersection(listener, host)).collect();
    common.into_iter().collect()
}

/// The `hosts` that cover `host`, the most specific first.
pub(crate) fn covering<'h>(
    hosts: &'h OrdSet<HostPattern>,
    host: &'h HostPattern,
) -> impl Iterator<Item = &'h HostPattern> {
    let (name, from) = match host {
        HostPattern::Any => ("", None),
        HostPattern::Exact(name) => (&**name, None),
        HostPattern::Wildcard { suffix, .. } => (&**suffix, Some(&**suffix)),
    };
    let below = name.match_indices('.').map(move |(dot, _)| &name[dot + 1..]);
    let wildcards = from
        .into_iter()
        .chain(below)
        .map(|suffix| HostPattern::Wildcard { suffix: suffix.into(), span: WildcardSpan::ManyLabels });
    let exact = matches!(host, HostPattern::Exact(_)).then(|| host.clone());
    exact.into_iter().chain(wildcards).chain([HostPattern::Any]).filter_map(|it| hosts.get(&it))
}

/// The most specific of `hosts` that covers `host`.
pub(crate) fn most_specific<'h>(
    hosts: &'h OrdSet<HostPattern>,
    host: &'h HostPattern,
) -> Option<&'h HostPattern> {
    covering(hosts, host).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> HostPattern {
        read(Some(text)).unwrap()
    }

    #[test]
    fn a_wildcard_covers_names_and_wildcards_below_it_but_not_its_own_suffix() {
        let wild = host("*.example.com");
        for inside in ["a.example.com", "a.b.example.com", "*.example.com", "*.b.example.com"] {
            assert!(covers(&wild, &host(inside)), "{inside}");
        }
        for outside in ["example.com", "anexample.com", "*.com", "", "*.anexample.com"] {
            assert!(!covers(&wild, &host(outside)), "{outside}");
        }
    }

    #[test]
    fn two_names_have_the_more_specific_one_in_common() {
        assert_eq!(intersection(&host("*.a.test"), &host("x.a.test")), Some(host("x.a.test")));
        assert_eq!(intersection(&host("x.a.test"), &host("*.a.test")), Some(host("x.a.test")));
        assert_eq!(intersection(&host("*.a.test"), &host("*.test")), Some(host("*.a.test")));
        assert_eq!(intersection(&host(""), &host("*.test")), Some(host("*.test")));
        assert_eq!(intersection(&host("a.test"), &host("b.test")), None);
        assert_eq!(intersections(&host("*.a.test"), &[]).len(), 1);
    }

    #[test]
    fn the_longest_wildcard_is_the_most_specific_one() {
        let hosts: OrdSet<_> = ["", "*.test", "*.a.test", "x.a.test"].map(host).into_iter().collect();
        for (asked, found) in [
            ("x.a.test", "x.a.test"),
            ("y.a.test", "*.a.test"),
            ("*.b.a.test", "*.a.test"),
            ("*.a.test", "*.a.test"),
            ("a.test", "*.test"),
            ("*.test", "*.test"),
            ("test", ""),
            ("", ""),
        ] {
            assert_eq!(most_specific(&hosts, &host(asked)), Some(&host(found)), "{asked}");
        }
        assert_eq!(most_specific(&OrdSet::unit(host("*.a.test")), &host("a.test")), None);
    }
}
