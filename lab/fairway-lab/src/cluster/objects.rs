//! Objects of any kind: applied, removed, scaled; and swept away at the end of a run.

use std::collections::BTreeSet;

use anyhow::Context;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};

use super::client::Cluster;
use super::wait;

/// The label of everything that a run creates.
pub const OWNED: &str = "lab.fairway.dev/owned";
/// The field manager recorded by the API server.
const FIELD_MANAGER: &str = "fairway-lab";

impl Cluster {
    /// Applies objects in this order.
    ///
    /// # Errors
    /// The API server refuses one; the text names it.
    pub async fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let name = title(object);
            let api = self.api_of(object).await?;
            let mut labelled = object.clone();
            labelled["metadata"]["labels"][OWNED] = json!("true");
            let object_name = object["metadata"]["name"].as_str().context("an object without a name")?;
            api.patch(object_name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&labelled))
                .await
                .with_context(|| format!("apply {name}"))?;
        }
        Ok(())
    }

    /// Removes objects; one that is not there is as good as removed.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn remove(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let api = self.api_of(object).await?;
            let name = object["metadata"]["name"].as_str().context("an object without a name")?;
            match api.delete(name, &DeleteParams::background()).await {
                Err(error) if !is_gone(&error) => {
                    return Err(error).with_context(|| format!("remove {}", title(object)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the objects of a route those of its next state: applies these, then removes those before that are not
    /// among them.
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn replace(&self, before: &[Value], after: &[Value]) -> anyhow::Result<()> {
        self.apply(after).await?;
        let titles: BTreeSet<_> = after.iter().map(title).collect();
        let removed: Vec<_> =
            before.iter().filter(|object| !titles.contains(&title(object))).cloned().collect();
        self.remove(&removed).await
    }

    /// Sets the number of replicas without waiting.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn scale(&self, namespace: &str, deployment: &str, replicas: u32) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let scale = json!({ "spec": { "replicas": replicas } });
        api.patch_scale(deployment, &PatchParams::default(), &Patch::Merge(&scale))
            .await
            .with_context(|| format!("scale {namespace}/{deployment} to {replicas}"))?;
        Ok(())
    }

    /// The Deployments of a namespace and their replicas.
    ///
    /// # Errors
    /// The API server refuses.
    pub(crate) async fn deployments(&self, namespace: &str) -> anyhow::Result<Vec<(String, u32)>> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let all = api
            .list(&ListParams::default())
            .await
            .with_context(|| format!("list Deployments of {namespace}"))?;
        let replicas_of =
            |deployment: &Deployment| deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        Ok(all
            .items
            .iter()
            .map(|one| {
                (one.metadata.name.clone().unwrap_or_default(), u32::try_from(replicas_of(one)).unwrap_or(0))
            })
            .collect())
    }

    /// Whether there is a namespace of this name.
    ///
    /// # Errors
    /// The API server refuses.
    pub(crate) async fn has_namespace(&self, name: &str) -> anyhow::Result<bool> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        Ok(api.get_opt(name).await.with_context(|| format!("look for namespace {name}"))?.is_some())
    }

    /// Removes every namespace that carries [`OWNED`], with all that is in it.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn sweep(&self) -> anyhow::Result<()> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let owned = api
            .list(&ListParams::default().labels(&format!("{OWNED}=true")))
            .await
            .context("list namespaces")?;
        for name in owned.items.into_iter().filter_map(|namespace| namespace.metadata.name) {
            match api.delete(&name, &DeleteParams::background()).await {
                Err(error) if !is_gone(&error) => {
                    return Err(error).with_context(|| format!("remove namespace {name}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// An object as it is now, named by its kind, namespace and name.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn read(&self, object: &Value) -> anyhow::Result<Option<Value>> {
        let api = self.api_of(object).await?;
        let name = object["metadata"]["name"].as_str().context("an object without a name")?;
        let found = api.get_opt(name).await.with_context(|| format!("read {}", title(object)))?;
        found.map(|found| serde_json::to_value(found).context("an object is no JSON")).transpose()
    }

    /// Waits until a namespace and its contents are removed.
    ///
    /// # Errors
    /// The namespace still exists after the timeout.
    pub(crate) async fn without_namespace(&self, name: &str) -> anyhow::Result<()> {
        wait::until(&format!("namespace {name} is gone"), async || {
            Ok((!self.has_namespace(name).await?).then_some(()))
        })
        .await
    }

    pub(super) async fn api_of(&self, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
        let (resource, namespaced) = self.kind_of(object).await?;
        Ok(match object["metadata"]["namespace"].as_str() {
            Some(namespace) if namespaced => Api::namespaced_with(self.client.clone(), namespace, &resource),
            _ if namespaced => anyhow::bail!("{} has no namespace", title(object)),
            _ => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// The API resource of a kind. A CustomResourceDefinition that was just applied takes a moment to be served.
    async fn kind_of(&self, object: &Value) -> anyhow::Result<(ApiResource, bool)> {
        let text = |field: &str| object[field].as_str().with_context(|| format!("an object without {field}"));
        let version = text("apiVersion")?;
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, text("kind")?);
        if let Some(known) = self.kinds.lock().await.get(&kind) {
            return Ok(known.clone());
        }
        let condition = format!("the API server serves {}/{} {}", kind.group, kind.version, kind.kind);
        let found = wait::until(&condition, async || {
            let (resource, capabilities) = pinned_kind(&self.client, &kind).await?;
            Ok(Some((resource, matches!(capabilities.scope, Scope::Namespaced))))
        })
        .await?;
        self.kinds.lock().await.insert(kind, found.clone());
        Ok(found)
    }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if answer.code == 404)
}

/// `Ingress lab/shop`, for messages and as a key.
pub(super) fn title(object: &Value) -> String {
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!("{} {}/{}", text_of(&object["kind"]), text_of(&metadata["namespace"]), text_of(&metadata["name"]))
}
