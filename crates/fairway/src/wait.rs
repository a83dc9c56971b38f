//! `fairway wait`: asks every replica what it serves until all of them serve what is wanted.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use fairway_control::admin::Served;
use fairway_control::fleet::{self, Fleet, Replica};
use fairway_control::{Freshness, cluster};
use fairway_translate::ObjectKey;
use tokio::time::{Instant, sleep};

use crate::args::{FleetArgs, WaitArgs};
use crate::ask;

/// The rest between two rounds.
const ROUND: Duration = Duration::from_millis(100);

/// What is waited for.
#[derive(Debug, Default)]
struct Wanted {
    replicas: usize,
    digest: Option<String>,
    ingress: Option<Ingress>,
}

/// An Ingress as it is written.
#[derive(Debug)]
struct Ingress {
    key: ObjectKey,
    /// Its uid and resource version, when the API server has it.
    written: Option<(String, String)>,
}

/// Where replicas are asked.
enum Replicas {
    /// By address.
    Addresses(Vec<std::net::SocketAddr>),
    /// The pods of a cluster.
    Pods(Fleet, cluster::Client),
}

/// Waits; 0 when all serve it, 1 when the time is over.
pub(crate) fn wait(args: &WaitArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let deadline = Instant::now() + args.timeout;
        let replicas = Replicas::of(args).await?;
        let wanted = Wanted::of(args, &replicas).await?;
        loop {
            let told = replicas.ask(wanted.ingress.as_ref().map(|ingress| &ingress.key)).await?;
            match judge(&told, &wanted) {
                Ok(digest) => {
                    writeln!(io::stdout(), "{digest} serves on {} of {} replicas", told.len(), told.len())?;
                    return Ok(ExitCode::SUCCESS);
                }
                Err(lagging) if Instant::now() >= deadline => {
                    writeln!(io::stderr(), "not within {:?}: {lagging}", args.timeout)?;
                    return Ok(ExitCode::from(1));
                }
                Err(_) => sleep(ROUND).await,
            }
        }
    })
}

impl Replicas {
    async fn of(args: &WaitArgs) -> Result<Self> {
        if !args.admin.is_empty() {
            return Ok(Self::Addresses(args.admin.clone()));
        }
        let client = cluster::connect(&args.fleet.cluster().credentials()).await?;
        let FleetArgs { namespace, selector, probe_port, .. } = &args.fleet;
        let fleet = Fleet { namespace: namespace.clone(), selector: selector.clone(), port: *probe_port };
        Ok(Self::Pods(fleet, client))
    }

    async fn ask(&self, ingress: Option<&ObjectKey>) -> Result<Vec<Replica>> {
        match self {
            Self::Pods(fleet, client) => Ok(fleet.ask(client, ingress).await?),
            Self::Addresses(addresses) => {
                let query = ingress.map(|key| format!("?ingress={key}")).unwrap_or_default();
                let path = format!("/served{query}");
                let mut replicas = Vec::new();
                for address in addresses {
                    let page = ask::page(*address, &path).await;
                    let served = page.and_then(|page| Ok(serde_json::from_slice::<Served>(&page)?));
                    let served = served.map_err(|error| format!("{error:#}"));
                    replicas.push(Replica { name: address.to_string(), served });
                }
                Ok(replicas)
            }
        }
    }
}

impl Wanted {
    async fn of(args: &WaitArgs, replicas: &Replicas) -> Result<Self> {
        let mut wanted = Self { replicas: args.replicas, digest: args.digest.clone(), ingress: None };
        if let Some(text) = &args.ingress {
            let key =
                ObjectKey::parse(text).with_context(|| format!("--ingress {text}: is no NAMESPACE/NAME"))?;
            let Replicas::Pods(_, client) = replicas else {
                anyhow::bail!("--ingress is looked up in a cluster: it does not go with --admin");
            };
            let written = fleet::written(client, &key).await;
            let written = written.with_context(|| format!("the Ingress {key} cannot be read"))?;
            wanted.ingress = Some(Ingress { key, written });
        }
        Ok(wanted)
    }
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
    let Ingress { key, written } = wanted.ingress.as_ref()?;
    match (&served.ingress, written) {
        (None, None) => None,
        (None, Some(_)) => Some(format!("does not serve the Ingress {key}")),
        (Some(_), None) => Some(format!("serves the Ingress {key}, which is gone")),
        (Some(served), Some((uid, version))) => {
            let same = served.uid == *uid && fleet::is_at_least(&served.resource_version, version);
            (!same)
                .then(|| format!("serves the Ingress {key} at resource version {}", served.resource_version))
        }
    }
}

#[cfg(test)]
mod tests {
    use fairway_control::admin::ServedIngress;

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
        let written = written.map(|version| ("u".to_owned(), version.to_owned()));
        Wanted {
            replicas: 2,
            digest: None,
            ingress: Some(Ingress { key: ObjectKey::new("a", "web"), written }),
        }
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
