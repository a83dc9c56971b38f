//! The namespaces whose objects are shown.

use std::fmt;

use crate::args::ScopeArgs;

/// The namespaces whose objects are shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Everywhere,
    Namespace(String),
}

impl Scope {
    /// The scope of the flags. `default` is the namespace of the context, which applies without a flag.
    pub(super) fn new(args: &ScopeArgs, default: Option<&str>) -> Self {
        match (args.all_namespaces, args.namespace.as_deref().or(default)) {
            (false, Some(namespace)) => Self::Namespace(namespace.to_owned()),
            _ => Self::Everywhere,
        }
    }

    /// Whether objects of this namespace are shown.
    pub(super) fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Namespace(own) => own == namespace,
        }
    }

    /// A hint for users who miss an object.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Everywhere => "",
            Self::Namespace(_) => "; -A shows all namespaces",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everywhere => f.write_str("all namespaces"),
            Self::Namespace(namespace) => write!(f, "the namespace {namespace}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_overrides_the_context() {
        let scope = |namespace: Option<&str>, all_namespaces, default| {
            Scope::new(&ScopeArgs { namespace: namespace.map(str::to_owned), all_namespaces }, default)
        };
        let shop = Scope::Namespace("shop".to_owned());
        assert_eq!(scope(Some("shop"), false, Some("default")), shop);
        assert_eq!(scope(None, false, Some("shop")), shop);
        assert_eq!(scope(None, true, Some("shop")), Scope::Everywhere);
        assert_eq!(scope(None, false, None), Scope::Everywhere);
        assert!(shop.includes("shop") && !shop.includes("other") && !shop.includes(""));
    }
}
