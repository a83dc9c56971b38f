//! Writes what Gateways have: the list of ports, Services, EndpointSlices. Owns no decision about what is written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairway_gateway::fleet::slices::SliceEdit;
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Error};
use serde_json::Value;
use tokio::time::timeout;

use crate::status::observed::FIELD_MANAGER;
use crate::status::permission::{Permit, Refusals};

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);
const NO_PORTS: &str = "new Gateways have no ports";
const NO_SERVICE: &str = "Gateways there have no addresses";
const NO_SLICES: &str = "the addresses of Gateways there lead nowhere";

/// Who writes.
#[derive(Clone)]
pub(super) struct Edits {
    client: Client,
    refusals: Arc<Refusals>,
}

/// Why something was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Somebody else changed it in between, or it is gone: what is known is old.
    Overtaken,
    /// There is one of this name already.
    Exists,
    /// The API server refuses it.
    Refused(String),
    /// The API server cannot or did not answer.
    NoAnswer,
}

impl Edits {
    pub(super) fn new(client: Client, refusals: Arc<Refusals>) -> Self {
        Self { client, refusals }
    }

    /// Replaces the list of ports, or makes it where there is none; gives what is there now.
    pub(super) async fn list(
        &self,
        key: &ObjectKey,
        before: Option<&ConfigMap>,
        data: BTreeMap<String, String>,
    ) -> Result<ConfigMap, Failure> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &key.namespace);
        let fresh = || {
            let metadata = ObjectMeta { name: Some(key.name.to_string()), ..ObjectMeta::default() };
            ConfigMap { metadata, ..ConfigMap::default() }
        };
        let map = ConfigMap { data: Some(data), ..before.cloned().unwrap_or_else(fresh) };
        let (verb, answer) = match before {
            Some(_) => ("update", answered(api.replace(&key.name, &posted(), &map)).await),
            None => ("create", answered(api.create(&posted(), &map)).await),
        };
        let namespace = key.namespace.clone();
        self.judge(Permit { verb, resource: "configmaps".into(), namespace, lost: NO_PORTS }, answer)
    }

    /// Makes a Service.
    pub(super) async fn create_service(&self, key: &ObjectKey, service: &Service) -> Result<(), Failure> {
        let api = Api::<Service>::namespaced(self.client.clone(), &key.namespace);
        let answer = answered(api.create(&posted(), service)).await;
        self.judge(of_service("create", key), answer).map(drop)
    }

    /// Changes a Service.
    pub(super) async fn patch_service(&self, key: &ObjectKey, patch: &Value) -> Result<(), Failure> {
        let api = Api::<Service>::namespaced(self.client.clone(), &key.namespace);
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let answer = answered(api.patch(&key.name, &parameters, &Patch::Merge(patch))).await;
        self.judge(of_service("patch", key), answer).map(drop)
    }

    /// Deletes a Service, if it is still this one.
    pub(super) async fn delete_service(&self, key: &ObjectKey, service: &Service) -> Result<(), Failure> {
        let api = Api::<Service>::namespaced(self.client.clone(), &key.namespace);
        let preconditions = Preconditions { uid: service.metadata.uid.clone(), ..Preconditions::default() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let answer = answered(api.delete(&key.name, &parameters)).await;
        self.judge(of_service("delete", key), answer).map(drop)
    }

    /// Writes an EndpointSlice.
    pub(super) async fn slice(&self, edit: &SliceEdit) -> Result<(), Failure> {
        let key = match edit {
            SliceEdit::Create(slice) | SliceEdit::Replace(slice) => ObjectKey::of(&slice.metadata),
            SliceEdit::Delete(key) => key.clone(),
        };
        let api = Api::<EndpointSlice>::namespaced(self.client.clone(), &key.namespace);
        let deletion = DeleteParams::default();
        let (verb, answer) = match edit {
            SliceEdit::Create(slice) => ("create", answered(without(api.create(&posted(), slice))).await),
            SliceEdit::Replace(slice) => {
                ("update", answered(without(api.replace(&key.name, &posted(), slice))).await)
            }
            SliceEdit::Delete(_) => ("delete", answered(without(api.delete(&key.name, &deletion))).await),
        };
        let resource = "endpointslices.discovery.k8s.io".into();
        self.judge(Permit { verb, resource, namespace: key.namespace, lost: NO_SLICES }, answer)
    }

    fn judge<T>(&self, permit: Permit, answer: Option<Result<T, Error>>) -> Result<T, Failure> {
        let Some(answer) = answer else { return Err(Failure::NoAnswer) };
        let (verb, resource) = (permit.verb, permit.resource.clone());
        self.refusals.judge(permit, answer).map_err(|error| match error {
            Error::Api(status) if status.is_already_exists() => Failure::Exists,
            Error::Api(status) if matches!(status.code, 404 | 409) => Failure::Overtaken,
            Error::Api(status) if status.code < 500 && status.code != 429 => {
                Failure::Refused(status.message.clone())
            }
            error => {
                tracing::debug!(verb, %resource, %error, "what Gateways have is not written; tried again");
                Failure::NoAnswer
            }
        })
    }
}

fn of_service(verb: &'static str, key: &ObjectKey) -> Permit {
    Permit { verb, resource: "services".into(), namespace: key.namespace.clone(), lost: NO_SERVICE }
}

fn posted() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// The answer without what it holds.
async fn without<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<(), Error> {
    asked.await.map(drop)
}

/// The answer, if there is one in time.
async fn answered<T>(asked: impl Future<Output = Result<T, Error>>) -> Option<Result<T, Error>> {
    timeout(PATIENCE, asked).await.ok()
}
