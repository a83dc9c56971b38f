//! Reads manifests or the objects of a cluster once and translates them to a snapshot, for commands that do not serve traffic.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fairway_cluster::source;
use fairway_compare::Annotated;
use fairway_control::{Engine, EngineOutput, clock};
use fairway_gateway::PortTransport;
use fairway_ingress::Translation;
use fairway_migrate::{Ingresses, SeenKinds};
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::options::{GatewayPlacement, Options};
use fairway_objects::placement::{GatewayAddresses, Placement, PortPlacement, PortState};
use fairway_objects::resources::Change;

use crate::args::{AddressArgs, ClusterArgs, TranslationArgs};
use crate::standard_input;

/// The translation of the objects of a directory or a cluster.
pub(crate) struct OfflineTranslation {
    /// The outcome of the translation.
    pub(crate) outcome: EngineOutput,
    /// All diagnostics, sorted by file and line.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Number of manifest files; `None` for a cluster.
    pub(crate) files: Option<usize>,
    /// Number of objects.
    pub(crate) objects: usize,
    /// The Ingresses with the file and line of each.
    pub(crate) ingresses: Ingresses,
    /// The Ingresses with their annotations.
    pub(crate) annotated: Annotated,
}

/// Objects that have been read but not yet translated.
pub(crate) struct ReadObjects {
    pub(crate) changes: Vec<Change>,
    diagnostics: Vec<Diagnostic>,
    files: Option<usize>,
    /// The options for their translation.
    pub(crate) options: Options,
}

/// Where to read objects.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    /// A directory, a file, or `-` for standard input; `None` reads the cluster.
    pub(crate) manifests: Option<&'a Path>,
    pub(crate) cluster: &'a ClusterArgs,
    pub(crate) translation: &'a TranslationArgs,
    /// The addresses that the serving process would bind; `None` if they do not matter to the command.
    pub(crate) addresses: Option<&'a AddressArgs>,
}

impl Input<'_> {
    /// Reads and translates the objects.
    ///
    /// # Errors
    /// Flags contradict each other, or nothing can be read.
    pub(crate) fn read_and_translate(self) -> Result<OfflineTranslation> {
        self.read()?.translate()
    }

    /// Reads the objects.
    ///
    /// # Errors
    /// Flags contradict each other, or nothing can be read.
    pub(crate) fn read(self) -> Result<ReadObjects> {
        let mut options = self.translation.options()?;
        if let Some(addresses) = self.addresses {
            addresses.validate(None)?;
            addresses.apply_to(None, &mut options);
        }
        match self.manifests {
            Some(manifests) if manifests.as_os_str() == "-" => {
                self.cluster.refuse_without_cluster("standard input")?;
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

/// Reads a directory or a file. Fails if it cannot be read or contains no manifest.
fn read(path: &Path, options: Options) -> Result<ReadObjects> {
    let contents =
        fairway_control::directory::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if contents.files == 0 {
        bail!("{} holds no manifest (*.yaml, *.yml, *.json)", path.display());
    }
    let (changes, diagnostics) = (contents.changes, contents.diagnostics);
    Ok(ReadObjects { changes, diagnostics, files: Some(contents.files), options })
}

/// Reads manifests from standard input. Fails if it cannot be read, is not text or contains no manifest.
fn read_standard_input(options: Options) -> Result<ReadObjects> {
    let text = standard_input::text()?;
    let contents = fairway_control::directory::read_text("standard input", &text);
    if contents.changes.is_empty() && contents.diagnostics.is_empty() {
        bail!("the standard input holds no manifest");
    }
    let (changes, diagnostics) = (contents.changes, contents.diagnostics);
    Ok(ReadObjects { changes, diagnostics, files: Some(1), options })
}

/// Reads a cluster with the caller's credentials. Fails if the API server cannot be reached or does not list Ingresses.
fn read_cluster(cluster: &ClusterArgs, options: Options) -> Result<ReadObjects> {
    let selection = cluster.selection(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (changes, diagnostics) = runtime.block_on(async {
        let client = source::connect(&cluster.credentials()).await?;
        source::read_once(&client, &selection).await
    })?;
    Ok(ReadObjects { changes, diagnostics, files: None, options: selection.options })
}

impl ReadObjects {
    /// The kinds of objects that the input contains. References to objects of other kinds cannot be checked.
    pub(crate) fn seen_kinds(&self) -> SeenKinds {
        match self.files {
            Some(_) => SeenKinds::among(&self.changes),
            None => SeenKinds::Cluster,
        }
    }

    /// Translates the objects.
    ///
    /// # Errors
    /// Never: the first update always has an outcome.
    pub(crate) fn translate(self) -> Result<OfflineTranslation> {
        let Self { changes, diagnostics: found, files, options } = self;
        let objects = changes.len();
        let ingresses = Ingresses::among(&changes);
        let annotated = Annotated::among(&changes);
        let outcome = translate_changes(options, changes)?;
        let translated = outcome.diagnostics().iter().chain(outcome.problems.iter()).cloned();
        let mut diagnostics: Vec<_> = found.into_iter().chain(translated).collect();
        diagnostics.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        Ok(OfflineTranslation { outcome, diagnostics, files, objects, ingresses, annotated })
    }
}

/// Translates objects, assuming placements for the Gateways of a cluster.
///
/// # Errors
/// Never: the first update always has an outcome.
pub(crate) fn translate_changes(options: Options, changes: Vec<Change>) -> Result<EngineOutput> {
    let is_given = options.gateways.placement == GatewayPlacement::Given;
    let mut engine = Engine::new(options);
    engine.update(changes, clock::unix_seconds());
    let nothing = "the first update always has an outcome";
    if is_given {
        let placed = assumed_placements(&engine.current().context(nothing)?.translation);
        engine.update(placed, clock::unix_seconds());
    }
    engine.current().cloned().context(nothing)
}

/// Placements for the Gateways of a cluster, each with ports of its own. Their real addresses are unknown here and do not affect
/// routing. The assumed address is from a documentation network (RFC 5737), so that it cannot clash with the flags.
fn assumed_placements(translation: &Translation) -> Vec<Change> {
    let anywhere = IpAddr::from([192, 0, 2, 0]);
    let mut free = 1024..=u16::MAX;
    let mut changes = Vec::new();
    for (gateway, wanted) in &translation.gateway.wanted_gateways {
        let mut assign_port = |port: &u16| {
            let bind = free.next().map(|free| SocketAddr::new(anywhere, free)).into_iter().collect();
            (*port, PortPlacement { bind, state: PortState::Bound })
        };
        let connections = wanted.ports.iter().filter(|(_, it)| **it != PortTransport::Udp);
        let datagrams = wanted.ports.iter().filter(|(_, it)| **it != PortTransport::Tcp);
        let ports = connections.map(|(port, _)| port).map(&mut assign_port).collect();
        let datagram_ports = datagrams.map(|(port, _)| port).map(&mut assign_port).collect();
        let addresses = GatewayAddresses::Assigned(Vec::new());
        let placement = Some(Arc::new(Placement { addresses, ports, datagram_ports }));
        changes.push(Change::Placed { gateway: gateway.clone(), placement });
    }
    changes
}

fn sort_key(diagnostic: &Diagnostic) -> (&str, u32, &str) {
    let source = diagnostic.origin.source.as_ref();
    source.map_or(("", 0, diagnostic.code), |source| (&source.file, source.line, diagnostic.code))
}
