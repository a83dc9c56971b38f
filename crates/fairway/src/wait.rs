//! `fairway wait`: polls every replica until all of them serve the wanted configuration.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fairway_cluster::fleet::{self, FleetSelector, ObjectVersion, QueriedObject, Replica};
use fairway_cluster::source;
use fairway_control::Freshness;
use fairway_control::admin::ServedConfig;
use fairway_objects::object::ObjectKey;
use tokio::time::{Instant, sleep, timeout_at};

use crate::admin_client;
use crate::args::{FleetArgs, WaitArgs};
use crate::terminal::PlainText;

/// Pause between two rounds of queries.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Upper bound for `--timeout`, so that the deadline cannot overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);

/// Minimum timeout of a round, even if less of `--timeout` is left.
const MIN_ROUND_TIMEOUT: Duration = Duration::from_secs(1);

/// What the replicas have to serve.
#[derive(Debug, Default)]
struct WaitTarget {
    replicas: usize,
    digest: Option<String>,
    object: Option<WantedObject>,
}

/// An object with its current version in the cluster.
#[derive(Debug)]
struct WantedObject {
    queried: QueriedObject,
    /// `None` if the object does not exist.
    written: Option<ObjectVersion>,
}

/// The replicas to query.
enum Replicas {
    /// Processes by their addresses.
    Addresses(Vec<SocketAddr>),
    /// The pods of a cluster.
    Pods(FleetSelector, source::Client),
}

/// Waits. Exits with 0 once all replicas serve the target, with 1 after the timeout.
pub(crate) fn wait(args: &WaitArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(wait_for_replicas(args));
    // A pending name lookup by the system cannot be cancelled.
    runtime.shutdown_background();
    ended
}

