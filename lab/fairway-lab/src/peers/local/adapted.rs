//! nginx, HAProxy, Envoy and Caddy with the configurations that the adapter renders.

use std::collections::BTreeMap;

use fairway_lab_measure::results::NamedText;
use fairway_lab_measure::{Program, Release};
use fairway_lab_traffic::backend::Spoken;

use super::super::adapted::find;
use super::super::artifacts::Artifacts;
use super::peer::{BACKEND, LocalPeer, LocalSite};
use super::running;
use crate::adapter::haproxy::Slots;
use crate::adapter::{
    Action, Certificate, Desired, Frame, Host, Listen, PathMatch, Rule, caddy, envoy, haproxy, nginx,
};
use crate::peers::names::CERTIFICATE;

/// One of them.
pub(super) struct Adapted {
    pub(super) kind: Kind,
    pub(super) release: Release,
}

/// Which of them.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Nginx,
    Haproxy,
    Envoy,
    Caddy,
}

impl LocalPeer for Adapted {
    fn start(&self, artifacts: &Artifacts, site: &LocalSite) -> anyhow::Result<Program> {
        let (frame, desired) = (frame(site), desired(site));
        let mut command = find(artifacts, self.kind.program(), &self.release)?.command();
        match self.kind {
            Kind::Nginx => {
                nginx::store(&frame, &desired, 1)?;
                command.args(nginx::arguments(&frame));
                if rustix::process::geteuid().is_root() {
                    // Else workers become a user who may not reach the folder.
                    command.args(["-g", "user root;"]);
                }
            }
            Kind::Haproxy => {
                haproxy::store(&frame, &desired, &slots(&desired), 1)?;
                command.args(haproxy::arguments(&frame));
            }
            Kind::Envoy => {
                envoy::store(&frame, &desired)?;
                command.args(envoy::arguments(&frame));
            }
            Kind::Caddy => {
                caddy::store(&frame, &desired, None)?;
                command.args(caddy::arguments(&frame)).envs(caddy::environment(&frame));
            }
        }
        running::start(&mut command, site)
    }

    fn configuration(&self, site: &LocalSite) -> anyhow::Result<Vec<NamedText>> {
        let (frame, mut desired) = (frame(site), desired(site));
        for certificate in desired.certificates.values_mut() {
            "(not shown)".clone_into(&mut certificate.key);
        }
        let text = |name: &str, text: String| NamedText { name: name.to_owned(), text };
        Ok(match self.kind {
            Kind::Nginx => vec![text(nginx::CONFIGURATION, nginx::render(&frame, &desired, 1))],
            Kind::Haproxy => {
                vec![text(haproxy::CONFIGURATION, haproxy::render(&frame, &desired, &slots(&desired), 1))]
            }
            Kind::Envoy => {
                let files = envoy::render(&frame, &desired).into_iter();
                files.map(|(name, value)| text(&name, format!("{value:#}"))).collect()
            }
            Kind::Caddy => {
                let value = caddy::render(&frame, &desired, None);
                vec![text(caddy::CONFIGURATION, format!("{value:#}"))]
            }
        })
    }
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Caddy => "caddy",
        }
    }
}

fn slots(desired: &Desired) -> Slots {
    let mut slots = Slots::default();
    slots.fit(&desired.backends);
    slots
}

fn frame(site: &LocalSite) -> Frame {
    Frame {
        listen: Listen { http: site.http, https: site.https },
        workers: Some(site.workers),
        settings: site.settings,
        tls: site.tls,
        folder: site.folder.clone(),
    }
}

fn desired(site: &LocalSite) -> Desired {
    let action = Action::Forward { backend: BACKEND.to_owned(), strip: None };
    let host = Host {
        certificate: Some(CERTIFICATE.to_owned()),
        rules: vec![Rule { path: PathMatch::Prefix("/".to_owned()), action }],
        ..Host::default()
    };
    let certificate = Certificate { chain: site.chain_pem.clone(), key: site.key_pem.clone() };
    Desired {
        hosts: site.hosts.iter().map(|name| (name.clone(), host.clone())).collect(),
        backends: BTreeMap::from([(BACKEND.to_owned(), site.backends.clone())]),
        grpc: (site.upstream == Spoken::Grpc).then(|| BACKEND.to_owned()).into_iter().collect(),
        certificates: BTreeMap::from([(CERTIFICATE.to_owned(), certificate)]),
    }
}
