//! The releases of the installed Gateway API CRDs, polled. Best effort: without the permission they are unknown, and nothing else
//! is affected. Does not judge a release.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_control::input::Inlet;
use fairway_objects::gateway_resources::Releases;
use fairway_objects::kinds::{GATEWAY_KINDS, GROUP};
use fairway_objects::resources::Change;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use tokio::time;

use super::fault::Fault;
use super::probe::RestartSignal;

/// The polling interval. The result changes nothing that is served.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The annotation of a CRD with its release.
const BUNDLE_VERSION_ANNOTATION: &str = "gateway.networking.k8s.io/bundle-version";

/// Polls the releases.
pub(super) struct ReleasePoller {
    pub(super) client: Client,
    pub(super) inlet: Inlet,
    pub(super) pulse: RestartSignal,
}

impl ReleasePoller {
    /// Reports the installed releases, and each change.
    pub(super) async fn run(mut self) {
        let crds = Api::all(self.client.clone());
        let mut found_releases = Releases::default();
        loop {
            match installed_releases(&crds).await {
                Ok(now) if now != found_releases => {
                    found_releases = now.clone();
                    self.inlet.send_change(Change::Released(now));
                }
                Ok(_) => {}
                Err(fault) => {
                    tracing::debug!(%fault, "the releases of the Gateway API CRDs are unknown");
                }
            }
            tokio::select! {
                () = time::sleep(POLL_INTERVAL) => {}
                _ = self.pulse.changed() => {}
            }
        }
    }
}

/// The installed CRDs of the known kinds.
async fn installed_releases(crds: &Api<CustomResourceDefinition>) -> Result<Releases, Fault> {
    let mut found = BTreeMap::new();
    // The policies are Fairway's own and have no release.
    for kind in GATEWAY_KINDS.iter().filter(|kind| kind.group == GROUP) {
        let name = kind.group_resource("");
        let response = time::timeout(REQUEST_TIMEOUT, crds.get_metadata_opt(&name)).await;
        let reply = response.map_err(|_| Fault::Unreachable("the request for a CRD timed out".to_owned()))?;
        if let Some(crd) = reply.map_err(|error| Fault::from_error(&error))? {
            let annotations = crd.metadata.annotations.unwrap_or_default();
            found.insert(name, annotations.get(BUNDLE_VERSION_ANNOTATION).cloned());
        }
    }
    Ok(found.into())
}