async fn wait_for_replicas(args: &WaitArgs) -> Result<ExitCode> {
    let deadline = Instant::now() + args.timeout.min(MAX_TIMEOUT);
    // Query every replica at least once, even if no time is left.
    let until = || deadline.max(Instant::now() + MIN_ROUND_TIMEOUT);
    let Ok(started) = timeout_at(until(), prepare(args)).await else {
        return report_timeout(args, "the API server has not responded");
    };
    let (replicas, wanted) = started?;
    let mut lagging = "the replicas have not responded".to_owned();
    loop {
        let object = wanted.object.as_ref().map(|object| &object.queried);
        if let Some(responses) = replicas.query(object, until()).await? {
            match agreed_digest(&responses, &wanted) {
                Ok(digest) => {
                    let count = responses.len();
                    writeln!(io::stdout(), "{digest} serves on {count} of {count} replicas")?;
                    return Ok(ExitCode::SUCCESS);
                }
                Err(why) => lagging = why,
            }
        }
        if Instant::now() >= deadline {
            return report_timeout(args, &lagging);
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn report_timeout(args: &WaitArgs, lagging: &str) -> Result<ExitCode> {
    writeln!(PlainText(io::stderr()), "not within {:?}: {lagging}", args.timeout)?;
    Ok(ExitCode::from(1))
}

/// Finds the replicas and, through the API server, the version of the object that they have to serve.
async fn prepare(args: &WaitArgs) -> Result<(Replicas, WaitTarget)> {
    let replicas = Replicas::from_args(args).await?;
    let target = WaitTarget::from_args(args, &replicas).await?;
    Ok((replicas, target))
}

impl Replicas {
    async fn from_args(args: &WaitArgs) -> Result<Self> {
        if !args.admin.is_empty() {
            return Ok(Self::Addresses(args.admin.clone()));
        }
        let client = source::connect(&args.fleet.cluster().credentials()).await?;
        let FleetArgs { namespace, selector, probe_port, .. } = &args.fleet;
        let fleet =
            FleetSelector { namespace: namespace.clone(), selector: selector.clone(), port: *probe_port };
        Ok(Self::Pods(fleet, client))
    }

    /// Queries all replicas; `None` if the API server does not list the pods or relay their responses in time.
    async fn query(&self, object: Option<&QueriedObject>, until: Instant) -> Result<Option<Vec<Replica>>> {
        match self {
            Self::Pods(fleet, client) => {
                // `until` bounds the query of each pod; listing the pods may take a second longer.
                let listed =
                    timeout_at(until + MIN_ROUND_TIMEOUT, fleet.query_replicas(client, object, until)).await;
                listed.map_or(Ok(None), |replicas| Ok(Some(replicas?)))
            }
            Self::Addresses(addresses) => {
                let query = object.map(QueriedObject::query_string).unwrap_or_default();
                // Query all at once, so that a silent replica does not delay the others and can be named.
                let queried: Vec<_> = addresses
                    .iter()
                    .map(|it| tokio::spawn(query_replica(*it, query.clone(), until)))
                    .collect();
                let mut replicas = Vec::new();
                for replica in queried {
                    replicas.push(replica.await?);
                }
                Ok(Some(replicas))
            }
        }
    }
}

/// Queries the replica at an address.
async fn query_replica(address: SocketAddr, query: String, until: Instant) -> Replica {
    let path = format!("/served{query}");
    let served = match timeout_at(until, admin_client::page(address, &path)).await {
        Ok(page) => page.and_then(|page| Ok(serde_json::from_slice::<ServedConfig>(&page)?)),
        Err(_) => Err(anyhow!("no response in time")),
    };
    Replica { name: address.to_string(), served: served.map_err(|error| format!("{error:#}")) }
}

impl WaitTarget {
    async fn from_args(args: &WaitArgs, replicas: &Replicas) -> Result<Self> {
        let mut target = Self { replicas: args.replicas, digest: args.digest.clone(), object: None };
        if let Some((flag, queried)) = named_object(args)? {
            let Replicas::Pods(_, client) = replicas else {
                anyhow::bail!("{flag} requires a cluster and cannot be combined with --admin");
            };
            let written = fleet::fetch_version(client, &queried).await;
            let written = written.with_context(|| format!("the {queried} cannot be read"))?;
            target.object = Some(WantedObject { queried, written });
        }
        Ok(target)
    }
}

/// The object to wait for and the flag that names it.
fn named_object(args: &WaitArgs) -> Result<Option<(&'static str, QueriedObject)>> {
    if let Some(text) = &args.ingress {
        let key =
            ObjectKey::parse(text).with_context(|| format!("--ingress {text}: is not a NAMESPACE/NAME"))?;
        return Ok(Some(("--ingress", QueriedObject::Ingress(key))));
    }
    let Some(text) = &args.object else { return Ok(None) };
    Ok(Some(("--object", parse_object(text)?)))
}

fn parse_object(text: &str) -> Result<QueriedObject> {
    QueriedObject::parse(text).with_context(|| {
        let kinds: Vec<_> = QueriedObject::kinds().map(|known| known.name.to_ascii_lowercase()).collect();
        let kinds = kinds.join(", ");
        format!("--object {text}: is not a KIND/NAMESPACE/NAME such as httproute/shop/web with one of the kinds {kinds}")
    })
}

/// The digest that all replicas serve, or the reason why a replica lags behind.
fn agreed_digest(replicas: &[Replica], target: &WaitTarget) -> Result<String, String> {
    if replicas.len() < target.replicas.max(1) {
        return Err(format!("found {} of {} replicas", replicas.len(), target.replicas.max(1)));
    }
    let mut digest: Option<(&str, &str)> = None;
    for Replica { name, served } in replicas {
        let served =
            served.as_ref().map_err(|problem| format!("{name} did not report what it serves: {problem}"))?;
        lag_reason(served, target).map_or(Ok(()), |why| Err(format!("{name} {why}")))?;
        match digest {
            Some((other, theirs)) if theirs != served.digest => {
                return Err(format!("{name} serves {} and {other} serves {theirs}", served.digest));
            }
            _ => digest = Some((name, &served.digest)),
        }
    }
    Ok(digest.map(|(_, digest)| digest.to_owned()).unwrap_or_default())
}

/// Why a replica does not serve the target yet.
fn lag_reason(served: &ServedConfig, target: &WaitTarget) -> Option<String> {
    if !served.adopted {
        return Some("has workers that serve an older configuration".to_owned());
    }
    if served.freshness == Freshness::Stale {
        return Some(
            "serves the configuration of an earlier process: the API server has not responded".to_owned(),
        );
    }
    if let Some(digest) = &target.digest
        && *digest != served.digest
    {
        return Some(format!("serves {}", served.digest));
    }
    let WantedObject { queried, written } = target.object.as_ref()?;
    match (served_version(served, queried), written) {
        (None, None) => None,
        (None, Some(_)) => Some(format!("does not serve the {queried}")),
        (Some(_), None) => Some(format!("still serves the {queried}, which no longer exists")),
        (Some(known), Some(written)) => (!known.is_current(written, queried))
            .then(|| format!("serves the {queried} at {}", known.version(queried))),
    }
}

/// The version of an object that a replica serves.
struct ServedVersion<'s> {
    uid: &'s str,
    resource_version: &'s str,
    generation: Option<i64>,
}

fn served_version<'s>(served: &'s ServedConfig, queried: &QueriedObject) -> Option<ServedVersion<'s>> {
    match queried {
        QueriedObject::Ingress(_) => served.ingress.as_ref().map(|it| ServedVersion {
            uid: &it.uid,
            resource_version: &it.resource_version,
            generation: it.generation,
        }),
        QueriedObject::Object(_) => served.object.as_ref().map(|it| ServedVersion {
            uid: &it.uid,
            resource_version: &it.resource_version,
            generation: it.generation,
        }),
    }
}

