//! Of which releases of the Gateway API the installed CRDs are, asked for again and again. Best effort: without the
//! permission nobody knows, and everything else goes on. Owns the requests; never judges a release.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_control::inlet::Inlet;
use fairway_objects::gateway_resources::Releases;
use fairway_objects::kinds::{GATEWAY_KINDS, GROUP};
use fairway_objects::resources::Change;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use tokio::time;

use super::fault::Fault;
use super::probe::Pulse;

/// How often it is asked. Nothing is served differently by what is found.
const AGAIN: Duration = Duration::from_secs(60);
/// An answer is there within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where a CRD says of which release it is.
const ANNOTATION: &str = "gateway.networking.k8s.io/bundle-version";

/// Who asks.
pub(super) struct Asking {
    pub(super) client: Client,
    pub(super) inlet: Inlet,
    pub(super) pulse: Pulse,
}

impl Asking {
    /// Tells what is installed, and whenever it is different.
    pub(super) async fn run(mut self) {
        let crds = Api::all(self.client.clone());
        let mut told = Releases::default();
        loop {
            match installed(&crds).await {
                Ok(now) if now != told => {
                    told = now.clone();
                    self.inlet.change(Change::Released(now));
                }
                Ok(_) => {}
                Err(fault) => {
                    tracing::debug!(%fault, "the releases of the CRDs of the Gateway API are not known");
                }
            }
            tokio::select! {
                () = time::sleep(AGAIN) => {}
                _ = self.pulse.changed() => {}
            }
        }
    }
}

/// The CRDs of the kinds that are read, as far as they are installed.
async fn installed(crds: &Api<CustomResourceDefinition>) -> Result<Releases, Fault> {
    let mut found = BTreeMap::new();
    // The policies are Fairway's own and have no release.
    for kind in GATEWAY_KINDS.iter().filter(|kind| kind.group == GROUP) {
        let name = kind.group_resource("");
        let asked = time::timeout(PATIENCE, crds.get_metadata_opt(&name)).await;
        let answer = asked.map_err(|_| Fault::Unreachable("a CRD was not told in time".to_owned()))?;
        if let Some(crd) = answer.map_err(|error| Fault::of(&error))? {
            let annotations = crd.metadata.annotations.unwrap_or_default();
            found.insert(name, annotations.get(ANNOTATION).cloned());
        }
    }
    Ok(found.into())
}
