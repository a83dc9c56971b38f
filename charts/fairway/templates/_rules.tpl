{{/* Permissions; docs/rbac.md says what each is for and what is lost without it. */}}

{{/* What is read and written where Ingresses are served, Secrets apart. */}}
{{- define "fairway.rules.watched" -}}
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
{{- if include "fairway.publishes" . }}
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch]
{{- end }}
{{- if .Values.status.enabled }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- if .Values.gatewayApi.enabled }}
{{ include "fairway.rules.gateways" . }}
{{- end }}
{{- end -}}

{{/* What Gateway API adds where its objects are served: each Gateway has a Service and EndpointSlices beside it. */}}
{{- define "fairway.rules.gateways" -}}
- apiGroups: [gateway.networking.k8s.io]
  resources:
    - gateways
    - listenersets
    - httproutes
    - grpcroutes
    - tlsroutes
    - tcproutes
    - udproutes
    - referencegrants
    - backendtlspolicies
  verbs: [get, list, watch]
- apiGroups: [fairway.dev]
  resources: [clienttrafficpolicies, backendtrafficpolicies, securitypolicies, extensionpolicies, httproutefilters]
  verbs: [get, list, watch]
- apiGroups: [multicluster.x-k8s.io]
  resources: [serviceimports]
  verbs: [get, list, watch]
{{- if .Values.status.enabled }}
- apiGroups: [gateway.networking.k8s.io]
  resources:
    - gateways/status
    - listenersets/status
    - httproutes/status
    - grpcroutes/status
    - tlsroutes/status
    - tcproutes/status
    - udproutes/status
    - backendtlspolicies/status
  verbs: [update, patch]
- apiGroups: [fairway.dev]
  resources: [clienttrafficpolicies/status, backendtrafficpolicies/status, securitypolicies/status, extensionpolicies/status]
  verbs: [update, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [create, update, delete]
{{- end }}
{{- if .Values.gatewayApi.inferencePools.enabled }}
{{ include "fairway.rules.inference" . }}
{{- end }}
{{- end -}}

{{/* What InferencePools add: their members are Pods, of which no Service need tell. */}}
{{- define "fairway.rules.inference" -}}
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- if .Values.status.enabled }}
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools/status]
  verbs: [update, patch]
{{- end }}
{{- end -}}

{{- define "fairway.rules.secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
{{- end -}}

{{/* What no Role can give, because the objects have no namespace. */}}
{{- define "fairway.rules.cluster" -}}
- apiGroups: [networking.k8s.io]
  resources: [ingressclasses]
  verbs: [get, list, watch]
{{- if or .Values.watch.namespaceSelector .Values.gatewayApi.enabled }}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
{{- end }}
{{- if or .Values.zones.enabled (and .Values.status.enabled .Values.status.publishNodes (not .Values.status.publishAddresses)) }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}
{{- if .Values.gatewayApi.enabled }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses]
  verbs: [get, list, watch]
{{- if .Values.status.enabled }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames:
    - backendtlspolicies.gateway.networking.k8s.io
    - gatewayclasses.gateway.networking.k8s.io
    - gateways.gateway.networking.k8s.io
    - grpcroutes.gateway.networking.k8s.io
    - httproutes.gateway.networking.k8s.io
    - listenersets.gateway.networking.k8s.io
    - referencegrants.gateway.networking.k8s.io
    - tcproutes.gateway.networking.k8s.io
    - tlsroutes.gateway.networking.k8s.io
    - udproutes.gateway.networking.k8s.io
  verbs: [get]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses/status]
  verbs: [update, patch]
{{- end }}
{{- end }}
{{- end -}}

{{/* In the namespace of the release: who writes status, whether other replicas are left when this one stops, and how many there are. */}}
{{- define "fairway.rules.own" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- if .Values.status.enabled }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "fairway.electionId" . }}]
  verbs: [get, update, patch]
{{- end }}
{{- if include "fairway.sharesTickets" . }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "fairway.ticketKeys" . }}]
  verbs: [get, list, watch, update]
{{- end }}
{{- if .Values.gatewayApi.enabled }}
{{ include "fairway.rules.ports" . }}
{{- end }}
{{- end -}}

