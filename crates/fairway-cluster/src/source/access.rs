//! How to reach the cluster: credentials from the pod or a kubeconfig file, and a client that notices when its peer has vanished.
//! Sends no request itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{AuthError, Body, ClientBuilder, ConfigExt};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceExt};

use super::fault;

/// A connect that takes longer is retried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Idle time before the first keepalive probe, and between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// A connection whose peer acknowledges nothing for this time is dead (RFC 5482).
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(4);

/// Which credentials to use, and for which cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// The pod's ServiceAccount, else the user's kubeconfig file.
    #[default]
    Default,
    /// A kubeconfig file and a context in it.
    Kubeconfig {
        /// The file; `None` means `$KUBECONFIG` or `~/.kube/config`.
        file: Option<PathBuf>,
        /// The context; `None` means the current one.
        context: Option<String>,
    },
}

/// Why the cluster cannot be reached. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// There are no credentials.
    #[error(
        "no cluster found: this is not a pod ({pod}) and there is no kubeconfig file ({file}); run in a \
         cluster, name a file with --kubeconfig, or serve files with --manifests"
    )]
    NoCluster {
        /// Why there are none from a pod.
        pod: String,
        /// Why there are none from a file.
        file: String,
    },
    /// The pod has no token.
    #[error(
        "this is a pod, but its ServiceAccount cannot be used: {0}; the pod needs automountServiceAccountToken: true"
    )]
    ServiceAccount(String),
    /// The kubeconfig file is not usable.
    #[error("the kubeconfig file {file} cannot be used: {problem}")]
    Kubeconfig {
        /// Which file.
        file: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The credentials are not usable.
    #[error(
        "the credentials cannot be used: {0}; check the user and the cluster's certificate in the kubeconfig file"
    )]
    Client(String),
    /// The cluster refuses the request or cannot be reached.
    #[error("{resource} cannot be read: {problem}")]
    Refused {
        /// The requested resource.
        resource: String,
        /// What the cluster answered, and what to do.
        problem: String,
    },
    /// The thread cannot be started.
    #[error("the thread that watches the cluster cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A client for the cluster. Sends nothing yet, but may run a credential program that the kubeconfig file names.
///
/// # Errors
/// There are no credentials, or they are not usable.
pub async fn connect(credentials: &Credentials) -> Result<Client, AccessError> {
    let config = match credentials {
        Credentials::Default => default_config().await?,
        Credentials::Kubeconfig { file, context } => from_file(file.as_deref(), context.as_deref()).await?,
    };
    if let Some(proxy) = &config.proxy_url {
        return Err(AccessError::Client(format!(
            "the kubeconfig file names the proxy {}, and proxies are not supported",
            proxy.host().unwrap_or_default()
        )));
    }
    client(&config).map_err(|error| match error {
        kube::Error::Auth(AuthError::ReadTokenFile(error, file)) if *credentials == Credentials::Default => {
            AccessError::ServiceAccount(format!("{}: {error}", file.display()))
        }
        error => AccessError::Client(fault::error_chain(&error)),
    })
}

async fn default_config() -> Result<Config, AccessError> {
    match Config::incluster() {
        Ok(config) => Ok(config),
        Err(InClusterError::ReadEnvironmentVariable(pod)) => match from_file(None, None).await {
            Err(AccessError::Kubeconfig { file, problem }) if !Path::new(&file).exists() => {
                Err(AccessError::NoCluster { pod: format!("KUBERNETES_SERVICE_HOST: {pod}"), file: problem })
            }
            other => other,
        },
        Err(error) => Err(AccessError::ServiceAccount(fault::error_chain(&error))),
    }
}

async fn from_file(file: Option<&Path>, context: Option<&str>) -> Result<Config, AccessError> {
    let shown = file.map_or_else(default_file, Path::to_path_buf).display().to_string();
    let wrong =
        |error: KubeconfigError| AccessError::Kubeconfig { problem: describe(&error), file: shown.clone() };
    let kubeconfig = match file {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = kubeconfig.map_err(wrong)?;
    let contexts: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| match error {
        KubeconfigError::LoadContext(name) => AccessError::Kubeconfig {
            problem: format!("it has no context \"{name}\"; it has {}", contexts.join(", ")),
            file: shown.clone(),
        },
        KubeconfigError::CurrentContextNotSet => AccessError::Kubeconfig {
            problem: format!(
                "it has no current context; name one with --context, it has {}",
                contexts.join(", ")
            ),
            file: shown.clone(),
        },
        other => wrong(other),
    })
}

fn describe(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::FindPath => "there is no home directory".to_owned(),
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        other => fault::error_chain(other),
    }
}

/// The files that `kubectl` reads.
fn default_file() -> PathBuf {
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let home = || std::env::home_dir().unwrap_or_default().join(".kube/config");
    named.map_or_else(home, PathBuf::from)
}

/// A client over HTTP/1.1: one connection per watch, so that a stuck one does not block the others.
///
/// Stalled watches are detected at three levels. The kernel closes a connection whose peer acknowledges nothing for four seconds,
/// be it data or keepalive probes: this detects a black hole on each connection without extra requests. [`super::probe`] checks
/// that the server answers and, when it answers again after an outage, restarts all watches from their last version: this covers
/// something that accepts connections in the server's place, such as a load balancer. And a watch that is silent for longer than
/// the interval of bookmarks restarts too ([`super::watch`]).
fn client(config: &Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
    // rustls has two providers in this build (docs/design/0065-aes-without-avx-512.md), and kube uses the process default. An
    // earlier installer chose the same one.
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let https = config.rustls_https_connector_with_connector(connector)?;
    let http: hyper_util::client::legacy::Client<_, Body> =
        hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(https);
    let http = ServiceExt::<hyper::Request<Body>>::map_err(http, BoxError::from);
    let stack =
        ClientBuilder::new(http, &config.default_namespace).with_layer(&config.extra_headers_layer()?);
    Ok(match config.auth_layer()? {
        Some(authorization) => stack.with_layer(&authorization).with_layer(&config.base_uri_layer()).build(),
        None => stack.with_layer(&config.base_uri_layer()).build(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn problem(file: &str, context: Option<&str>) -> String {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("config");
        std::fs::write(&path, file).expect("a file");
        let context = context.map(str::to_owned);
        match connect(&Credentials::Kubeconfig { file: Some(path), context }).await {
            Ok(_) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    const VALID_KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: mine, context: {cluster: here, user: me}}]
";

    #[tokio::test]
    async fn an_unknown_context_is_reported_with_the_known_ones() {
        assert_eq!(problem(VALID_KUBECONFIG, Some("mine")).await, "none");
        let wrong = problem(VALID_KUBECONFIG, Some("yours")).await;
        assert!(wrong.contains("no context \"yours\"; it has mine"), "{wrong}");
        let none = problem(VALID_KUBECONFIG, None).await;
        assert!(none.contains("no current context") && none.contains("it has mine"), "{none}");
    }

    #[tokio::test]
    async fn an_invalid_kubeconfig_is_reported_with_its_path_and_the_reason() {
        let wrong = problem("{{{", None).await;
        assert!(wrong.starts_with("the kubeconfig file ") && wrong.contains("parse"), "{wrong}");
        let file = Some(PathBuf::from("/nowhere/config"));
        let missing = connect(&Credentials::Kubeconfig { file, context: None }).await;
        let missing = missing.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(missing.contains("/nowhere/config") && missing.contains("No such file"), "{missing}");
    }
}
