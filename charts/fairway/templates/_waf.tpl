{{/*
The container of the web application firewall. An init container that restarts is there before Fairway starts and until it has drained:
next to Fairway, it would end with the first SIGTERM, and requests in flight would fail.
*/}}
{{- define "fairway.waf" -}}
- name: fairway-waf
  image: {{ include "fairway.imageOf" (dict "image" .Values.waf.image "version" .Chart.AppVersion) }}
  imagePullPolicy: {{ .Values.waf.image.pullPolicy }}
  restartPolicy: Always
  args:
    - --listen=127.0.0.1:{{ .Values.ports.waf }}
    - --admin={{ .Values.bindAddress }}:{{ .Values.ports.wafAdmin }}
    - --audit-log={{ ternary "-" "" .Values.waf.auditLog }}
    {{- with .Values.waf.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: waf-admin
      containerPort: {{ .Values.ports.wafAdmin }}
  # Rules are compiled before it is ready.
  startupProbe:
    httpGet: {path: /readyz, port: waf-admin}
    {{- toYaml .Values.probes.startup | nindent 4 }}
  readinessProbe:
    httpGet: {path: /readyz, port: waf-admin}
    {{- toYaml .Values.probes.readiness | nindent 4 }}
  livenessProbe:
    httpGet: {path: /healthz, port: waf-admin}
    {{- toYaml .Values.probes.liveness | nindent 4 }}
  resources:
    {{- toYaml .Values.waf.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
{{- end -}}
