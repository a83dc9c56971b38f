{{/* Names and labels. */}}
{{- define "fairway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "fairway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "fairway.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fairway.selector" -}}
app.kubernetes.io/name: {{ include "fairway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairway.labels" -}}
{{- include "fairway.labelsWith" (list . (dict)) -}}
{{- end -}}

{{/*
The labels of an object that has labels of its own, which go before the common ones: list . LABELS. Those of the chart go before
both, since selectors look for them: no key may come twice (YAML 1.2 §3.2.1.1).
*/}}
{{- define "fairway.labelsWith" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{ include "fairway.selector" $root }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- $own := merge dict (index . 1) $root.Values.commonLabels }}
{{- with omit $own "helm.sh/chart" "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "fairway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "fairway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "fairway.image" -}}
{{- include "fairway.imageOf" (dict "image" .Values.image "version" .Chart.AppVersion) -}}
{{- end -}}

{{/* The name of an image: dict "image" VALUES "version" TAG, the tag where it has none. */}}
{{- define "fairway.imageOf" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .version .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* NAMESPACE/NAME of a reference that may leave the namespace away: dict "root" . "name" REFERENCE. */}}
{{- define "fairway.reference" -}}
{{- if contains "/" .name }}{{ .name }}{{ else }}{{ .root.Release.Namespace }}/{{ .name }}{{ end -}}
{{- end -}}

{{- define "fairway.settings" -}}
{{- include "fairway.reference" (dict "root" . "name" (default (include "fairway.fullname" .) .Values.existingSettings)) -}}
{{- end -}}

{{/* NAMESPACE/NAME of the ConfigMap of TCP or UDP services: list . PROTOCOL. */}}
{{- define "fairway.serviceMap" -}}
{{- $root := index . 0 -}}
{{- printf "%s/%s-%s" $root.Release.Namespace (include "fairway.fullname" $root) (index . 1) -}}
{{- end -}}

{{- define "fairway.electionId" -}}
{{- default (include "fairway.fullname" .) .Values.status.electionId -}}
{{- end -}}

{{- define "fairway.portsList" -}}
{{- printf "%s-gateway-ports" (include "fairway.electionId" .) -}}
{{- end -}}

{{- define "fairway.ticketKeys" -}}
{{- printf "%s-session-tickets" (include "fairway.electionId" .) -}}
{{- end -}}

{{/* Whether replicas share ticket keys: "true" or nothing. Who writes no status has no leader who could make them. */}}
{{- define "fairway.sharesTickets" -}}
{{- if and .Values.status.enabled .Values.sessionTickets.shared -}}true{{- end -}}
{{- end -}}

{{- define "fairway.webhookSecret" -}}
{{- default (printf "%s-webhook" (include "fairway.fullname" .)) .Values.webhook.existingSecret -}}
{{- end -}}

{{/*
A file with queries: dict "root" . "file" FILE. It names the labels of an Ingress as Prometheus renames them where those of
the target have the same names; with honorLabels they keep their own.
*/}}
{{- define "fairway.monitoring" -}}
{{- $text := .root.Files.Get .file -}}
{{- if .root.Values.metrics.serviceMonitor.honorLabels -}}
{{- $text = $text | replace "exported_namespace" "namespace" | replace "exported_service" "service" -}}
{{- end -}}
{{- $text -}}
{{- end -}}
