{{/* The flags of `fairway run`, as a list. Each must be one that `fairway run --help` lists: a test holds them to it. */}}
{{- define "fairway.arguments" -}}
- run
- --kubernetes
- --http={{ .Values.bindAddress }}:{{ .Values.ports.http }}
- --https={{ .Values.bindAddress }}:{{ .Values.ports.https }}
- --admin=127.0.0.1:{{ .Values.ports.admin }}
- --probe={{ .Values.bindAddress }}:{{ .Values.ports.probe }}
{{- $public := ternary .Values.service .Values.internalService .Values.service.enabled }}
{{- if $public.enabled }}
{{- with $public.ports.http }}{{ if ne (int .) 80 }}
- --public-http-port={{ . }}
{{- end }}{{ end }}
{{- with $public.ports.https }}{{ if ne (int .) 443 }}
- --public-https-port={{ . }}
{{- end }}{{ end }}
{{- end }}
- --ingress-class={{ .Values.ingressClass.name }}
{{- if .Values.ingressClass.compat }}
- --ingress-class-compat
{{- end }}
{{- if .Values.ingressClass.withoutClass }}
- --watch-ingress-without-class
{{- end }}
{{- with .Values.watch.namespaces }}
- --watch-namespace={{ join "," . }}
{{- end }}
{{- with .Values.watch.namespaceSelector }}
- {{ printf "--watch-namespace-selector=%s" . | quote }}
{{- end }}
- --configmap={{ include "fairway.settings" . }}
{{- with .Values.defaultCertificate }}
- --default-certificate={{ include "fairway.reference" (dict "root" $ "name" .) }}
{{- end }}
{{- range $protocol := list "tcp" "udp" }}
{{- if get $.Values $protocol }}
- --{{ $protocol }}-services-configmap={{ include "fairway.serviceMap" (list $ $protocol) }}
{{- end }}
{{- end }}
{{- if .Values.gatewayApi.enabled }}
- --gateway-pods={{ .Release.Namespace }}/{{ include "fairway.fullname" . }}-gateways
{{- with .Values.gatewayApi.controllerName }}{{ if ne . "fairway.dev/gateway-controller" }}
- {{ printf "--gateway-controller=%s" . | quote }}
{{- end }}{{ end }}
{{- with .Values.gatewayApi.serviceType }}{{ if ne . "LoadBalancer" }}
- --gateway-service-type={{ . }}
{{- end }}{{ end }}
{{- else }}
- --gateway-controller=none
{{- end }}
{{ include "fairway.statusArguments" . }}
{{- if ne .Values.compat "nginx" }}
- --compat={{ .Values.compat }}
{{- end }}
{{- if ne .Values.hostOwnership "off" }}
- --host-ownership={{ .Values.hostOwnership }}
{{- end }}
- --access-log={{ .Values.logs.access }}
- --log-format={{ .Values.logs.format }}
- {{ printf "--log-level=%s" .Values.logs.level | quote }}
{{- with trim (include "fairway.telemetryArguments" .) }}
{{ . }}
{{- end }}
{{- if .Values.waf.enabled }}
- --waf=127.0.0.1:{{ .Values.ports.waf }}
{{- end }}
{{- with .Values.trustedForwarders }}
- --trusted-forwarders={{ join "," . }}
{{- end }}
{{- if ne .Values.proxyProtocol.listeners "off" }}
- --proxy-protocol={{ .Values.proxyProtocol.listeners }}
{{- end }}
{{- if or (ne .Values.proxyProtocol.listeners "off") .Values.tcp }}
{{- with .Values.proxyProtocol.trusted }}
- --proxy-protocol-trusted={{ join "," . }}
{{- end }}
{{- end }}
{{- if .Values.http3.enabled }}
- --http3
{{- end }}
{{- with .Values.workers }}
- --workers={{ . }}
{{- end }}
{{- with .Values.maxMemory }}
- --max-memory={{ . }}
{{- end }}
{{- if not .Values.sessionTickets.shared }}
- --own-session-tickets
{{- end }}
- --session-ticket-rotation={{ .Values.sessionTickets.rotation | int }}
- --drain-delay={{ .Values.drain.delay }}
- --drain-timeout={{ .Values.drain.timeout }}
{{- if .Values.stateDir.enabled }}
- --state-dir=/var/lib/fairway
{{- end }}
{{- if .Values.bodyBuffer.enabled }}
- --buffer-dir=/var/cache/fairway
- --buffer-disk={{ .Values.bodyBuffer.sizeLimit }}B
{{- end }}
{{- if .Values.webhook.enabled }}
- --webhook={{ .Values.bindAddress }}:{{ .Values.ports.webhook }}
- --webhook-certificate=/etc/fairway/webhook/tls.crt
- --webhook-key=/etc/fairway/webhook/tls.key
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Which requests are traced, and where telemetry goes. */}}
{{- define "fairway.telemetryArguments" -}}
{{- with .Values.telemetry }}
{{- if .endpoint }}
- {{ printf "--otlp-endpoint=%s" .endpoint | quote }}
{{- if ne .protocol "grpc" }}
- --otlp-protocol={{ .protocol }}
{{- end }}
{{- with .serviceName }}
- {{ printf "--otlp-service-name=%s" . | quote }}
{{- end }}
{{- if .headersSecret }}
- --otlp-headers-file=/etc/fairway/telemetry/headers/headers
{{- end }}
{{- if .caSecret }}
- --otlp-ca-file=/etc/fairway/telemetry/ca/ca.crt
{{- end }}
{{- end }}
{{- with .metricsInterval }}
- --otlp-metrics-interval={{ . }}
{{- end }}
{{- if .logs }}
- --otlp-logs
{{- end }}
{{- if not (kindIs "invalid" .traces.sampleRatio) }}
- --trace-sample-ratio={{ .traces.sampleRatio }}
- --trace-parent-based={{ .traces.parentBased }}
- --trace-trust-incoming={{ .traces.trustIncoming }}
- --trace-propagation={{ .traces.propagation }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Which addresses are written into the status of Ingresses, if any. */}}
{{- define "fairway.publishService" -}}
{{- if .Values.status.publishService -}}
{{- include "fairway.reference" (dict "root" . "name" .Values.status.publishService) -}}
{{- else if .Values.service.enabled -}}
{{- printf "%s/%s" .Release.Namespace (include "fairway.fullname" .) -}}
{{- else if .Values.internalService.enabled -}}
{{- printf "%s/%s-internal" .Release.Namespace (include "fairway.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "fairway.statusArguments" -}}
{{- if not .Values.status.enabled -}}
- --no-status
{{- else -}}
- --election-id={{ include "fairway.electionId" . }}
{{- if .Values.status.publishAddresses }}
- --publish-status-address={{ join "," .Values.status.publishAddresses }}
{{- else if .Values.status.publishNodes }}
- --publish-nodes={{ .Values.status.publishNodes }}
{{- else if include "fairway.publishService" . }}
- --publish-service={{ include "fairway.publishService" . }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Whether addresses are written into the status of Ingresses: "true" or nothing. Events do not need them. */}}
{{- define "fairway.publishes" -}}
{{- if and .Values.status.enabled (or .Values.status.publishAddresses .Values.status.publishNodes (include "fairway.publishService" .)) -}}true{{- end -}}
{{- end -}}

{{/* Values that contradict each other, which a schema cannot see. */}}
{{- define "fairway.validate" -}}
{{- if and .Values.watch.namespaces .Values.watch.namespaceSelector -}}
{{- fail "watch.namespaces and watch.namespaceSelector contradict each other: give one of them" -}}
{{- end -}}
{{- if and .Values.waf.enabled (semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail "waf.enabled needs Kubernetes 1.29: its container must outlive that of Fairway" -}}
{{- end -}}
{{- if and .Values.hostNetwork (or .Values.hostPorts.http .Values.hostPorts.https) -}}
{{- fail "hostNetwork and hostPorts contradict each other: with hostNetwork the pod listens on ports.http and ports.https of the node" -}}
{{- end -}}
{{- if and .Values.http3.enabled (has .Values.proxyProtocol.listeners (list "https" "both")) -}}
{{- fail "http3.enabled and proxyProtocol.listeners contradict each other: QUIC cannot carry the PROXY protocol, so the addresses of clients would be lost" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.service.enabled: the monitor finds pods through that Service" -}}
{{- end -}}
{{- if and .Values.webhook.existingSecret (not .Values.webhook.caBundle) -}}
{{- fail "webhook.existingSecret needs webhook.caBundle, the CA of its certificate in base64: without it the API server trusts no answer" -}}
{{- end -}}
{{- if and .Values.webhook.caBundle (not .Values.webhook.existingSecret) -}}
{{- fail "webhook.caBundle without webhook.existingSecret: the chart makes its own certificate and CA" -}}
{{- end -}}
{{- if and (eq .Values.kind "DaemonSet") .Values.autoscaling.enabled -}}
{{- fail "autoscaling.enabled needs kind Deployment: a DaemonSet has one pod per node" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is larger than autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and .Values.podDisruptionBudget.minAvailable (ne (toString .Values.podDisruptionBudget.maxUnavailable) "") (not (kindIs "invalid" .Values.podDisruptionBudget.maxUnavailable)) -}}
{{- fail "podDisruptionBudget takes minAvailable or maxUnavailable: set the other one to null" -}}
{{- end -}}
{{- range $name := list "service" "internalService" -}}
{{- $service := get $.Values $name -}}
{{- if and $service.healthCheckNodePort (or (ne $service.type "LoadBalancer") (ne $service.externalTrafficPolicy "Local")) -}}
{{- fail (printf "%s.healthCheckNodePort needs %s.type LoadBalancer and %s.externalTrafficPolicy Local" $name $name $name) -}}
{{- end -}}
{{- if and $service.enabled (not $service.ports.http) (not $service.ports.https) -}}
{{- fail (printf "%s.ports has no port: set http or https" $name) -}}
{{- end -}}
{{- end -}}
{{- $taken := dict -}}
{{- range $name, $port := .Values.ports -}}
{{- $key := toString (int $port) -}}
{{- if hasKey $taken $key -}}
{{- fail (printf "ports.%s and ports.%s are both %s" (get $taken $key) $name $key) -}}
{{- end -}}
{{- $_ := set $taken $key $name -}}
{{- end -}}
{{- include "fairway.validateServiceMaps" . -}}
{{- include "fairway.validateTelemetry" . -}}
{{- end -}}

{{/* Values of telemetry that Fairway would refuse together. */}}
{{- define "fairway.validateTelemetry" -}}
{{- $telemetry := .Values.telemetry -}}
{{- range $name := list "serviceName" "headersSecret" "caSecret" -}}
{{- if and (get $telemetry $name) (not $telemetry.endpoint) -}}
{{- fail (printf "telemetry.%s needs telemetry.endpoint: it is about that collector, and about no other" $name) -}}
{{- end -}}
{{- end -}}
{{- if and $telemetry.caSecret (not (hasPrefix "https://" $telemetry.endpoint)) -}}
{{- fail "telemetry.caSecret needs an endpoint with https://: nothing else is sent over TLS" -}}
{{- end -}}
{{- if and $telemetry.logs (eq .Values.logs.access "off") -}}
{{- fail "telemetry.logs and logs.access off contradict each other: there are no lines to send" -}}
{{- end -}}
{{- end -}}

{{/* Ports of TCP and UDP services that something else has: Fairway would refuse them, or the API server the Service. */}}
{{- define "fairway.validateServiceMaps" -}}
{{- $taken := dict -}}
{{- range $name, $port := .Values.ports -}}
{{- $_ := set $taken (toString (int $port)) (printf "ports.%s" $name) -}}
{{- end -}}
{{- range $service := list "service" "internalService" -}}
{{- range $name, $port := (get $.Values $service).ports -}}
{{- with $port -}}
{{- $_ := set $taken (toString (int .)) (printf "%s.ports.%s" $service $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $port, $_ := .Values.tcp -}}
{{- if hasKey $taken $port -}}
{{- fail (printf "tcp.%s is %s: give another port" $port (get $taken $port)) -}}
{{- end -}}
{{- end -}}
{{- if .Values.http3.enabled -}}
{{- range $port := list .Values.ports.https .Values.service.ports.https .Values.internalService.ports.https -}}
{{- if and $port (hasKey $.Values.udp (toString (int $port))) -}}
{{- fail (printf "udp.%d is the UDP port of http3: give another port" (int $port)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.gatewayApi.enabled -}}
{{- range $port, $_ := merge dict .Values.tcp .Values.udp -}}
{{- if and (ge (int $port) 20000) (le (int $port) 29999) -}}
{{- fail (printf "port %s of tcp or udp is one of those that Gateways get: give another one than 20000 to 29999" $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
