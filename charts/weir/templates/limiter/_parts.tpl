{{- define "weir.limiter.ports" -}}
{{- $ports := .Values.limiter.ports -}}
- { name: grpc, containerPort: {{ $ports.grpc }} }
- { name: http, containerPort: {{ $ports.http }} }
{{- if .Values.limiter.metrics.enabled }}
- { name: metrics, containerPort: {{ $ports.metrics }} }
{{- end }}
{{- end -}}

{{/*
Only readiness follows the store and the rules: a probe that restarts pods must not. The port of HTTP opens when both are
there, so that a startup probe that has no other port waits as long as that takes.
*/}}
{{- define "weir.limiter.probes" -}}
{{- $limiter := .Values.limiter -}}
{{- $port := ternary "metrics" "http" $limiter.metrics.enabled -}}
{{- $startup := $limiter.startupProbe -}}
{{- if not $limiter.metrics.enabled }}{{ $startup = merge (dict "failureThreshold" 2147483647) $startup }}{{ end -}}
{{ include "weir.probe" (dict "name" "startupProbe" "path" "/livez" "port" $port "values" (dict "startupProbe" $startup)) }}
{{ include "weir.probe" (dict "name" "livenessProbe" "path" "/livez" "port" $port "values" $limiter) }}
{{ include "weir.probe" (dict "name" "readinessProbe" "path" "/healthcheck" "port" "http" "values" $limiter) }}
{{- end -}}

{{/* Folders of /etc/weir that are Secrets, by name. */}}
{{- define "weir.limiter.secrets" -}}
{{- with .Values.limiter.grpcTls.existingSecret }}
grpc-tls: {{ . }}
{{- end }}
{{- with .Values.limiter.xdsTls.existingSecret }}
xds-tls: {{ . }}
{{- end }}
{{- if eq (include "weir.limiter.xdsTokenFrom" .) "secret" }}
xds-token: {{ .Values.limiter.xdsToken.existingSecret }}
{{- end }}
{{- if eq .Values.store.type "redis" }}
{{- with .Values.redis.tls.existingSecret }}
redis-tls: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "weir.limiter.rulesConfigMap" -}}
{{- if .Values.limiter.rules -}}
{{- include "weir.limiter.name" . -}}-rules
{{- else -}}
{{- default "" .Values.limiter.existingRulesConfigMap -}}
{{- end -}}
{{- end -}}

{{- define "weir.limiter.volumes" -}}
{{- range $volume, $secret := fromYaml (include "weir.limiter.secrets" .) }}
{{ include "weir.secretVolume" (dict "volume" $volume "secret" $secret) }}
{{- end }}
{{- if eq (include "weir.limiter.xdsTokenFrom" .) "account" }}
- name: xds-token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          audience: {{ .Values.limiter.xdsToken.audience | quote }}
          expirationSeconds: {{ .Values.limiter.xdsToken.expirationSeconds }}
          path: token
{{- end }}
{{- with include "weir.limiter.rulesConfigMap" . }}
- name: rules
  configMap:
    name: {{ . }}
{{- end }}
{{- end -}}

{{- define "weir.limiter.mounts" -}}
{{- range $volume, $_ := fromYaml (include "weir.limiter.secrets" .) }}
{{ include "weir.mount" $volume }}
{{- end }}
{{- if eq (include "weir.limiter.xdsTokenFrom" .) "account" }}
{{ include "weir.mount" "xds-token" }}
{{- end }}
{{- if include "weir.limiter.rulesConfigMap" . }}
{{ include "weir.mount" "rules" }}
{{- end }}
{{- end -}}
