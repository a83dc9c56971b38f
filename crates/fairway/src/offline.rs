//! Manifests or the objects of a cluster, read once and made into a snapshot: for commands that do not serve.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fairway_cluster::source;
use fairway_compare::Annotated;
use fairway_control::{Engine, Outcome, clock};
use fairway_gateway::PortTransport;
use fairway_ingress::Translation;
use fairway_migrate::{Given, Ingresses};
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::options::{Options, Places};
use fairway_objects::placement::{Addresses, Placement, PortPlacement, PortState};
use fairway_objects::resources::Change;

use crate::args::{AddressArgs, ClusterArgs, TranslationArgs};
use crate::standard_input;

/// What a directory or a cluster means.
pub(crate) struct Offline {
    /// What was made of its objects.
    pub(crate) outcome: Outcome,
    /// Everything there is to say, in the order of files and lines.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Its manifest files; `None` for a cluster.
    pub(crate) files: Option<usize>,
    /// Its objects that are read.
    pub(crate) objects: usize,
    /// Its Ingresses, and where each was read.
    pub(crate) ingresses: Ingresses,
    /// Its Ingresses as they are written.
    pub(crate) annotated: Annotated,
}

/// Objects that were read, and nothing made of them.
pub(crate) struct Read {
    pub(crate) changes: Vec<Change>,
    diagnostics: Vec<Diagnostic>,
    files: Option<usize>,
    /// How they are to be understood.
    pub(crate) options: Options,
}

/// Where objects are read.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    /// A directory, a file, or `-` for the standard input; the cluster where there is none.
    pub(crate) manifests: Option<&'a Path>,
    pub(crate) cluster: &'a ClusterArgs,
    pub(crate) translation: &'a TranslationArgs,
    /// What the process would bind that serves them; `None` where that decides about nothing that is asked.
    pub(crate) addresses: Option<&'a AddressArgs>,
}

impl Input<'_> {
    /// Reads the objects, and makes a snapshot of them.
    ///
    /// # Errors
    /// Flags contradict each other, or nothing can be read.
    pub(crate) fn offline(self) -> Result<Offline> {
        self.read()?.judged()
    }

    /// Reads the objects.
    ///
    /// # Errors
    /// Flags contradict each other, or nothing can be read.
    pub(crate) fn read(self) -> Result<Read> {
        let mut options = self.translation.options()?;
        if let Some(addresses) = self.addresses {
            addresses.validate(None)?;
            addresses.place(None, &mut options);
        }
        match self.manifests {
            Some(manifests) if manifests.as_os_str() == "-" => {
                self.cluster.refuse_without_cluster("the standard input")?;
                read_standard_input(options)
            }
            Some(manifests) => {
                self.cluster.refuse_without_cluster("a directory")?;
                read(manifests, options)
            }
            None => {
                self.translation.gateways.refuse_address_in_a_cluster()?;
                read_cluster(self.cluster, options)
            }
        }
    }
}

/// Reads a directory or a file: it cannot be read, or holds no manifest.
fn read(path: &Path, options: Options) -> Result<Read> {
    let contents =
        fairway_control::directory::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if contents.files == 0 {
        bail!("{} holds no manifest (*.yaml, *.yml, *.json)", path.display());
    }
    let (changes, diagnostics) = (contents.changes, contents.diagnostics);
    Ok(Read { changes, diagnostics, files: Some(contents.files), options })
}

/// Reads manifests from the standard input: it cannot be read, is no text, or holds no manifest.
fn read_standard_input(options: Options) -> Result<Read> {
    let text = standard_input::text()?;
    let contents = fairway_control::directory::read_text("standard input", &text);
    if contents.changes.is_empty() && contents.diagnostics.is_empty() {
        bail!("the standard input holds no manifest");
    }
    let (changes, diagnostics) = (contents.changes, contents.diagnostics);
    Ok(Read { changes, diagnostics, files: Some(1), options })
}

/// Reads a cluster with the caller's credentials: there is no way to it, or it shows no Ingress.
fn read_cluster(cluster: &ClusterArgs, options: Options) -> Result<Read> {
    let selection = cluster.selection(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (changes, diagnostics) = runtime.block_on(async {
        let client = source::connect(&cluster.credentials()).await?;
        source::read_once(&client, &selection).await
    })?;
    Ok(Read { changes, diagnostics, files: None, options: selection.options })
}

impl Read {
    /// What could be read at all: of other kinds, nobody knows which objects exist.
    pub(crate) fn given(&self) -> Given {
        match self.files {
            Some(_) => Given::among(&self.changes),
            None => Given::Cluster,
        }
    }

    /// What the objects mean.
    ///
    /// # Errors
    /// Never: the first update always has an outcome.
    pub(crate) fn judged(self) -> Result<Offline> {
        let Self { changes, diagnostics: found, files, options } = self;
        let objects = changes.len();
        let ingresses = Ingresses::among(&changes);
        let annotated = Annotated::among(&changes);
        let outcome = outcome(options, changes)?;
        let translated = outcome.diagnostics().iter().chain(outcome.problems.iter()).cloned();
        let mut diagnostics: Vec<_> = found.into_iter().chain(translated).collect();
        diagnostics.sort_by(|a, b| place(a).cmp(&place(b)));
        Ok(Offline { outcome, diagnostics, files, objects, ingresses, annotated })
    }
}

/// What is made of objects.
///
/// # Errors
/// Never: the first update always has an outcome.
pub(crate) fn outcome(options: Options, changes: Vec<Change>) -> Result<Outcome> {
    let given = options.gateways.places == Places::Given;
    let mut engine = Engine::new(options);
    engine.update(changes, clock::unix_seconds());
    let nothing = "the first update always has an outcome";
    if given {
        let placed = placed(&engine.current().context(nothing)?.translation);
        engine.update(placed, clock::unix_seconds());
    }
    engine.current().cloned().context(nothing)
}

/// Places for the Gateways of a cluster, each with ports that no other one has. Where they are there is not known here, and
/// decides about no request; no flag names an address of a network that is for documents (RFC 5737).
fn placed(translation: &Translation) -> Vec<Change> {
    let anywhere = IpAddr::from([192, 0, 2, 0]);
    let mut free = 1024..=u16::MAX;
    let mut changes = Vec::new();
    for (gateway, wanted) in &translation.gateway.wanted {
        let mut place = |port: &u16| {
            let bind = free.next().map(|free| SocketAddr::new(anywhere, free)).into_iter().collect();
            (*port, PortPlacement { bind, state: PortState::Bound })
        };
        let connections = wanted.ports.iter().filter(|(_, it)| **it != PortTransport::Udp);
        let datagrams = wanted.ports.iter().filter(|(_, it)| **it != PortTransport::Tcp);
        let ports = connections.map(|(port, _)| port).map(&mut place).collect();
        let datagram_ports = datagrams.map(|(port, _)| port).map(&mut place).collect();
        let addresses = Addresses::Assigned(Vec::new());
        let placement = Some(Arc::new(Placement { addresses, ports, datagram_ports }));
        changes.push(Change::Placed { gateway: gateway.clone(), placement });
    }
    changes
}

fn place(diagnostic: &Diagnostic) -> (&str, u32, &str) {
    let source = diagnostic.origin.source.as_ref();
    source.map_or(("", 0, diagnostic.code), |source| (&source.file, source.line, diagnostic.code))
}
