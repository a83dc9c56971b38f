{{/* The pod template, of the Deployment and of the DaemonSet. */}}
{{- define "fairway.pod" -}}
metadata:
  labels:
    {{- include "fairway.selector" . | nindent 4 }}
    {{- with omit (merge dict .Values.podLabels .Values.commonLabels) "app.kubernetes.io/name" "app.kubernetes.io/instance" }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "fairway.serviceAccount" . }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  # After SIGTERM the process accepts on for drain.delay and finishes within drain.timeout; the kill comes later.
  terminationGracePeriodSeconds: {{ add .Values.drain.delay .Values.drain.timeout .Values.drain.margin }}
  {{- if .Values.hostNetwork }}
  hostNetwork: true
  {{- end }}
  dnsPolicy: {{ default (ternary "ClusterFirstWithHostNet" "ClusterFirst" .Values.hostNetwork) .Values.dnsPolicy }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  enableServiceLinks: false
  securityContext:
    {{- include "fairway.podSecurityContext" . | nindent 4 }}
  {{- if or .Values.extraInitContainers .Values.waf.enabled }}
  initContainers:
    {{- with .Values.extraInitContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- if .Values.waf.enabled }}
    {{- include "fairway.waf" . | nindent 4 }}
    {{- end }}
  {{- end }}
  containers:
    - name: fairway
      image: {{ include "fairway.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- include "fairway.arguments" . | nindent 8 }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        {{- if .Values.zones.enabled }}
        - name: FAIRWAY_NODE
          valueFrom:
            fieldRef:
              fieldPath: spec.nodeName
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        {{- include "fairway.ports" . | nindent 8 }}
      startupProbe:
        httpGet: {path: /healthz, port: probe}
        {{- toYaml .Values.probes.startup | nindent 8 }}
      readinessProbe:
        httpGet: {path: /servingz, port: probe}
        {{- toYaml .Values.probes.readiness | nindent 8 }}
      livenessProbe:
        httpGet: {path: /healthz, port: probe}
        {{- toYaml .Values.probes.liveness | nindent 8 }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      {{- if or .Values.stateDir.enabled .Values.bodyBuffer.enabled .Values.webhook.enabled .Values.telemetry.headersSecret .Values.telemetry.caSecret .Values.extraVolumeMounts }}
      volumeMounts:
        {{- if .Values.stateDir.enabled }}
        - name: state
          mountPath: /var/lib/fairway
        {{- end }}
        {{- if .Values.bodyBuffer.enabled }}
        - name: body-buffer
          mountPath: /var/cache/fairway
        {{- end }}
        {{- if .Values.webhook.enabled }}
        - name: webhook
          mountPath: /etc/fairway/webhook
          readOnly: true
        {{- end }}
        {{- if .Values.telemetry.headersSecret }}
        - name: telemetry-headers
          mountPath: /etc/fairway/telemetry/headers
          readOnly: true
        {{- end }}
        {{- if .Values.telemetry.caSecret }}
        - name: telemetry-ca
          mountPath: /etc/fairway/telemetry/ca
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .Values.stateDir.enabled .Values.bodyBuffer.enabled .Values.webhook.enabled .Values.telemetry.headersSecret .Values.telemetry.caSecret .Values.extraVolumes }}
  volumes:
    {{- if .Values.stateDir.enabled }}
    - name: state
      emptyDir:
        medium: Memory
        sizeLimit: {{ .Values.stateDir.sizeLimit }}
    {{- end }}
    {{- if .Values.bodyBuffer.enabled }}
    - name: body-buffer
      emptyDir:
        sizeLimit: {{ .Values.bodyBuffer.sizeLimit }}
    {{- end }}
    {{- if .Values.webhook.enabled }}
    - name: webhook
      secret:
        secretName: {{ include "fairway.webhookSecret" . }}
    {{- end }}
    {{- with .Values.telemetry.headersSecret }}
    - name: telemetry-headers
      secret:
        secretName: {{ . }}
        items:
          - key: headers
            path: headers
    {{- end }}
    {{- with .Values.telemetry.caSecret }}
    - name: telemetry-ca
      secret:
        secretName: {{ . }}
        items:
          - key: ca.crt
            path: ca.crt
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{ toYaml . | nindent 6 | trim }}
      {{- if not .labelSelector }}
      labelSelector:
        matchLabels:
          {{- include "fairway.selector" $ | nindent 10 }}
      {{- if eq $.Values.kind "Deployment" }}
      matchLabelKeys: [pod-template-hash]
      {{- end }}
      {{- end }}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "fairway.ports" -}}
- name: http
  containerPort: {{ .Values.ports.http }}
  {{- with .Values.hostPorts.http }}
  hostPort: {{ . }}
  {{- end }}
- name: https
  containerPort: {{ .Values.ports.https }}
  {{- with .Values.hostPorts.https }}
  hostPort: {{ . }}
  {{- end }}
{{- /* Only where the node's port must be reserved: Helm merges container ports by number, and an upgrade that adds UDP to the number of
HTTPS would turn that one into UDP. */}}
{{- if .Values.http3.enabled }}
{{- with .Values.hostPorts.https }}
- name: http3
  containerPort: {{ $.Values.ports.https }}
  hostPort: {{ . }}
  protocol: UDP
{{- end }}
{{- end }}
- name: probe
  containerPort: {{ .Values.ports.probe }}
{{- if .Values.webhook.enabled }}
- name: webhook
  containerPort: {{ .Values.ports.webhook }}
{{- end }}
{{- range $protocol := list "tcp" "udp" }}
{{- range $port, $_ := get $.Values $protocol }}
- name: {{ $port }}-{{ $protocol }}
  containerPort: {{ $port }}
  {{- if $.Values.hostPorts.services }}
  hostPort: {{ $port }}
  {{- end }}
  protocol: {{ upper $protocol }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The security context of the pod. Ports of TCP and UDP services below 1024 need a sysctl that Kubernetes calls safe, because the
container has no capability; a pod in the network of its node may set none.
*/}}
{{- define "fairway.podSecurityContext" -}}
{{- $lowest := 1024 -}}
{{- range $port, $_ := merge dict .Values.tcp .Values.udp -}}
{{- $lowest = min $lowest (int $port) -}}
{{- end -}}
{{- $name := "net.ipv4.ip_unprivileged_port_start" -}}
{{- $sysctls := default list .Values.podSecurityContext.sysctls -}}
{{- range $sysctls -}}
{{- if eq .name $name -}}
{{- $lowest = 1024 -}}
{{- end -}}
{{- end -}}
{{- $context := deepCopy .Values.podSecurityContext -}}
{{- if and (lt (int $lowest) 1024) (not .Values.hostNetwork) -}}
{{- $sysctls = append $sysctls (dict "name" $name "value" (toString $lowest)) -}}
{{- $_ := set $context "sysctls" $sysctls -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* Two pods that need the same port of a node cannot be there at once: then the old one goes first. */}}
{{- define "fairway.strategy" -}}
{{- if .Values.updateStrategy -}}
{{- toYaml .Values.updateStrategy -}}
{{- else -}}
type: RollingUpdate
rollingUpdate:
{{- $services := and .Values.hostPorts.services (or .Values.tcp .Values.udp) }}
{{- if or .Values.hostNetwork .Values.hostPorts.http .Values.hostPorts.https $services }}
  maxUnavailable: 1
  maxSurge: 0
{{- else }}
  maxUnavailable: 0
  maxSurge: 1
{{- end }}
{{- end -}}
{{- end -}}