impl ServedVersion<'_> {
    /// Whether the replica serves this version of the object or a later one. An Ingress is compared by resource version, because
    /// annotations do not change its generation. A Gateway API object is compared by generation, because every status update
    /// changes its resource version.
    fn is_current(&self, written: &ObjectVersion, queried: &QueriedObject) -> bool {
        let late_enough = match queried {
            QueriedObject::Ingress(_) => fleet::is_at_least(self.resource_version, &written.resource_version),
            QueriedObject::Object(_) => self.generation >= written.generation,
        };
        self.uid == written.uid && late_enough
    }

    fn version(&self, queried: &QueriedObject) -> String {
        match queried {
            QueriedObject::Ingress(_) => format!("resource version {}", self.resource_version),
            QueriedObject::Object(_) => format!("generation {}", self.generation.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fairway_control::admin::{ServedIngress, ServedObject};

    use super::*;

    fn replica(name: &str, digest: &str, version: Option<&str>) -> Replica {
        let ingress = version.map(|version| ServedIngress {
            name: "a/web".into(),
            uid: "u".into(),
            resource_version: version.into(),
            generation: Some(1),
        });
        let served = ServedConfig {
            digest: digest.into(),
            version: 1,
            adopted: true,
            freshness: Freshness::Current,
            ingress,
            gateways: None,
            object: None,
        };
        Replica { name: name.into(), served: Ok(served) }
    }

    fn wait_target(written: Option<&str>) -> WaitTarget {
        let written = written.map(|version| ObjectVersion {
            uid: "u".to_owned(),
            resource_version: version.to_owned(),
            generation: Some(1),
        });
        let queried = QueriedObject::Ingress(ObjectKey::new("a", "web"));
        WaitTarget { replicas: 2, digest: None, object: Some(WantedObject { queried, written }) }
    }

    #[test]
    fn all_replicas_must_serve_the_same_digest_and_the_current_ingress() {
        let two = |a, b| [replica("p0", a, Some("9")), replica("p1", b, Some("10"))];
        assert_eq!(agreed_digest(&two("x", "x"), &wait_target(Some("9"))), Ok("x".to_owned()));
        assert!(agreed_digest(&two("x", "y"), &wait_target(Some("9"))).unwrap_err().contains("p1 serves y"));
        assert!(
            agreed_digest(&two("x", "x"), &wait_target(Some("10")))
                .unwrap_err()
                .starts_with("p0 serves the Ingress a/web")
        );
        assert!(
            agreed_digest(&two("x", "x"), &wait_target(None)).unwrap_err().contains("which no longer exists")
        );
        assert!(
            agreed_digest(&two("x", "x")[..1], &wait_target(Some("9")))
                .unwrap_err()
                .contains("1 of 2 replicas")
        );
        let absent = [replica("p0", "x", None), replica("p1", "x", None)];
        assert_eq!(agreed_digest(&absent, &wait_target(None)), Ok("x".to_owned()));
        assert!(agreed_digest(&absent, &wait_target(Some("9"))).unwrap_err().contains("does not serve"));
    }

    #[test]
    fn an_unknown_kind_of_object_is_refused_with_the_known_kinds() {
        assert_eq!(
            parse_object("service/a/web").unwrap_err().to_string(),
            "--object service/a/web: is not a KIND/NAMESPACE/NAME such as httproute/shop/web with one of the kinds \
             gatewayclass, gateway, listenerset, httproute, grpcroute, tlsroute, tcproute, udproute, backendtlspolicy, \
             clienttrafficpolicy, backendtrafficpolicy, securitypolicy, extensionpolicy, inferencepool"
        );
    }

    #[test]
    fn a_route_is_compared_by_generation_because_status_updates_change_its_version() {
        let digest_of_one = |generation, uid: &str| {
            let mut replica = replica("p0", "x", None);
            let served = replica.served.as_mut().unwrap();
            served.object = Some(ServedObject {
                kind: "HTTPRoute".into(),
                name: "a/web".into(),
                uid: uid.into(),
                resource_version: "1".into(),
                generation: Some(generation),
            });
            let queried = QueriedObject::parse("httproute/a/web").unwrap();
            let written =
                ObjectVersion { uid: "u".into(), resource_version: "9".into(), generation: Some(2) };
            let object = Some(WantedObject { queried, written: Some(written) });
            agreed_digest(&[replica], &WaitTarget { replicas: 1, digest: None, object })
        };
        assert_eq!(digest_of_one(2, "u"), Ok("x".to_owned()));
        assert_eq!(digest_of_one(3, "u"), Ok("x".to_owned()));
        assert!(digest_of_one(1, "u").unwrap_err().contains("serves the HTTPRoute a/web at generation 1"));
        assert!(digest_of_one(2, "another").is_err());
    }

    #[test]
    fn a_silent_stale_or_unadopted_replica_does_not_count() {
        let silent = Replica { name: "p0".into(), served: Err("refused".into()) };
        let [mut stale, mut slow] = [replica("p0", "x", None), replica("p0", "x", None)];
        stale.served.as_mut().unwrap().freshness = Freshness::Stale;
        slow.served.as_mut().unwrap().adopted = false;
        for (replica, part) in
            [(silent, "refused"), (stale, "earlier process"), (slow, "older configuration")]
        {
            let lagging = agreed_digest(&[replica], &WaitTarget::default()).unwrap_err();
            assert!(lagging.contains(part), "{lagging}");
        }
    }
}
