//! `fairway wait`: asks every replica what it serves until all of them serve what is wanted.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fairway_cluster::fleet::{self, Asked, Fleet, Replica, Written};
use fairway_cluster::source;
use fairway_control::Freshness;
use fairway_control::admin::Served;
use fairway_objects::object::ObjectKey;
use tokio::time::{Instant, sleep, timeout_at};

use crate::args::{FleetArgs, WaitArgs};
use crate::ask;
use crate::terminal::Plain;

/// The rest between two rounds.
const ROUND: Duration = Duration::from_millis(100);

/// Nobody waits longer, and no clock can add every number of seconds.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A round may take at least so long.
const LEAST: Duration = Duration::from_secs(1);

/// What is waited for.
#[derive(Debug, Default)]
struct Wanted {
    replicas: usize,
    digest: Option<String>,
    object: Option<Object>,
}

/// An object as it is written.
#[derive(Debug)]
struct Object {
    asked: Asked,
    /// `None` when the API server has none of its name.
    written: Option<Written>,
}

/// Where replicas are asked.
enum Replicas {
    /// By address.
    Addresses(Vec<SocketAddr>),
    /// The pods of a cluster.
    Pods(Fleet, source::Client),
}

/// Waits; 0 when all serve it, 1 when the time is over.
pub(crate) fn wait(args: &WaitArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(waited(args));
    // The system may still look up a name, which cannot be ended.
    runtime.shutdown_background();
    ended
}

async fn waited(args: &WaitArgs) -> Result<ExitCode> {
    let deadline = Instant::now() + args.timeout.min(LONGEST);
    // Even without any time left, everything is asked once.
    let until = || deadline.max(Instant::now() + LEAST);
    let Ok(begun) = timeout_at(until(), begun(args)).await else {
        return late(args, "the API server has not answered");
    };
    let (replicas, wanted) = begun?;
    let mut lagging = "the replicas have not answered".to_owned();
    loop {
        let object = wanted.object.as_ref().map(|object| &object.asked);
        if let Some(told) = replicas.ask(object, until()).await? {
            match judge(&told, &wanted) {
                Ok(digest) => {
                    let count = told.len();
                    writeln!(io::stdout(), "{digest} serves on {count} of {count} replicas")?;
                    return Ok(ExitCode::SUCCESS);
                }
                Err(why) => lagging = why,
            }
        }
        if Instant::now() >= deadline {
            return late(args, &lagging);
        }
        sleep(ROUND).await;
    }
}

fn late(args: &WaitArgs, lagging: &str) -> Result<ExitCode> {
    writeln!(Plain(io::stderr()), "not within {:?}: {lagging}", args.timeout)?;
    Ok(ExitCode::from(1))
}

/// The replicas, and what they are to serve: the API server is asked for the object.
async fn begun(args: &WaitArgs) -> Result<(Replicas, Wanted)> {
    let replicas = Replicas::of(args).await?;
    let wanted = Wanted::of(args, &replicas).await?;
    Ok((replicas, wanted))
}

impl Replicas {
    async fn of(args: &WaitArgs) -> Result<Self> {
        if !args.admin.is_empty() {
            return Ok(Self::Addresses(args.admin.clone()));
        }
        let client = source::connect(&args.fleet.cluster().credentials()).await?;
        let FleetArgs { namespace, selector, probe_port, .. } = &args.fleet;
        let fleet = Fleet { namespace: namespace.clone(), selector: selector.clone(), port: *probe_port };
        Ok(Self::Pods(fleet, client))
    }

    /// What each of them says; `None` when the API server does not list them and pass on their answers in time.
    async fn ask(&self, object: Option<&Asked>, until: Instant) -> Result<Option<Vec<Replica>>> {
        match self {
            Self::Pods(fleet, client) => {
                // Each pod has this time; the list of pods has a second more.
                let listed = timeout_at(until + LEAST, fleet.ask(client, object, until)).await;
                listed.map_or(Ok(None), |replicas| Ok(Some(replicas?)))
            }
            Self::Addresses(addresses) => {
                let query = object.map(Asked::query).unwrap_or_default();
                // All at the same time: one that is silent keeps no other from being asked, and is named.
                let asked: Vec<_> =
                    addresses.iter().map(|it| tokio::spawn(replica(*it, query.clone(), until))).collect();
                let mut replicas = Vec::new();
                for replica in asked {
                    replicas.push(replica.await?);
                }
                Ok(Some(replicas))
            }
        }
    }
}

