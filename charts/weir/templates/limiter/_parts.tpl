{{- define "weir.limiter.ports" -}}
{{- $ports := .Values.limiter.ports -}}
- { name: grpc, containerPort: {{ $ports.grpc }} }
- { name: http, containerPort: {{ $ports.http }} }
{{- if .Values.limiter.metrics.enabled }}
- { name: metrics, containerPort: {{ $ports.metrics }} }
{{- end }}
{{- end -}}

{{/*
Only readiness depends on the store and the rules: a probe that restarts pods must not. The HTTP port opens when both are
available. If the startup probe has no other port, it waits until then.
*/}}
{{- define "weir.limiter.probes" -}}
{{- $limiter := .Values.limiter -}}
{{- $port := ternary "metrics" "http" $limiter.metrics.enabled -}}
{{- $startup := $limiter.startupProbe -}}
{{- if not $limiter.metrics.enabled }}{{ $startup = merge (dict "failureThreshold" 2147483647) $startup }}{{ end -}}
{{- $tls := not (empty $limiter.httpTls.existingSecret) -}}
{{- $lives := dict "path" "/livez" "port" $port "tls" (and $tls (eq $port "http")) -}}
{{ include "weir.probe" (merge (dict "name" "startupProbe" "values" (dict "startupProbe" $startup)) $lives) }}
{{ include "weir.probe" (merge (dict "name" "livenessProbe" "values" $limiter) $lives) }}
{{ include "weir.probe" (dict "name" "readinessProbe" "path" "/healthcheck" "port" "http" "tls" $tls "values" $limiter) }}
{{- end -}}

{{/* The folders of /etc/weir that contain Secrets, by name. */}}
{{- define "weir.limiter.secrets" -}}
{{- with .Values.limiter.grpcTls.existingSecret }}
grpc-tls: {{ . | quote }}
{{- end }}
{{- with .Values.limiter.httpTls.existingSecret }}
http-tls: {{ . | quote }}
{{- end }}
{{- with .Values.limiter.callers.existingSecret }}
callers: {{ . | quote }}
{{- end }}
{{- with .Values.limiter.debugToken.existingSecret }}
debug-token: {{ . | quote }}
{{- end }}
{{- with (fromYaml (include "weir.limiter.xdsTls" .)).existingSecret }}
xds-tls: {{ . | quote }}
{{- end }}
{{- if eq (include "weir.limiter.xdsTokenFrom" .) "secret" }}
xds-token: {{ .Values.limiter.xdsToken.existingSecret | quote }}
{{- end }}
{{- if eq .Values.store.type "redis" }}
{{- with .Values.redis.tls.existingSecret }}
redis-tls: {{ . | quote }}
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

{{/* The file of callers and their rights, in /etc/weir/callers; empty if there is none. */}}
{{- define "weir.limiter.callersFile" -}}
{{- $callers := .Values.limiter.callers -}}
{{- if $callers.entries }}callers.yaml
{{- else if $callers.existingConfigMap }}{{ $callers.existingConfigMapKey }}
{{- else if $callers.existingSecret }}{{ $callers.existingSecretKey }}
{{- end -}}
{{- end -}}

{{/* The entries of limiter.callers.entries as a file. Some versions of Helm print large numbers as 1e+06. */}}
{{- define "weir.limiter.callersText" -}}
{{- $entries := list -}}
{{- range .Values.limiter.callers.entries -}}
{{- if hasKey . "requests_per_second" }}{{ $entries = append $entries (merge (dict "requests_per_second" (int .requests_per_second)) .) }}{{ else }}{{ $entries = append $entries . }}{{ end -}}
{{- end -}}
{{- toYaml (dict "callers" $entries) -}}
{{- end -}}

{{- define "weir.limiter.callersConfigMap" -}}
{{- if .Values.limiter.callers.entries -}}
{{- include "weir.limiter.name" . -}}-callers
{{- else -}}
{{- default "" .Values.limiter.callers.existingConfigMap -}}
{{- end -}}
{{- end -}}

{{/* The file of profiles for proxies other than Envoy, in /etc/weir/profiles; empty if there is none. */}}
{{- define "weir.limiter.profilesFile" -}}
{{- if .Values.limiter.profiles }}profiles.yaml
{{- else if .Values.limiter.existingProfilesConfigMap }}{{ .Values.limiter.existingProfilesConfigMapKey }}
{{- end -}}
{{- end -}}

{{- define "weir.limiter.profilesConfigMap" -}}
{{- if .Values.limiter.profiles -}}
{{- include "weir.limiter.name" . -}}-profiles
{{- else -}}
{{- default "" .Values.limiter.existingProfilesConfigMap -}}
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
    name: {{ . | quote }}
{{- end }}
{{- with include "weir.limiter.callersConfigMap" . }}
- name: callers
  configMap:
    name: {{ . | quote }}
{{- end }}
{{- with include "weir.limiter.profilesConfigMap" . }}
- name: profiles
  configMap:
    name: {{ . | quote }}
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
{{- if include "weir.limiter.callersConfigMap" . }}
{{ include "weir.mount" "callers" }}
{{- end }}
{{- if include "weir.limiter.profilesConfigMap" . }}
{{ include "weir.mount" "profiles" }}
{{- end }}
{{- end -}}