{{/* The list of the ports that Gateways have in the pods, and the pods that Gateways lead to. */}}
{{- define "fairway.rules.ports" -}}
{{- $watched := or (not .Values.watch.namespaces) (has .Release.Namespace .Values.watch.namespaces) -}}
{{- if not $watched -}}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "fairway.portsList" . }}]
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.status.enabled }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "fairway.portsList" . }}]
  verbs: [update, patch]
{{- end }}
{{- end -}}

{{/* Reading one object by its name: dict "resource" RESOURCE "name" NAME. */}}
{{- define "fairway.rules.named" -}}
- apiGroups: [""]
  resources: [{{ .resource }}]
  resourceNames: [{{ .name }}]
  verbs: [get, list, watch]
{{- end -}}

{{/*
The Roles besides that of the release: JSON of namespace -> list of rules.
What flags name (settings, published Service, default certificate) must be readable where it is, watched or not.
*/}}
{{- define "fairway.roles" -}}
{{- $roles := dict -}}
{{- $watched := .Values.watch.namespaces -}}
{{- range $watched -}}
{{- $_ := set $roles . (include "fairway.rules.watched" $ | fromYamlArray) -}}
{{- end -}}
{{- $secrets := list -}}
{{- if not (kindIs "invalid" .Values.rbac.secretNamespaces) -}}
{{- $secrets = .Values.rbac.secretNamespaces -}}
{{- else if $watched -}}
{{- $secrets = $watched -}}
{{- end -}}
{{- range $secrets -}}
{{- $rules := include "fairway.rules.secrets" $ | fromYamlArray -}}
{{- $_ := set $roles . (concat (default list (get $roles .)) $rules) -}}
{{- end -}}
{{- range include "fairway.named" . | fromJsonArray -}}
{{- $namespace := first (splitList "/" .reference) -}}
{{- if not (has $namespace (ternary $secrets $watched (eq .resource "secrets"))) -}}
{{- $named := dict "resource" .resource "name" (last (splitList "/" .reference)) -}}
{{- $rules := include "fairway.rules.named" $named | fromYamlArray -}}
{{- $_ := set $roles $namespace (concat (default list (get $roles $namespace)) $rules) -}}
{{- end -}}
{{- end -}}
{{- toJson $roles -}}
{{- end -}}

{{/* What flags name and the ClusterRole does not cover: JSON of a list of resource and reference. */}}
{{- define "fairway.named" -}}
{{- $named := list -}}
{{- if .Values.watch.namespaces -}}
{{- $named = append $named (dict "resource" "configmaps" "reference" (include "fairway.settings" .)) -}}
{{- range $protocol := list "tcp" "udp" -}}
{{- if get $.Values $protocol -}}
{{- $named = append $named (dict "resource" "configmaps" "reference" (include "fairway.serviceMap" (list $ $protocol))) -}}
{{- end -}}
{{- end -}}
{{- if contains "--publish-service" (include "fairway.statusArguments" .) -}}
{{- $named = append $named (dict "resource" "services" "reference" (include "fairway.publishService" .)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.defaultCertificate (not (include "fairway.secretsEverywhere" .)) -}}
{{- $reference := include "fairway.reference" (dict "root" . "name" .Values.defaultCertificate) -}}
{{- $named = append $named (dict "resource" "secrets" "reference" $reference) -}}
{{- end -}}
{{- toJson $named -}}
{{- end -}}

{{/* Whether the ClusterRole reads Secrets: "true" or nothing. */}}
{{- define "fairway.secretsEverywhere" -}}
{{- if and (not .Values.watch.namespaces) (kindIs "invalid" .Values.rbac.secretNamespaces) -}}true{{- end -}}
{{- end -}}