/// What the replica at an address says.
async fn replica(address: SocketAddr, query: String, until: Instant) -> Replica {
    let path = format!("/served{query}");
    let served = match timeout_at(until, ask::page(address, &path)).await {
        Ok(page) => page.and_then(|page| Ok(serde_json::from_slice::<Served>(&page)?)),
        Err(_) => Err(anyhow!("no answer in time")),
    };
    Replica { name: address.to_string(), served: served.map_err(|error| format!("{error:#}")) }
}

impl Wanted {
    async fn of(args: &WaitArgs, replicas: &Replicas) -> Result<Self> {
        let mut wanted = Self { replicas: args.replicas, digest: args.digest.clone(), object: None };
        if let Some((flag, asked)) = asked(args)? {
            let Replicas::Pods(_, client) = replicas else {
                anyhow::bail!("{flag} is looked up in a cluster: it does not go with --admin");
            };
            let written = fleet::written(client, &asked).await;
            let written = written.with_context(|| format!("the {asked} cannot be read"))?;
            wanted.object = Some(Object { asked, written });
        }
        Ok(wanted)
    }
}

/// The object that is waited for, and the flag that names it.
fn asked(args: &WaitArgs) -> Result<Option<(&'static str, Asked)>> {
    if let Some(text) = &args.ingress {
        let key =
            ObjectKey::parse(text).with_context(|| format!("--ingress {text}: is no NAMESPACE/NAME"))?;
        return Ok(Some(("--ingress", Asked::Ingress(key))));
    }
    let Some(text) = &args.object else { return Ok(None) };
    Ok(Some(("--object", object(text)?)))
}

fn object(text: &str) -> Result<Asked> {
    Asked::object(text).with_context(|| {
        let kinds: Vec<_> = Asked::kinds().map(|known| known.name.to_ascii_lowercase()).collect();
        let kinds = kinds.join(", ");
        format!("--object {text}: is no KIND/NAMESPACE/NAME, as in httproute/shop/web, of one of the kinds {kinds}")
    })
}

/// The digest that all serve; else who does not, and why.
fn judge(replicas: &[Replica], wanted: &Wanted) -> Result<String, String> {
    if replicas.len() < wanted.replicas.max(1) {
        return Err(format!("{} replicas of {} are there", replicas.len(), wanted.replicas.max(1)));
    }
    let mut digest: Option<(&str, &str)> = None;
    for Replica { name, served } in replicas {
        let served = served.as_ref().map_err(|problem| format!("{name} does not say: {problem}"))?;
        lagging(served, wanted).map_or(Ok(()), |why| Err(format!("{name} {why}")))?;
        match digest {
            Some((other, theirs)) if theirs != served.digest => {
                return Err(format!("{name} serves {} and {other} serves {theirs}", served.digest));
            }
            _ => digest = Some((name, &served.digest)),
        }
    }
    Ok(digest.map(|(_, digest)| digest.to_owned()).unwrap_or_default())
}

/// Why a replica does not serve what is wanted yet.
fn lagging(served: &Served, wanted: &Wanted) -> Option<String> {
    if !served.adopted {
        return Some("has workers that serve an older configuration".to_owned());
    }
    if served.freshness == Freshness::Stale {
        return Some("serves the configuration of an earlier process: the API has not answered".to_owned());
    }
    if let Some(digest) = &wanted.digest
        && *digest != served.digest
    {
        return Some(format!("serves {}", served.digest));
    }
    let Object { asked, written } = wanted.object.as_ref()?;
    match (known(served, asked), written) {
        (None, None) => None,
        (None, Some(_)) => Some(format!("does not serve the {asked}")),
        (Some(_), None) => Some(format!("serves the {asked}, which is gone")),
        (Some(known), Some(written)) => {
            (!known.is(written, asked)).then(|| format!("serves the {asked} at {}", known.version(asked)))
        }
    }
}

/// An object as a replica knows it.
struct Known<'s> {
    uid: &'s str,
    resource_version: &'s str,
    generation: Option<i64>,
}

fn known<'s>(served: &'s Served, asked: &Asked) -> Option<Known<'s>> {
    match asked {
        Asked::Ingress(_) => served.ingress.as_ref().map(|it| Known {
            uid: &it.uid,
            resource_version: &it.resource_version,
            generation: it.generation,
        }),
        Asked::Object(_) => served.object.as_ref().map(|it| Known {
            uid: &it.uid,
            resource_version: &it.resource_version,
            generation: it.generation,
        }),
    }
}

