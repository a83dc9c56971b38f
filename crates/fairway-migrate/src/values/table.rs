//! The meaning of the values of the ingress-nginx chart: a row for each path of its versions 4.0.15, 4.7.0 and 4.15.0.

use serde_json::Value;

use super::kind::ValueKind::{
    self, Commas, List, ListOf, Mapping, Mappings, Name, Named, Names, OneOf, Ranges, Share, Switch,
    SwitchOfFlag, Text, Texts, Within,
};
use super::outcome::Conversion;
use super::{selectors, service_maps, settings, special};

/// The meaning of a value.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    /// The same as this value of Fairway's chart.
    Is(&'static str, ValueKind),
    /// The same as this value, with a remark.
    Kept(&'static str, ValueKind, &'static str),
    /// A value of this type that is evaluated together with others once all are read.
    Later(ValueKind),
    /// Not needed, with the reason.
    Nothing(&'static str),
    /// A loss, unless the value is empty, false or 0.
    Lost(&'static str),
    /// A loss, unless the value is one of these words.
    Without(&'static [&'static str], &'static str),
    /// A loss if `enabled` below it is true.
    IfEnabled(&'static str),
    /// A loss for each key.
    EachLost(&'static str),
    /// Converted by a function.
    Does(fn(&mut Conversion, &str, &Value) -> Result<(), &'static str>),
    /// Flags of the program.
    Flags,
}

use Meaning::{Does, EachLost, Flags, IfEnabled, Is, Kept, Later, Lost, Nothing, Without};

const PORT_KIND: ValueKind = Within(1, 65_535);
const REPLICAS_KIND: ValueKind = Within(0, 10_000);
const REPLICAS_OF_SCALING: ValueKind = Within(1, 10_000);
const PERCENT_KIND: ValueKind = Within(1, 1_000);
const PERIOD_KIND: ValueKind = Within(1, 3_600);
const DELAY_KIND: ValueKind = Within(0, 3_600);
const REVISIONS_KIND: ValueKind = Within(0, 1_000);
const SERVICE_TYPE: ValueKind = OneOf(&["LoadBalancer", "NodePort", "ClusterIP"]);
const TRAFFIC_POLICY_KIND: ValueKind = OneOf(&["Cluster", "Local"]);
const AFFINITY_KIND: ValueKind = OneOf(&["None", "ClientIP"]);
const LISTENER_KIND: ValueKind = OneOf(&["http", "https"]);
const FAMILIES_KIND: ValueKind = ListOf(&["IPv4", "IPv6"]);
const FAMILY_POLICY: ValueKind = OneOf(&["SingleStack", "PreferDualStack", "RequireDualStack"]);
const DISTRIBUTION_KIND: ValueKind = OneOf(&["PreferClose", "PreferSameZone", "PreferSameNode"]);

const IMAGE_NOTE: &str = "it concerns the image of ingress-nginx; image.repository sets that of Fairway";
const NAMES_NOTE: &str =
    "names of objects come from the release of Fairway, so that it can run beside ingress-nginx";
const WEBHOOK_NOTE: &str =
    "Fairway's chart makes the certificate of the webhook itself, without a job or cert-manager";
const DEFAULT_BACKEND: &str = "Fairway's chart deploys no default backend, so requests that no rule serves are answered 404; to send \
     them to a Service of your own, add --default-backend=NAMESPACE/NAME to extraArgs";
const PROTOCOLS_NOTE: &str = "the ports of the Service name no protocol";
const BY_HAND: &str = "Fairway's chart has no value for it";
const ADD_HEADERS: &str =
    "Fairway's chart makes no ConfigMap of them: make one and name it NAMESPACE/NAME in settings.add-headers";
const PROXY_SET_HEADERS: &str = "Fairway's chart makes no ConfigMap of them: make one and name it NAMESPACE/NAME in settings.proxy-set-headers";
const NODE_ADDRESSES: &str = "it applies only if ingress-nginx publishes the addresses of its nodes";
const PROBE_NOTE: &str = "Fairway sets its own paths and ports of probes";
const LEASE_NOTE: &str = "leader election uses a Lease with the name of the release";
const MONITOR_NOTE: &str = "the ServiceMonitor of Fairway's chart has no such value";
const FOR_THE_CLUSTER: &str = "the Service for metrics is for the cluster only";
const NO_DOWNLOADS_NOTE: &str = "Fairway downloads no GeoIP database: let geoipupdate do it, and name its files with --geoip (docs/geoip.md)";
const NO_POLICY: &str = "Kubernetes has had no PodSecurityPolicy since 1.25";
const TAKEN_NOTE: &str =
    "kept, but the Service of ingress-nginx holds it: leave it out until that Service gives it up";
const ADAPT_METRICS: &str = "kept; metrics of nginx itself do not exist";

/// Paths and meanings. A path that is only a prefix of others is a mapping.
pub(super) const VALUE_ROWS: &[(&str, Meaning)] = &[
    ("commonLabels", Is("commonLabels", Texts)),
    ("fullnameOverride", Nothing(NAMES_NOTE)),
    ("nameOverride", Nothing(NAMES_NOTE)),
    ("namespaceOverride", Nothing("helm --namespace sets the namespace")),
    ("portNamePrefix", Nothing("ports of TCP and UDP services are called PORT-tcp and PORT-udp")),
    ("revisionHistoryLimit", Is("revisionHistoryLimit", REVISIONS_KIND)),
    ("imagePullSecrets", Is("imagePullSecrets", Named)),
    ("global", Nothing(IMAGE_NOTE)),
    ("dhParam", Lost("these parameters are not used; the key exchange is ECDHE")),
    ("tcp", Does(service_maps::services)),
    ("udp", Does(service_maps::services)),
    ("podSecurityPolicy", Nothing(NO_POLICY)),
    ("defaultBackend", IfEnabled(DEFAULT_BACKEND)),
    ("rbac.create", Is("rbac.create", Switch)),
    (
        "rbac.scope",
        Nothing("Fairway's chart makes Roles instead of a ClusterRole if watch.namespaces is set"),
    ),
    ("serviceAccount.create", Is("serviceAccount.create", Switch)),
    ("serviceAccount.name", Is("serviceAccount.name", Text)),
    ("serviceAccount.annotations", Is("serviceAccount.annotations", Texts)),
    (
        "serviceAccount.automountServiceAccountToken",
        Nothing("the token is mounted because Fairway needs the API server"),
    ),
    // The workload.
    ("controller.name", Nothing(NAMES_NOTE)),
    ("controller.containerName", Nothing("the container is called fairway")),
    ("controller.kind", Is("kind", OneOf(&["Deployment", "DaemonSet"]))),
    ("controller.replicaCount", Is("replicas", REPLICAS_KIND)),
    ("controller.minReadySeconds", Is("minReadySeconds", DELAY_KIND)),
    (
        "controller.updateStrategy.type",
        Is("updateStrategy.type", OneOf(&["RollingUpdate", "Recreate", "OnDelete"])),
    ),
    ("controller.updateStrategy.rollingUpdate.maxSurge", Is("updateStrategy.rollingUpdate.maxSurge", Share)),
    (
        "controller.updateStrategy.rollingUpdate.maxUnavailable",
        Is("updateStrategy.rollingUpdate.maxUnavailable", Share),
    ),
    ("controller.progressDeadlineSeconds", Lost(BY_HAND)),
    ("controller.image.pullPolicy", Is("image.pullPolicy", OneOf(&["Always", "IfNotPresent", "Never"]))),
    ("controller.image.registry", Nothing(IMAGE_NOTE)),
    ("controller.image.image", Nothing(IMAGE_NOTE)),
    ("controller.image.repository", Nothing(IMAGE_NOTE)),
    ("controller.image.tag", Nothing(IMAGE_NOTE)),
    ("controller.image.digest", Nothing(IMAGE_NOTE)),
    ("controller.image.digestChroot", Nothing(IMAGE_NOTE)),
    ("controller.image.chroot", Nothing(IMAGE_NOTE)),
    ("controller.image.runAsUser", Nothing(IMAGE_NOTE)),
    ("controller.image.runAsGroup", Nothing(IMAGE_NOTE)),
    ("controller.image.runAsNonRoot", Nothing(IMAGE_NOTE)),
    ("controller.image.allowPrivilegeEscalation", Nothing(IMAGE_NOTE)),
    ("controller.image.readOnlyRootFilesystem", Nothing(IMAGE_NOTE)),
    ("controller.image.seccompProfile", Nothing(IMAGE_NOTE)),
    ("controller.enableMimalloc", Nothing("Fairway has its own allocator")),
    ("controller.existingPsp", Nothing(NO_POLICY)),
    ("controller.extraEnvs", Is("extraEnv", Named)),
    ("controller.resources.requests", Is("resources.requests", Mapping)),
    ("controller.resources.limits", Is("resources.limits", Mapping)),
    ("controller.resources.claims", Is("resources.claims", Mappings)),
    ("controller.resizePolicy", Lost(BY_HAND)),
    ("controller.nodeSelector", Is("nodeSelector", Texts)),
    ("controller.tolerations", Is("tolerations", Mappings)),
    ("controller.affinity", Does(selectors::affinity)),
    ("controller.topologySpreadConstraints", Does(selectors::spread)),
    ("controller.priorityClassName", Is("priorityClassName", Text)),
    ("controller.runtimeClassName", Is("runtimeClassName", Text)),
    ("controller.annotations", Is("annotations", Texts)),
    ("controller.labels", Is("labels", Texts)),
    ("controller.podAnnotations", Does(special::pod_annotations)),
    ("controller.podLabels", Is("podLabels", Texts)),
    ("controller.podSecurityContext", Does(special::pod_security)),
    ("controller.containerSecurityContext", Does(special::container_security)),
    ("controller.sysctls", Does(special::sysctls)),
    ("controller.terminationGracePeriodSeconds", Later(Within(1, 86_400))),
    ("controller.lifecycle", Nothing("Fairway drains connections itself; see drain.delay and drain.timeout")),
    ("controller.shareProcessNamespace", Lost(BY_HAND)),
    ("controller.extraContainers", Is("extraContainers", Named)),
    ("controller.extraInitContainers", Is("extraInitContainers", Named)),
    ("controller.extraVolumes", Is("extraVolumes", Named)),
    ("controller.extraVolumeMounts", Does(special::volume_mounts)),
    ("controller.extraModules", Lost("there are no modules of nginx")),
    ("controller.hostAliases", Is("hostAliases", Mappings)),
    ("controller.hostname", Lost(BY_HAND)),
    ("controller.dnsConfig", Is("dnsConfig", Mapping)),
    ("controller.dnsPolicy", Is("dnsPolicy", OneOf(&["ClusterFirst", "ClusterFirstWithHostNet", "Default"]))),
    ("controller.hostNetwork", Is("hostNetwork", Switch)),
    ("controller.hostPort.enabled", Later(Switch)),
    ("controller.hostPort.ports.http", Later(PORT_KIND)),
    ("controller.hostPort.ports.https", Later(PORT_KIND)),
    ("controller.containerPort.http", Later(PORT_KIND)),
    ("controller.containerPort.https", Later(PORT_KIND)),
    ("controller.healthCheckHost", Nothing(PROBE_NOTE)),
    ("controller.healthCheckPath", Nothing(PROBE_NOTE)),
    ("controller.startupProbe.httpGet", Nothing(PROBE_NOTE)),
    ("controller.startupProbe.initialDelaySeconds", Is("probes.startup.initialDelaySeconds", DELAY_KIND)),
    ("controller.startupProbe.periodSeconds", Is("probes.startup.periodSeconds", PERIOD_KIND)),
    ("controller.startupProbe.timeoutSeconds", Is("probes.startup.timeoutSeconds", PERIOD_KIND)),
    ("controller.startupProbe.successThreshold", Is("probes.startup.successThreshold", PERIOD_KIND)),
    ("controller.startupProbe.failureThreshold", Is("probes.startup.failureThreshold", PERIOD_KIND)),
    ("controller.livenessProbe.httpGet", Nothing(PROBE_NOTE)),
    ("controller.livenessProbe.initialDelaySeconds", Is("probes.liveness.initialDelaySeconds", DELAY_KIND)),
    ("controller.livenessProbe.periodSeconds", Is("probes.liveness.periodSeconds", PERIOD_KIND)),
    ("controller.livenessProbe.timeoutSeconds", Is("probes.liveness.timeoutSeconds", PERIOD_KIND)),
    ("controller.livenessProbe.successThreshold", Is("probes.liveness.successThreshold", PERIOD_KIND)),
    ("controller.livenessProbe.failureThreshold", Is("probes.liveness.failureThreshold", PERIOD_KIND)),
    ("controller.readinessProbe.httpGet", Nothing(PROBE_NOTE)),
    ("controller.readinessProbe.initialDelaySeconds", Is("probes.readiness.initialDelaySeconds", DELAY_KIND)),
    ("controller.readinessProbe.periodSeconds", Is("probes.readiness.periodSeconds", PERIOD_KIND)),
    ("controller.readinessProbe.timeoutSeconds", Is("probes.readiness.timeoutSeconds", PERIOD_KIND)),
    ("controller.readinessProbe.successThreshold", Is("probes.readiness.successThreshold", PERIOD_KIND)),
    ("controller.readinessProbe.failureThreshold", Is("probes.readiness.failureThreshold", PERIOD_KIND)),
    ("controller.minAvailable", Is("podDisruptionBudget.minAvailable", Share)),
    ("controller.maxUnavailable", Is("podDisruptionBudget.maxUnavailable", Share)),
    ("controller.unhealthyPodEvictionPolicy", Later(OneOf(&["AlwaysAllow", "IfHealthyBudget"]))),
    ("controller.autoscaling.enabled", Is("autoscaling.enabled", Switch)),
    ("controller.autoscaling.annotations", Lost(BY_HAND)),
    ("controller.autoscaling.minReplicas", Is("autoscaling.minReplicas", REPLICAS_OF_SCALING)),
    ("controller.autoscaling.maxReplicas", Is("autoscaling.maxReplicas", REPLICAS_OF_SCALING)),
    (
        "controller.autoscaling.targetCPUUtilizationPercentage",
        Is("autoscaling.targetCPUUtilizationPercentage", PERCENT_KIND),
    ),
    (
        "controller.autoscaling.targetMemoryUtilizationPercentage",
        Is("autoscaling.targetMemoryUtilizationPercentage", PERCENT_KIND),
    ),
    ("controller.autoscaling.behavior", Is("autoscaling.behavior", Mapping)),
    ("controller.autoscalingTemplate", Kept("autoscaling.metrics", Mappings, ADAPT_METRICS)),
    ("controller.keda", IfEnabled("make the ScaledObject by hand, or use autoscaling")),
    ("controller.networkPolicy.enabled", Is("networkPolicy.enabled", Switch)),
    // Classes and settings.
    ("controller.ingressClass", Later(Name)),
    ("controller.ingressClassByName", Lost("IngressClass objects are selected by controller, not by name")),
    ("controller.ingressClassResource.name", Later(Name)),
    ("controller.ingressClassResource.enabled", Later(Switch)),
    ("controller.ingressClassResource.default", Later(Switch)),
    ("controller.ingressClassResource.annotations", Is("ingressClass.annotations", Texts)),
    (
        "controller.ingressClassResource.aliases",
        Lost("Fairway's chart makes one IngressClass: keep these objects when ingress-nginx is removed"),
    ),
    ("controller.ingressClassResource.controllerValue", Later(Text)),
    ("controller.ingressClassResource.parameters", Lost("Fairway reads no parameters of an IngressClass")),
    ("controller.watchIngressWithoutClass", Is("ingressClass.withoutClass", Switch)),
    ("controller.electionID", Nothing(LEASE_NOTE)),
    ("controller.electionTTL", Nothing(LEASE_NOTE)),
    ("controller.disableLeaderElection", Nothing(LEASE_NOTE)),
    ("controller.scope", Does(special::scope)),
    ("controller.config", Does(settings::settings)),
    ("controller.configAnnotations", Lost(BY_HAND)),
    (
        "controller.configMapNamespace",
        Lost("settings are in the namespace of the release, or see existingSettings"),
    ),
    ("controller.tcp", Nothing("the ConfigMap of TCP services is in the namespace of the release")),
    ("controller.udp", Nothing("the ConfigMap of UDP services is in the namespace of the release")),
    ("controller.addHeaders", EachLost(ADD_HEADERS)),
    ("controller.proxySetHeaders", EachLost(PROXY_SET_HEADERS)),
    (
        "controller.allowSnippetAnnotations",
        Lost("snippets are never run; fairway check --report proposes annotations for them"),
    ),
    ("controller.enableAnnotationValidations", Nothing("annotations are always validated")),
    ("controller.enableTopologyAwareRouting", Nothing("hints of EndpointSlices always count")),
    ("controller.publishService.enabled", Later(Switch)),
    ("controller.publishService.pathOverride", Does(special::publish_service)),
    ("controller.reportNodeInternalIp", Nothing(NODE_ADDRESSES)),
    ("controller.maxmindLicenseKey", Lost(NO_DOWNLOADS_NOTE)),
    ("controller.opentelemetry", Does(special::opentelemetry)),
    ("controller.customTemplate.configMapName", Lost("there are no templates")),
    ("controller.customTemplate.configMapKey", Nothing("there are no templates")),
    // Flags that are values of Fairway's chart; the binary knows the others.
    ("controller.extraArgs", Flags),
    ("controller.extraArgs.default-ssl-certificate", Does(special::default_certificate)),
    ("controller.extraArgs.configmap", Does(special::existing_settings)),
    ("controller.extraArgs.controller-class", Later(Text)),
    ("controller.extraArgs.ingress-class", Later(Name)),
    ("controller.extraArgs.election-id", Nothing(LEASE_NOTE)),
    ("controller.extraArgs.publish-service", Does(special::publish_service)),
    ("controller.extraArgs.publish-status-address", Is("status.publishAddresses", Commas)),
    ("controller.extraArgs.update-status", Is("status.enabled", SwitchOfFlag)),
    ("controller.extraArgs.shutdown-grace-period", Is("drain.delay", DELAY_KIND)),
    ("controller.extraArgs.watch-ingress-without-class", Is("ingressClass.withoutClass", SwitchOfFlag)),
    ("controller.extraArgs.watch-namespace", Is("watch.namespaces", Names)),
    ("controller.extraArgs.watch-namespace-selector", Is("watch.namespaceSelector", Text)),
    ("controller.extraArgs.http-port", Later(PORT_KIND)),
    ("controller.extraArgs.https-port", Later(PORT_KIND)),
    ("controller.extraArgs.healthz-port", Nothing(PROBE_NOTE)),
    ("controller.extraArgs.v", Nothing("logs.level chooses the messages")),
    ("controller.extraArgs.validating-webhook", Lost("set webhook.enabled")),
    ("controller.extraArgs.validating-webhook-certificate", Nothing(WEBHOOK_NOTE)),
    ("controller.extraArgs.validating-webhook-key", Nothing(WEBHOOK_NOTE)),
    // The Services.
    ("controller.service.enabled", Later(Switch)),
    ("controller.service.external.enabled", Later(Switch)),
    ("controller.service.external.labels", Later(Texts)),
    ("controller.service.labels", Later(Texts)),
    ("controller.service.enableHttp", Later(Switch)),
    ("controller.service.enableHttps", Later(Switch)),
    ("controller.service.internal.enabled", Later(Switch)),
    ("controller.service.internal.labels", Later(Texts)),
    ("controller.service.type", Is("service.type", SERVICE_TYPE)),
    ("controller.service.annotations", Is("service.annotations", Texts)),
    ("controller.service.externalTrafficPolicy", Is("service.externalTrafficPolicy", TRAFFIC_POLICY_KIND)),
    ("controller.service.healthCheckNodePort", Kept("service.healthCheckNodePort", PORT_KIND, TAKEN_NOTE)),
    ("controller.service.loadBalancerIP", Kept("service.loadBalancerIP", Text, TAKEN_NOTE)),
    ("controller.service.loadBalancerClass", Is("service.loadBalancerClass", Text)),
    ("controller.service.loadBalancerSourceRanges", Is("service.loadBalancerSourceRanges", Ranges)),
    ("controller.service.allocateLoadBalancerNodePorts", Is("service.allocateLoadBalancerNodePorts", Switch)),
    ("controller.service.clusterIP", Kept("service.clusterIP", Text, TAKEN_NOTE)),
    ("controller.service.clusterIPs", Lost("service.clusterIP takes one of them")),
    ("controller.service.externalIPs", Is("service.externalIPs", List)),
    ("controller.service.ipFamilies", Is("service.ipFamilies", FAMILIES_KIND)),
    ("controller.service.ipFamilyPolicy", Is("service.ipFamilyPolicy", FAMILY_POLICY)),
    ("controller.service.nodePorts.http", Kept("service.nodePorts.http", PORT_KIND, TAKEN_NOTE)),
    ("controller.service.nodePorts.https", Kept("service.nodePorts.https", PORT_KIND, TAKEN_NOTE)),
    ("controller.service.nodePorts.tcp", Does(service_maps::node_ports)),
    ("controller.service.nodePorts.udp", Does(service_maps::node_ports)),
    ("controller.service.ports.http", Is("service.ports.http", PORT_KIND)),
    ("controller.service.ports.https", Is("service.ports.https", PORT_KIND)),
    ("controller.service.targetPorts.http", Is("service.targetPorts.http", LISTENER_KIND)),
    ("controller.service.targetPorts.https", Is("service.targetPorts.https", LISTENER_KIND)),
    ("controller.service.appProtocol", Nothing(PROTOCOLS_NOTE)),
    ("controller.service.sessionAffinity", Is("service.sessionAffinity", AFFINITY_KIND)),
    ("controller.service.trafficDistribution", Is("service.trafficDistribution", DISTRIBUTION_KIND)),
    ("controller.service.internal.type", Is("internalService.type", SERVICE_TYPE)),
    ("controller.service.internal.annotations", Is("internalService.annotations", Texts)),
    (
        "controller.service.internal.externalTrafficPolicy",
        Is("internalService.externalTrafficPolicy", TRAFFIC_POLICY_KIND),
    ),
    (
        "controller.service.internal.healthCheckNodePort",
        Kept("internalService.healthCheckNodePort", PORT_KIND, TAKEN_NOTE),
    ),
    ("controller.service.internal.loadBalancerIP", Kept("internalService.loadBalancerIP", Text, TAKEN_NOTE)),
    ("controller.service.internal.loadBalancerClass", Is("internalService.loadBalancerClass", Text)),
    (
        "controller.service.internal.loadBalancerSourceRanges",
        Is("internalService.loadBalancerSourceRanges", Ranges),
    ),
    (
        "controller.service.internal.allocateLoadBalancerNodePorts",
        Is("internalService.allocateLoadBalancerNodePorts", Switch),
    ),
    ("controller.service.internal.clusterIP", Kept("internalService.clusterIP", Text, TAKEN_NOTE)),
    ("controller.service.internal.clusterIPs", Lost("internalService.clusterIP takes one of them")),
    ("controller.service.internal.externalIPs", Is("internalService.externalIPs", List)),
    ("controller.service.internal.ipFamilies", Is("internalService.ipFamilies", FAMILIES_KIND)),
    ("controller.service.internal.ipFamilyPolicy", Is("internalService.ipFamilyPolicy", FAMILY_POLICY)),
    (
        "controller.service.internal.nodePorts.http",
        Kept("internalService.nodePorts.http", PORT_KIND, TAKEN_NOTE),
    ),
    (
        "controller.service.internal.nodePorts.https",
        Kept("internalService.nodePorts.https", PORT_KIND, TAKEN_NOTE),
    ),
    ("controller.service.internal.nodePorts.tcp", Does(service_maps::node_ports)),
    ("controller.service.internal.nodePorts.udp", Does(service_maps::node_ports)),
    ("controller.service.internal.ports.http", Is("internalService.ports.http", PORT_KIND)),
    ("controller.service.internal.ports.https", Is("internalService.ports.https", PORT_KIND)),
    ("controller.service.internal.targetPorts.http", Is("internalService.targetPorts.http", LISTENER_KIND)),
    ("controller.service.internal.targetPorts.https", Is("internalService.targetPorts.https", LISTENER_KIND)),
    ("controller.service.internal.appProtocol", Nothing(PROTOCOLS_NOTE)),
    ("controller.service.internal.sessionAffinity", Is("internalService.sessionAffinity", AFFINITY_KIND)),
    (
        "controller.service.internal.trafficDistribution",
        Is("internalService.trafficDistribution", DISTRIBUTION_KIND),
    ),
    // Metrics.
    ("controller.metrics.enabled", Later(Switch)),
    ("controller.metrics.port", Nothing("metrics are on ports.probe")),
    ("controller.metrics.portName", Nothing("the port of the Service is called metrics")),
    ("controller.metrics.service.enabled", Later(Switch)),
    ("controller.metrics.service.annotations", Does(special::metrics_annotations)),
    ("controller.metrics.service.labels", Is("metrics.service.labels", Texts)),
    ("controller.metrics.service.servicePort", Nothing("metrics are on ports.probe")),
    ("controller.metrics.service.type", Without(&["ClusterIP"], FOR_THE_CLUSTER)),
    ("controller.metrics.service.clusterIP", Nothing("the Service for metrics has no address of its own")),
    ("controller.metrics.service.externalIPs", Lost(FOR_THE_CLUSTER)),
    ("controller.metrics.service.loadBalancerIP", Lost(FOR_THE_CLUSTER)),
    ("controller.metrics.service.loadBalancerSourceRanges", Lost(FOR_THE_CLUSTER)),
    ("controller.metrics.service.nodePort", Lost(FOR_THE_CLUSTER)),
    ("controller.metrics.service.externalTrafficPolicy", Lost(FOR_THE_CLUSTER)),
    ("controller.metrics.serviceMonitor.enabled", Is("metrics.serviceMonitor.enabled", Switch)),
    ("controller.metrics.serviceMonitor.additionalLabels", Is("metrics.serviceMonitor.labels", Texts)),
    ("controller.metrics.serviceMonitor.scrapeInterval", Is("metrics.serviceMonitor.interval", Text)),
    ("controller.metrics.serviceMonitor.scrapeTimeout", Is("metrics.serviceMonitor.scrapeTimeout", Text)),
    ("controller.metrics.serviceMonitor.relabelings", Is("metrics.serviceMonitor.relabelings", Mappings)),
    (
        "controller.metrics.serviceMonitor.metricRelabelings",
        Is("metrics.serviceMonitor.metricRelabelings", Mappings),
    ),
    ("controller.metrics.serviceMonitor.honorLabels", Is("metrics.serviceMonitor.honorLabels", Switch)),
    (
        "controller.metrics.serviceMonitor.namespaceSelector",
        Nothing("only the namespace of the release is scraped"),
    ),
    (
        "controller.metrics.serviceMonitor.namespace",
        Lost("the ServiceMonitor is in the namespace of the release"),
    ),
    ("controller.metrics.serviceMonitor.annotations", Lost(MONITOR_NOTE)),
    ("controller.metrics.serviceMonitor.jobLabel", Lost(MONITOR_NOTE)),
    ("controller.metrics.serviceMonitor.targetLabels", Lost(MONITOR_NOTE)),
    ("controller.metrics.serviceMonitor.labelLimit", Lost(MONITOR_NOTE)),
    ("controller.metrics.serviceMonitor.labelNameLengthLimit", Lost(MONITOR_NOTE)),
    ("controller.metrics.serviceMonitor.labelValueLengthLimit", Lost(MONITOR_NOTE)),
    ("controller.metrics.serviceMonitor.sampleLimit", Lost(MONITOR_NOTE)),
    ("controller.metrics.serviceMonitor.targetLimit", Lost(MONITOR_NOTE)),
    ("controller.metrics.prometheusRule.enabled", Is("metrics.rules.enabled", Switch)),
    ("controller.metrics.prometheusRule.additionalLabels", Is("metrics.rules.labels", Texts)),
    ("controller.metrics.prometheusRule.annotations", Is("metrics.rules.annotations", Texts)),
    (
        "controller.metrics.prometheusRule.namespace",
        Lost("the PrometheusRule is in the namespace of the release"),
    ),
    ("controller.metrics.prometheusRule.rules", Does(special::rules)),
    // The webhook.
    ("controller.admissionWebhooks.enabled", Is("webhook.enabled", Switch)),
    ("controller.admissionWebhooks.annotations", Is("webhook.annotations", Texts)),
    ("controller.admissionWebhooks.failurePolicy", Is("webhook.failurePolicy", OneOf(&["Ignore", "Fail"]))),
    ("controller.admissionWebhooks.timeoutSeconds", Is("webhook.timeoutSeconds", Within(1, 30))),
    ("controller.admissionWebhooks.port", Nothing("the webhook is on ports.webhook")),
    ("controller.admissionWebhooks.namespaceSelector", Is("webhook.namespaceSelector", Mapping)),
    ("controller.admissionWebhooks.objectSelector", Is("webhook.objectSelector", Mapping)),
    ("controller.admissionWebhooks.labels", Lost(BY_HAND)),
    ("controller.admissionWebhooks.name", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.extraEnvs", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.certificate", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.key", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.existingPsp", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.networkPolicyEnabled", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.service", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.createSecretJob", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.patchWebhookJob", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.patch", Nothing(WEBHOOK_NOTE)),
    ("controller.admissionWebhooks.certManager", Nothing(WEBHOOK_NOTE)),
];
