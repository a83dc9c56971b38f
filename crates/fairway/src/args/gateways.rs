//! The flags about the Gateway API.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail};
use clap::Args;
use fairway_cluster::source::ServeGateways;
use fairway_cluster::status::{PortRange, ServiceType};
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{GATEWAY_CONTROLLER, GatewayOptions, Places, ReservedPorts};

/// The value of `--gateway-controller` with which nothing of the Gateway API is served.
const NONE: &str = "none";

/// What objects of the Gateway API mean.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Gateway API")]
pub(crate) struct GatewayArgs {
    /// The spec.controllerName of the GatewayClasses that are served; none serves nothing of the Gateway API
    #[arg(long, env = "FAIRWAY_GATEWAY_CONTROLLER", value_name = "NAME", default_value = GATEWAY_CONTROLLER)]
    pub(crate) gateway_controller: String,
    /// The addresses at which Gateways of manifests listen, each on the ports of its listeners [default: 0.0.0.0]
    #[arg(long, env = "FAIRWAY_GATEWAY_ADDRESS", value_name = "ADDR", value_delimiter = ',')]
    pub(crate) gateway_address: Vec<IpAddr>,
}

/// Where Gateways are in a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gateway API")]
pub(crate) struct GatewayPlaceArgs {
    /// The headless Service that selects Fairway's pods. Each Gateway's Service leads to them; without this flag Gateways
    /// have no addresses
    #[arg(long, env = "FAIRWAY_GATEWAY_PODS", value_name = "NS/NAME")]
    pub(crate) gateway_pods: Option<String>,
    /// The ports of the pods that Gateways may have: one for each port of each Gateway [default: 20000-29999]
    #[arg(long, env = "FAIRWAY_GATEWAY_PORTS", value_name = "RANGE")]
    pub(crate) gateway_ports: Option<PortRange>,
    /// The type of the Service that each Gateway gets: LoadBalancer, NodePort or ClusterIP [default: LoadBalancer]
    #[arg(long, env = "FAIRWAY_GATEWAY_SERVICE_TYPE", value_name = "TYPE")]
    pub(crate) gateway_service_type: Option<ServiceType>,
}

impl GatewayArgs {
    /// The translator's options for manifests.
    pub(crate) fn options(&self) -> GatewayOptions {
        let everywhere = || vec![IpAddr::from([0, 0, 0, 0])];
        let addresses =
            if self.gateway_address.is_empty() { everywhere() } else { self.gateway_address.clone() };
        let (controller, places) = (self.gateway_controller.as_str().into(), Places::At(addresses));
        GatewayOptions { controller, places, ..GatewayOptions::default() }
    }

    /// # Errors
    /// A flag that is about manifests was given although a cluster is asked.
    pub(crate) fn refuse_address_in_a_cluster(&self) -> Result<()> {
        if self.gateway_address.is_empty() {
            return Ok(());
        }
        bail!(
            "--gateway-address is for --manifests: in a cluster each Gateway has a Service with an address of its own"
        )
    }
}

/// Whether a cluster is asked for objects of the Gateway API.
pub(crate) fn serve(options: &GatewayOptions) -> ServeGateways {
    if *options.controller == *NONE { ServeGateways::No } else { ServeGateways::Yes }
}

impl GatewayPlaceArgs {
    /// # Errors
    /// A flag was given although no cluster is asked, or would have no effect.
    pub(crate) fn validate(&self, in_a_cluster: bool) -> Result<()> {
        let given = [
            (self.gateway_pods.is_some(), "--gateway-pods"),
            (self.gateway_ports.is_some(), "--gateway-ports"),
            (self.gateway_service_type.is_some(), "--gateway-service-type"),
        ];
        let Some((_, flag)) = given.into_iter().find(|(given, _)| *given) else { return Ok(()) };
        if !in_a_cluster {
            bail!("{flag} is about a cluster: it goes with --kubernetes, not with --manifests");
        }
        if self.gateway_pods.is_none() {
            bail!("{flag} without --gateway-pods: Gateways have no addresses");
        }
        self.pods().map(drop)
    }

    /// The ports of the pods that Gateways may have; none without Gateways in a cluster.
    pub(super) fn reserved(&self) -> Option<ReservedPorts> {
        self.gateway_pods.as_ref()?;
        let ports = self.gateway_ports.unwrap_or_default().ports();
        Some(ReservedPorts { ports, by: "--gateway-ports".into(), protocol: None })
    }

    /// The ports of the pods that Gateways may have; `None` where they have none.
    ///
    /// # Errors
    /// `--gateway-pods` is no `NAMESPACE/NAME`.
    pub(crate) fn ports(&self) -> Result<Option<RangeInclusive<u16>>> {
        Ok(self.pods()?.map(|_| self.gateway_ports.unwrap_or_default().ports()))
    }

    /// The Service of Fairway's pods.
    ///
    /// # Errors
    /// The flag is no `NAMESPACE/NAME`.
    pub(crate) fn pods(&self) -> Result<Option<ObjectKey>> {
        let text = self.gateway_pods.as_deref();
        text.map(|text| {
            ObjectKey::parse(text).with_context(|| format!("--gateway-pods {text}: is no NAMESPACE/NAME"))
        })
        .transpose()
    }
}