impl Known<'_> {
    /// Whether this is the object that is written, or a later one. Annotations of an Ingress change its resource version alone;
    /// the resource version of an object of the Gateway API changes with each status, whoever writes one.
    fn is(&self, written: &Written, asked: &Asked) -> bool {
        let late_enough = match asked {
            Asked::Ingress(_) => fleet::is_at_least(self.resource_version, &written.resource_version),
            Asked::Object(_) => self.generation >= written.generation,
        };
        self.uid == written.uid && late_enough
    }

    fn version(&self, asked: &Asked) -> String {
        match asked {
            Asked::Ingress(_) => format!("resource version {}", self.resource_version),
            Asked::Object(_) => format!("generation {}", self.generation.unwrap_or_default()),
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
        let served = Served {
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

    fn wanted(written: Option<&str>) -> Wanted {
        let written = written.map(|version| Written {
            uid: "u".to_owned(),
            resource_version: version.to_owned(),
            generation: Some(1),
        });
        let asked = Asked::Ingress(ObjectKey::new("a", "web"));
        Wanted { replicas: 2, digest: None, object: Some(Object { asked, written }) }
    }

    #[test]
    fn all_must_serve_the_same_and_the_ingress_as_it_is_written() {
        let two = |a, b| [replica("p0", a, Some("9")), replica("p1", b, Some("10"))];
        assert_eq!(judge(&two("x", "x"), &wanted(Some("9"))), Ok("x".to_owned()));
        assert!(judge(&two("x", "y"), &wanted(Some("9"))).unwrap_err().contains("p1 serves y"));
        assert!(
            judge(&two("x", "x"), &wanted(Some("10")))
                .unwrap_err()
                .starts_with("p0 serves the Ingress a/web")
        );
        assert!(judge(&two("x", "x"), &wanted(None)).unwrap_err().contains("which is gone"));
        assert!(judge(&two("x", "x")[..1], &wanted(Some("9"))).unwrap_err().contains("1 replicas of 2"));
        let absent = [replica("p0", "x", None), replica("p1", "x", None)];
        assert_eq!(judge(&absent, &wanted(None)), Ok("x".to_owned()));
        assert!(judge(&absent, &wanted(Some("9"))).unwrap_err().contains("does not serve"));
    }

    #[test]
    fn an_object_that_cannot_be_asked_for_is_refused_with_the_kinds_that_can() {
        assert_eq!(
            object("service/a/web").unwrap_err().to_string(),
            "--object service/a/web: is no KIND/NAMESPACE/NAME, as in httproute/shop/web, of one of the kinds \
             gatewayclass, gateway, listenerset, httproute, grpcroute, tlsroute, tcproute, udproute, backendtlspolicy, \
             clienttrafficpolicy, backendtrafficpolicy, securitypolicy, extensionpolicy, inferencepool"
        );
    }

    #[test]
    fn a_route_counts_by_its_generation_whoever_writes_its_status() {
        let told = |generation, uid: &str| {
            let mut replica = replica("p0", "x", None);
            let served = replica.served.as_mut().unwrap();
            served.object = Some(ServedObject {
                kind: "HTTPRoute".into(),
                name: "a/web".into(),
                uid: uid.into(),
                resource_version: "1".into(),
                generation: Some(generation),
            });
            let asked = Asked::object("httproute/a/web").unwrap();
            let written = Written { uid: "u".into(), resource_version: "9".into(), generation: Some(2) };
            let object = Some(Object { asked, written: Some(written) });
            judge(&[replica], &Wanted { replicas: 1, digest: None, object })
        };
        assert_eq!(told(2, "u"), Ok("x".to_owned()));
        assert_eq!(told(3, "u"), Ok("x".to_owned()));
        assert!(told(1, "u").unwrap_err().contains("serves the HTTPRoute a/web at generation 1"));
        assert!(told(2, "another").is_err());
    }

    #[test]
    fn a_replica_that_is_silent_stale_or_not_adopted_does_not_count() {
        let silent = Replica { name: "p0".into(), served: Err("refused".into()) };
        let [mut stale, mut slow] = [replica("p0", "x", None), replica("p0", "x", None)];
        stale.served.as_mut().unwrap().freshness = Freshness::Stale;
        slow.served.as_mut().unwrap().adopted = false;
        for (replica, part) in
            [(silent, "refused"), (stale, "earlier process"), (slow, "older configuration")]
        {
            let told = judge(&[replica], &Wanted::default()).unwrap_err();
            assert!(told.contains(part), "{told}");
        }
    }
}
