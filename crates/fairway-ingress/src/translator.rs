//! Updates a translation at a cost proportional to the change. Defines the order of the stages.
//!
//! A change marks what it affects ([`work`]); then Ingresses, Secrets, shared Service settings, hosts, backends and
//! certificates are rebuilt where marked, each marking its dependents. Ports of TCP and UDP services are processed
//! between hosts and backends, followed by the Gateway API changes from `fairway_gateway`: Gateways get the remaining
//! ports.

mod aliases;
mod also_ingress;
mod backends;
mod certificates;
mod claims;
mod dependencies;
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
use state::{Progress, TranslatorState};
use work::Work;

/// Translates objects, and after a change rebuilds only what it affects. Cloning is free.
#[derive(Clone, Debug)]
pub struct Translator {
    options: Options,
    state: TranslatorState,
    gateways: GatewayStage,
    service_maps: ServiceMapStage,
}

/// Translates from scratch; `now` is in seconds since 1970.
#[must_use]
pub fn translate(resources: &Resources, options: &Options, now: i64) -> Translation {
    Translator::new(options.clone()).update(resources, &[], now)
}

impl Translator {
    /// An empty translator: its first [`Translator::update`] processes everything.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let (state, gateways) = (TranslatorState::new(&options), GatewayStage::new(&options));
        Self { options, state, gateways, service_maps: ServiceMapStage::default() }
    }

    /// Adapts the configuration of an earlier process: moves its listeners to the addresses of the current options.
    pub fn adapt(&self, config: &mut Config) {
        listeners::set_ingress_listeners(&self.options, config);
        listeners::align_gateway_listeners(config);
        crate::service_maps::adapt(&self.options, config);
    }

    /// The translation of `resources`, of which only `changed` differ from the last call; `now` is in seconds since
    /// 1970.
    pub fn update(&mut self, resources: &Resources, changed: &[ObjectRef], now: i64) -> Translation {
        let inputs = Inputs { resources, options: &self.options };
        let state = &mut self.state;
        let (mut work, mut noted) = match state.progress {
            Progress::New => (Work::all(resources), self.gateways.mark_all(resources)),
            Progress::Running { .. } => {
                let touched = work::work_for_changes(state, changed, resources, &self.options);
                (touched, self.gateways.mark_changes(resources, changed))
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
        state.make_aliases(inputs, &mut work);
        let ports = self.service_maps.make(state, inputs, changed, &mut work);
        self.gateways.exchange_service_ports(&ports, &mut noted);
        self.gateways.make(state, inputs, noted, &mut work);
        state.make_backends(inputs, &mut work);
        state.make_certificates(&work);
        state.report_also_ingress(&hosts_before);
        state.current.clone()
    }
}
