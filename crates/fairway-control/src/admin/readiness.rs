//! Whether the process is ready for traffic, and if not, why.

use std::fmt;

use crate::pipeline::Freshness;

/// The response of `/readyz` and `/servingz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The first configuration is being read; what it waits for, if the source reports that.
    Loading(Option<String>),
    /// The first configuration is not yet adopted by every worker.
    Adopting {
        /// The published version.
        published: u64,
        /// The oldest version that a worker has.
        adopted: u64,
    },
    /// Every worker serves a configuration.
    Ready {
        /// The version that every worker has.
        adopted: u64,
        /// Where it came from.
        freshness: Freshness,
    },
    /// New requests are refused for lack of memory, and have been for 10 s longer than the load explains.
    OutOfMemory,
    /// The process is about to end.
    Draining {
        /// Kubernetes deletes its pod, and so sends it no new connections whatever its probe reports.
        pod_is_deleted: bool,
    },
}

impl Readiness {
    /// From the published version and its freshness, if any, and the version that every worker has (0 for none).
    #[must_use]
    pub fn from_versions(published: Option<(u64, Freshness)>, adopted: u64) -> Self {
        match published {
            Some((_, freshness)) if adopted > 0 => Self::Ready { adopted, freshness },
            Some((published, _)) => Self::Adopting { published, adopted },
            None => Self::Loading(None),
        }
    }

    /// Whether the process is ready for traffic.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }

    /// The condition `serving` of an endpoint in a Kubernetes EndpointSlice: the process is ready, or its pod is being deleted
    /// and it finishes its connections. kube-proxy drops the UDP flows of endpoints that are not serving, and with them the
    /// HTTP/3 connections that drain. A container that stops in a pod that stays is not serving: nothing else would keep new
    /// connections away.
    #[must_use]
    pub(crate) fn is_serving(&self) -> bool {
        self.is_ready() || matches!(self, Self::Draining { pod_is_deleted: true })
    }
}

/// When `/healthz` returns 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healthz {
    /// While the process runs.
    Alive,
    /// From the first served configuration until shutdown, like ingress-nginx, whose manifests use it for liveness and readiness.
    /// Problems that a restart would not fix do not change it.
    Serving,
}

impl Healthz {
    /// Whether the response is 200.
    #[must_use]
    pub(crate) fn is_healthy(self, readiness: &Readiness) -> bool {
        match self {
            Self::Alive => true,
            Self::Serving => matches!(readiness, Readiness::Ready { .. } | Readiness::OutOfMemory),
        }
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loading(None) => f.write_str("not ready: the first configuration is being read"),
            Self::Loading(Some(waiting)) => {
                write!(f, "not ready: the first configuration is being read: {waiting}")
            }
            Self::Adopting { published, .. } => {
                write!(f, "not ready: configuration {published} is not yet adopted by every worker")
            }
            Self::Ready { adopted, freshness: Freshness::Current } => {
                write!(f, "ready: every worker serves configuration {adopted} or a newer one")
            }
            Self::Ready { freshness: Freshness::Stale, .. } => f.write_str(
                "ready, stale: every worker serves the last good configuration of an earlier process; the API has not answered since the start",
            ),
            Self::OutOfMemory => f.write_str(
                "not ready: above the memory budget for 10 s without a load that explains it",
            ),
            Self::Draining { pod_is_deleted: false } => f.write_str("not ready: draining"),
            Self::Draining { pod_is_deleted: true } => f.write_str("not ready: draining, as the pod is deleted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_once_every_worker_has_a_configuration() {
        assert_eq!(Readiness::from_versions(None, 0), Readiness::Loading(None));
        assert!(!Readiness::from_versions(Some((1, Freshness::Current)), 0).is_ready());
        assert!(Readiness::from_versions(Some((9, Freshness::Current)), 8).is_ready());
        let stale = Readiness::from_versions(Some((1, Freshness::Stale)), 1);
        assert!(stale.is_ready() && stale.to_string().contains("stale"));
        assert!(!Readiness::OutOfMemory.is_ready());
        assert!(!Readiness::Draining { pod_is_deleted: true }.is_ready());
    }

    #[test]
    fn is_serving_during_a_drain_only_in_a_deleted_pod() {
        for (readiness, is_serving) in [
            (Readiness::from_versions(Some((1, Freshness::Stale)), 1), true),
            (Readiness::Draining { pod_is_deleted: true }, true),
            (Readiness::Draining { pod_is_deleted: false }, false),
            (Readiness::OutOfMemory, false),
            (Readiness::Loading(None), false),
        ] {
            assert_eq!(readiness.is_serving(), is_serving, "{readiness}");
        }
    }

    #[test]
    fn healthz_reports_readiness_only_if_configured_and_never_lack_of_memory() {
        let ready = Readiness::from_versions(Some((1, Freshness::Stale)), 1);
        let adopting = Readiness::from_versions(Some((1, Freshness::Current)), 0);
        for (readiness, is_well) in [
            (ready, true),
            (Readiness::OutOfMemory, true),
            (adopting, false),
            (Readiness::Loading(None), false),
            (Readiness::Draining { pod_is_deleted: true }, false),
        ] {
            assert_eq!(Healthz::Serving.is_healthy(&readiness), is_well, "{readiness}");
            assert!(Healthz::Alive.is_healthy(&readiness), "{readiness}");
        }
    }
}
