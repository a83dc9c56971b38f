//! How the cluster is reached: credentials from the pod or from a kubeconfig file, and a client whose connections notice
//! that the other side has vanished. Never asks the cluster anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{AuthError, Body, ClientBuilder, ConfigExt};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceExt};

use super::fault;

/// A connection is there within this time or is tried again.
const CONNECT: Duration = Duration::from_secs(2);
/// A silent connection is asked for a sign of life after this time, and then again and again.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// A connection whose other side has not acknowledged anything for this time is dead (RFC 5482).
const USER_TIMEOUT: Duration = Duration::from_secs(4);

/// Who asks, and which cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// The ServiceAccount of the pod, else the kubeconfig file of the user.
    #[default]
    Default,
    /// A kubeconfig file, and a context in it.
    Kubeconfig {
        /// The file; `$KUBECONFIG` or `~/.kube/config` where there is none.
        file: Option<PathBuf>,
        /// The context; the current one where there is none.
        context: Option<String>,
    },
}

/// Why there is no way to the cluster. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// No credentials are to be found.
    #[error(
        "there is no cluster to be found: this is no pod ({pod}) and there is no kubeconfig file ({file}); run in a \
         cluster, name a file with --kubeconfig, or serve files with --manifests"
    )]
    NoCluster {
        /// Why not in a pod.
        pod: String,
        /// Why not from a file.
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
        /// Which one.
        file: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The credentials cannot be used.
    #[error(
        "the credentials cannot be used: {0}; check the user and the cluster's certificate in the kubeconfig file"
    )]
    Client(String),
    /// The cluster cannot be asked, or refuses.
    #[error("{resource} cannot be read: {problem}")]
    Refused {
        /// What was asked for.
        resource: String,
        /// What the answer was, and what to do.
        problem: String,
    },
    /// There is no thread for it.
    #[error("the thread that watches the cluster cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A client for the cluster. Nothing is sent yet, except by a program that the kubeconfig file names for credentials.
///
/// # Errors
/// No credentials, or unusable ones.
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
        error => AccessError::Client(fault::chain(&error)),
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
        Err(error) => Err(AccessError::ServiceAccount(fault::chain(&error))),
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
        KubeconfigError::FindPath => "there is no home directory to look in".to_owned(),
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        other => fault::chain(other),
    }
}

/// Where `kubectl` looks.
fn default_file() -> PathBuf {
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let home = || std::env::home_dir().unwrap_or_default().join(".kube/config");
    named.map_or_else(home, PathBuf::from)
}

/// A client over HTTP/1.1: one connection for each watch, so that one that is stuck holds nobody else up.
///
/// Stalled watches are noticed at three levels. The kernel ends a connection whose other side acknowledges nothing for
/// four seconds, sent bytes and keepalive probes alike: this notices a black hole, at no cost for us, on each connection
/// by itself. [`super::probe`] asks the server for a sign of life and, when one comes after it was missed, lets all
/// watches begin anew from where they were: this covers what answers in the server's place, as a load balancer does. And a
/// watch that says nothing for longer than bookmarks may take begins anew too ([`super::watch`]).
fn client(config: &Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_tcp_user_timeout(Some(USER_TIMEOUT));
    // rustls has two providers in this build (docs/design/0065-aes-without-avx-512.md), and kube takes that of the process. Whoever came
    // first has chosen the same one.
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

    const GOOD: &str = r"
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: mine, context: {cluster: here, user: me}}]
";

    #[tokio::test]
    async fn a_context_that_does_not_exist_is_named_with_those_that_do() {
        assert_eq!(problem(GOOD, Some("mine")).await, "none");
        let wrong = problem(GOOD, Some("yours")).await;
        assert!(wrong.contains("no context \"yours\"; it has mine"), "{wrong}");
        let none = problem(GOOD, None).await;
        assert!(none.contains("no current context") && none.contains("it has mine"), "{none}");
    }

    #[tokio::test]
    async fn a_file_that_is_none_is_named_with_what_is_wrong() {
        let wrong = problem("{{{", None).await;
        assert!(wrong.starts_with("the kubeconfig file ") && wrong.contains("parse"), "{wrong}");
        let file = Some(PathBuf::from("/nowhere/config"));
        let missing = connect(&Credentials::Kubeconfig { file, context: None }).await;
        let missing = missing.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(missing.contains("/nowhere/config") && missing.contains("No such file"), "{missing}");
    }
}
