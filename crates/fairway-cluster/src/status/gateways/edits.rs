//! Writes the objects that Gateways need: the port list, Services, EndpointSlices. Does not decide what to write.

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
use crate::status::permission::{RefusedPermissions, RequiredPermission};

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const WITHOUT_PORT_LIST: &str = "new Gateways have no ports";
const WITHOUT_SERVICES: &str = "Gateways there have no addresses";
const WITHOUT_SLICES: &str = "the addresses of Gateways there have no endpoints";

/// Writes these objects.
#[derive(Clone)]
pub(super) struct GatewayWriter {
    client: Client,
    refusals: Arc<RefusedPermissions>,
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteFailure {
    /// The object was changed or deleted concurrently: the known state is stale.
    Conflict,
    /// An object of this name exists already.
    Exists,
    /// The API server refuses it.
    Refused(String),
    /// The API server did not answer, or answered with a server error.
    NoAnswer,
}

impl GatewayWriter {
    pub(super) fn new(client: Client, refusals: Arc<RefusedPermissions>) -> Self {
        Self { client, refusals }
    }

    /// Replaces the port list, or creates it; returns the stored object.
    pub(super) async fn write_port_list(
        &self,
        key: &ObjectKey,
        before: Option<&ConfigMap>,
        data: BTreeMap<String, String>,
    ) -> Result<ConfigMap, WriteFailure> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &key.namespace);
        let fresh = || {
            let metadata = ObjectMeta { name: Some(key.name.to_string()), ..ObjectMeta::default() };
            ConfigMap { metadata, ..ConfigMap::default() }
        };
        let map = ConfigMap { data: Some(data), ..before.cloned().unwrap_or_else(fresh) };
        let (verb, answer) = match before {
            Some(_) => ("update", with_timeout(api.replace(&key.name, &post_params(), &map)).await),
            None => ("create", with_timeout(api.create(&post_params(), &map)).await),
        };
        let namespace = key.namespace.clone();
        self.check_permission(
            RequiredPermission { verb, resource: "configmaps".into(), namespace, lost: WITHOUT_PORT_LIST },
            answer,
        )
    }

    /// Creates a Service.
    pub(super) async fn create_service(
        &self,
        key: &ObjectKey,
        service: &Service,
    ) -> Result<(), WriteFailure> {
        let api = Api::<Service>::namespaced(self.client.clone(), &key.namespace);
        let response = with_timeout(api.create(&post_params(), service)).await;
        self.check_permission(service_permit("create", key), response).map(drop)
    }

    /// Updates a Service.
    pub(super) async fn patch_service(&self, key: &ObjectKey, patch: &Value) -> Result<(), WriteFailure> {
        let api = Api::<Service>::namespaced(self.client.clone(), &key.namespace);
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let response = with_timeout(api.patch(&key.name, &parameters, &Patch::Merge(patch))).await;
        self.check_permission(service_permit("patch", key), response).map(drop)
    }

    /// Deletes a Service if it is still the same object.
    pub(super) async fn delete_service(
        &self,
        key: &ObjectKey,
        service: &Service,
    ) -> Result<(), WriteFailure> {
        let api = Api::<Service>::namespaced(self.client.clone(), &key.namespace);
        let preconditions = Preconditions { uid: service.metadata.uid.clone(), ..Preconditions::default() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let response = with_timeout(api.delete(&key.name, &parameters)).await;
        self.check_permission(service_permit("delete", key), response).map(drop)
    }

    /// Writes an EndpointSlice.
    pub(super) async fn write_slice(&self, edit: &SliceEdit) -> Result<(), WriteFailure> {
        let key = match edit {
            SliceEdit::Create(slice) | SliceEdit::Replace(slice) => ObjectKey::from_metadata(&slice.metadata),
            SliceEdit::Delete(key) => key.clone(),
        };
        let api = Api::<EndpointSlice>::namespaced(self.client.clone(), &key.namespace);
        let deletion = DeleteParams::default();
        let (verb, answer) = match edit {
            SliceEdit::Create(slice) => {
                ("create", with_timeout(discard_body(api.create(&post_params(), slice))).await)
            }
            SliceEdit::Replace(slice) => {
                ("update", with_timeout(discard_body(api.replace(&key.name, &post_params(), slice))).await)
            }
            SliceEdit::Delete(_) => {
                ("delete", with_timeout(discard_body(api.delete(&key.name, &deletion))).await)
            }
        };
        let resource = "endpointslices.discovery.k8s.io".into();
        self.check_permission(
            RequiredPermission { verb, resource, namespace: key.namespace, lost: WITHOUT_SLICES },
            answer,
        )
    }

    fn check_permission<T>(
        &self,
        permit: RequiredPermission,
        answer: Option<Result<T, Error>>,
    ) -> Result<T, WriteFailure> {
        let Some(answer) = answer else { return Err(WriteFailure::NoAnswer) };
        let (verb, resource) = (permit.verb, permit.resource.clone());
        self.refusals.check(permit, answer).map_err(|error| match error {
            Error::Api(status) if status.is_already_exists() => WriteFailure::Exists,
            Error::Api(status) if matches!(status.code, 404 | 409) => WriteFailure::Conflict,
            Error::Api(status) if status.code < 500 && status.code != 429 => {
                WriteFailure::Refused(status.message.clone())
            }
            error => {
                tracing::debug!(verb, %resource, %error, "an object of a Gateway is not written; retrying");
                WriteFailure::NoAnswer
            }
        })
    }
}

fn service_permit(verb: &'static str, key: &ObjectKey) -> RequiredPermission {
    RequiredPermission {
        verb,
        resource: "services".into(),
        namespace: key.namespace.clone(),
        lost: WITHOUT_SERVICES,
    }
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// The result without the object.
async fn discard_body<T>(request: impl Future<Output = Result<T, Error>>) -> Result<(), Error> {
    request.await.map(drop)
}

/// The result; `None` after a timeout.
async fn with_timeout<T>(request: impl Future<Output = Result<T, Error>>) -> Option<Result<T, Error>> {
    timeout(REQUEST_TIMEOUT, request).await.ok()
}
