//! The labels that all metrics of ingress-nginx carry.

use crate::exposition::{escaped, single};

/// The controller, pod and build.
#[derive(Clone, Debug)]
pub struct Identity {
    class: String,
    labels: String,
    revision: String,
}

impl Identity {
    /// For the pod `pod` in `namespace`, each empty if unknown, which serves the IngressClasses of the controller `class`.
    /// `revision` names the sources of the build.
    #[must_use]
    pub fn new(class: &str, namespace: &str, pod: &str, revision: &str) -> Self {
        let class = escaped(class);
        let labels = format!(
            "controller_class=\"{class}\",controller_namespace=\"{}\",controller_pod=\"{}\"",
            escaped(namespace),
            escaped(pod)
        );
        Self { class, labels, revision: escaped(revision) }
    }

    /// The labels between the braces.
    #[must_use]
    pub fn labels(&self) -> &str {
        &self.labels
    }

    /// The controller as a label value.
    pub(super) fn class(&self) -> &str {
        &self.class
    }

    /// The metric that describes the build.
    pub(super) fn build(&self) -> String {
        let Self { labels, revision, .. } = self;
        let release = env!("CARGO_PKG_VERSION");
        let labels = format!("{labels},release=\"{release}\",build=\"{revision}\",repository=\"\"");
        let mut out = String::new();
        let name = "nginx_ingress_controller_build_info";
        single(&mut out, name, "gauge", "1; the labels name the build.", &labels, 1);
        out
    }
}
