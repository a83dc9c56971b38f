//! The flags of the Gateway API.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail};
use clap::Args;
use fairway_cluster::source::ServeGateways;
use fairway_cluster::status::{PortRange, ServiceType};
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{GATEWAY_CONTROLLER, GatewayOptions, GatewayPlacement, ReservedPorts};

/// The value of `--gateway-controller` that turns the Gateway API off.
const NO_CONTROLLER: &str = "none";

/// The translation of Gateway API objects.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Gateway API")]
pub(crate) struct GatewayArgs {
    /// spec.controllerName of the GatewayClasses to serve; none turns the Gateway API off
    #[arg(long, env = "FAIRWAY_GATEWAY_CONTROLLER", value_name = "NAME", default_value = GATEWAY_CONTROLLER)]
    pub(crate) gateway_controller: String,
    /// Addresses at which Gateways listen with --manifests, each on the ports of its listeners [default: 0.0.0.0]
    #[arg(long, env = "FAIRWAY_GATEWAY_ADDRESS", value_name = "ADDR", value_delimiter = ',')]
    pub(crate) gateway_address: Vec<IpAddr>,
}

/// The Services and ports of Gateways in a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gateway API")]
pub(crate) struct ClusterGatewayArgs {
    /// Headless Service that selects Fairway's pods. The Service of each Gateway leads to these pods; without this flag, Gateways
    /// have no addresses
    #[arg(long, env = "FAIRWAY_GATEWAY_PODS", value_name = "NS/NAME")]
    pub(crate) gateway_pods: Option<String>,
    /// Pod ports for Gateways: one for each port of each Gateway [default: 20000-29999]
    #[arg(long, env = "FAIRWAY_GATEWAY_PORTS", value_name = "RANGE")]
    pub(crate) gateway_ports: Option<PortRange>,
    /// Type of the Service of each Gateway: LoadBalancer, NodePort or ClusterIP [default: LoadBalancer]
    #[arg(long, env = "FAIRWAY_GATEWAY_SERVICE_TYPE", value_name = "TYPE")]
    pub(crate) gateway_service_type: Option<ServiceType>,
}

impl GatewayArgs {
    /// The translator's options for manifests.
    pub(crate) fn options(&self) -> GatewayOptions {
        let everywhere = || vec![IpAddr::from([0, 0, 0, 0])];
        let addresses =
            if self.gateway_address.is_empty() { everywhere() } else { self.gateway_address.clone() };
        let (controller, places) = (self.gateway_controller.as_str().into(), GatewayPlacement::At(addresses));
        GatewayOptions { controller, placement: places, ..GatewayOptions::default() }
    }

    /// # Errors
    /// `--gateway-address`, which is for manifests, was given with a cluster.
    pub(crate) fn refuse_address_in_a_cluster(&self) -> Result<()> {
        if self.gateway_address.is_empty() {
            return Ok(());
        }
        bail!(
            "--gateway-address is for --manifests only: in a cluster each Gateway has a Service with its own address"
        )
    }
}

/// Whether to read Gateway API objects from a cluster.
pub(crate) fn serve_gateways(options: &GatewayOptions) -> ServeGateways {
    if *options.controller == *NO_CONTROLLER { ServeGateways::No } else { ServeGateways::Yes }
}

impl ClusterGatewayArgs {
    /// # Errors
    /// A flag was given without a cluster, or would have no effect.
    pub(crate) fn validate(&self, in_a_cluster: bool) -> Result<()> {
        let flags = [
            (self.gateway_pods.is_some(), "--gateway-pods"),
            (self.gateway_ports.is_some(), "--gateway-ports"),
            (self.gateway_service_type.is_some(), "--gateway-service-type"),
        ];
        let Some((_, flag)) = flags.into_iter().find(|(given, _)| *given) else { return Ok(()) };
        if !in_a_cluster {
            bail!("{flag} is for --kubernetes only, not for --manifests");
        }
        if self.gateway_pods.is_none() {
            bail!("{flag} without --gateway-pods: Gateways have no addresses");
        }
        self.pods_service().map(drop)
    }

    /// The pod ports reserved for Gateways, so that TCP and UDP services cannot have them; `None` without `--gateway-pods`.
    pub(super) fn reserved_ports(&self) -> Option<ReservedPorts> {
        self.gateway_pods.as_ref()?;
        let ports = self.gateway_ports.unwrap_or_default().ports();
        Some(ReservedPorts { ports, reserved_by: "--gateway-ports".into(), protocol: None })
    }

    /// The pod ports for Gateways; `None` without `--gateway-pods`.
    ///
    /// # Errors
    /// `--gateway-pods` is not a `NAMESPACE/NAME`.
    pub(crate) fn ports(&self) -> Result<Option<RangeInclusive<u16>>> {
        Ok(self.pods_service()?.map(|_| self.gateway_ports.unwrap_or_default().ports()))
    }

    /// The Service of Fairway's pods.
    ///
    /// # Errors
    /// The flag is not a `NAMESPACE/NAME`.
    pub(crate) fn pods_service(&self) -> Result<Option<ObjectKey>> {
        let text = self.gateway_pods.as_deref();
        text.map(|text| {
            ObjectKey::parse(text).with_context(|| format!("--gateway-pods {text}: is not a NAMESPACE/NAME"))
        })
        .transpose()
    }
}
