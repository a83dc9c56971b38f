//! A run in the user's cluster: announces what it will do, requires `--yes`, measures the described controllers, and
//! removes what it created. Installs no controller.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use super::arguments::RunArguments;
use super::catalogue::Scenario;
use super::handover::Handover;
use super::rounds;
use super::session::Session;
use super::site::NAMESPACE;
use crate::cluster::Cluster;
use crate::peers::{DescribedPeer, Peer};

/// The controllers to measure, if the run in the user's cluster is fully described and permitted.
pub(super) fn permitted(arguments: &RunArguments) -> anyhow::Result<Vec<DescribedPeer>> {
    anyhow::ensure!(
        !arguments.selection.described.is_empty(),
        "--cluster measures controllers that are there: say which with --peer name=...,class=...,address=..."
    );
    let peers: Vec<_> = arguments
        .selection
        .described
        .iter()
        .map(|text| DescribedPeer::parse(text))
        .collect::<Result<_, _>>()?;
    let image = image(arguments)?;
    anyhow::ensure!(
        arguments.environment.yes,
        "this would create the namespace {NAMESPACE} with three Deployments of {image}, Ingresses of the classes that you \
         named, send requests to {}, scale a controller's Deployment where a description names it (comparison), and remove \
         the namespace at the end; say --yes to do it",
        peers
            .iter()
            .filter_map(|peer| Some(peer.existing()?.address.to_string()))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(peers)
}

fn image(arguments: &RunArguments) -> anyhow::Result<String> {
    let image = arguments.environment.backend_image.clone();
    image.context("--cluster needs --backend-image: the image of backends, which your cluster can pull")
}

/// Measures described controllers in the cluster that the kubeconfig names.
pub(super) fn run(
    arguments: &RunArguments,
    peers: &[DescribedPeer],
    mut handover: Handover,
    scenarios: &[Scenario],
) -> anyhow::Result<ExitCode> {
    handover.image = image(arguments)?;
    "a cluster of the user".clone_into(&mut handover.place);
    for peer in peers {
        handover.peers.push(peer.prepare(&handover.artifacts)?.record);
    }
    let chunks = rounds::scenario_rounds(scenarios, handover.rounds);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let cluster = Arc::new(Cluster::connect().await?);
        anyhow::ensure!(
            !cluster.has_namespace(NAMESPACE).await?,
            "there is a namespace {NAMESPACE} already: a run of another time left it, or it is yours; remove it first"
        );
        let before = replicas(&cluster, peers).await?;
        let all = peers.iter().map(|peer| peer as &dyn Peer).collect();
        let mut session = Session::start(&handover, cluster.clone(), all).await?;
        let outcome = session.run_all_rounds(&chunks).await;
        let swept = cluster.sweep().await.context("remove what the run created");
        for (namespace, deployment, replicas) in &before {
            cluster.scale(namespace, deployment, *replicas).await.context("give a controller its replicas back")?;
        }
        let code = outcome?;
        swept.map(|()| code)
    })
}

/// The current replicas of the controllers that the run may scale.
async fn replicas(cluster: &Cluster, peers: &[DescribedPeer]) -> anyhow::Result<Vec<(String, String, u32)>> {
    let mut found = Vec::new();
    for existing in peers.iter().filter_map(Peer::existing) {
        let Some(deployment) = &existing.deployment else { continue };
        let all = cluster.deployments(&existing.namespace).await?;
        let (_, replicas) = all
            .into_iter()
            .find(|(name, _)| name == deployment)
            .with_context(|| format!("there is no Deployment {}/{deployment}", existing.namespace))?;
        found.push((existing.namespace.clone(), deployment.clone(), replicas));
    }
    Ok(found)
}
