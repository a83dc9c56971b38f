//! Which controller the metrics are of: the labels that all metrics of ingress-nginx have.

use crate::exposition::{escaped, single};

/// Which controller, which pod, which build.
#[derive(Clone, Debug)]
pub struct Identity {
    class: String,
    labels: String,
    revision: String,
}

impl Identity {
    /// Of the pod `pod` in `namespace`, each empty where it is not known, which serves the IngressClasses of the
    /// controller `class`. `revision` names the sources that it was built from.
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

    /// The labels as they are written between braces.
    #[must_use]
    pub fn labels(&self) -> &str {
        &self.labels
    }

    /// The controller, as the value of a label.
    pub(super) fn class(&self) -> &str {
        &self.class
    }

    /// The metric that tells what was built.
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
