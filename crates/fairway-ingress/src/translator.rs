//! Keeps a translation up to date at a cost of what changed. Owns the order of the stages; never reads the meaning
//! of an object itself.
//!
//! An edit marks what it touches ([`work`]); then Ingresses are read again, then Secrets, what Ingresses share,
//! hosts, backends and certificates are made again, each only where it was marked, and each marking what depends on
//! it. The ports of TCP and UDP services come between hosts and backends, and then what the Gateway API says, in pieces from
//! `fairway_gateway`: Gateways get the ports that are left.

mod also_ingress;
mod backends;
mod certificates;
mod claims;
mod dependencies;
mod further;
mod gateways;
mod globals;
mod hosts;
mod ingresses;
mod secrets;
mod served;
mod service_maps;
mod services;
mod state;
mod work;

use fairway_model::Config;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectRef;
use fairway_objects::options::Options;
use fairway_objects::resources::Resources;

use crate::listeners;
use crate::translation::Translation;
use gateways::GatewayStage;
use service_maps::ServiceMapStage;
use state::{Progress, State};
use work::Work;

/// Translates, and after an edit repeats only what the edit touches. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Translator {
    options: Options,
    state: State,
    gateways: GatewayStage,
    service_maps: ServiceMapStage,
}

/// Translates from scratch; `now` is in seconds since 1970.
#[must_use]
pub fn translate(resources: &Resources, options: &Options, now: i64) -> Translation {
    Translator::new(options.clone()).update(resources, &[], now)
}

impl Translator {
    /// One that has seen nothing yet: its first [`Translator::update`] visits everything.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let (state, gateways) = (State::new(&options), GatewayStage::new(&options));
        Self { options, state, gateways, service_maps: ServiceMapStage::default() }
    }

    /// Makes `config`, which an earlier process kept, one for this process: its listeners are where the options say
    /// now.
    pub fn adapt(&self, config: &mut Config) {
        listeners::of_ingresses(&self.options, config);
        listeners::follow_ingresses(config);
        crate::service_maps::adapt(&self.options, config);
    }

    /// The translation of `resources`, of which only `changed` differ from the last call; `now` is in seconds since
    /// 1970.
    pub fn update(&mut self, resources: &Resources, changed: &[ObjectRef], now: i64) -> Translation {
        let inputs = Inputs { resources, options: &self.options };
        let state = &mut self.state;
        let (mut work, mut noted) = match state.progress {
            Progress::New => (Work::all(resources), self.gateways.note_all(resources)),
            Progress::Running { .. } => {
                let touched = work::touched(state, changed, resources, &self.options);
                (touched, self.gateways.note(resources, changed))
            }
        };
        work.secrets.extend(noted.secrets().iter().cloned());
        let hosts_before = state.current.config.hosts.clone();
        state.assign_slices(resources, &mut work);
        state.read_globals(inputs, &mut work);
        state.read_ingresses(inputs, &mut work);
        state.read_old_ingresses(resources, &work);
        state.report_trust(&work);
        state.read_secrets(inputs, self.gateways.gateways(), &mut work, now);
        state.share_services(self.options.hosts.ownership, &mut work);
        state.update_claims(&mut work);
        state.make_hosts(inputs, &mut work);
        state.make_names(inputs, &mut work);
        let ports = self.service_maps.make(state, inputs, changed, &mut work);
        self.gateways.exchange_service_ports(&ports, &mut noted);
        self.gateways.make(state, inputs, noted, &mut work);
        state.make_backends(inputs, &mut work);
        state.make_certificates(&work);
        state.tell_also_ingress(&hosts_before);
        state.current.clone()
    }
}
