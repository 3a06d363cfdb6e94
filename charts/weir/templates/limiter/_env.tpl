{{/* The environment of the limiter; every name is a setting of docs/settings.md. */}}
{{- define "weir.limiter.env" -}}
{{- $limiter := .Values.limiter -}}
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- { name: GRPC_HOST, value: {{ .Values.listenAddress | quote }} }
- { name: GRPC_PORT, value: {{ $limiter.ports.grpc | quote }} }
- { name: HOST, value: {{ .Values.listenAddress | quote }} }
- { name: PORT, value: {{ $limiter.ports.http | quote }} }
- { name: DEBUG_HOST, value: 127.0.0.1 }
- { name: DEBUG_PORT, value: {{ $limiter.ports.debug | quote }} }
- { name: GRPC_MAX_CONNECTION_AGE, value: {{ $limiter.maxConnectionAgeSeconds }}s }
- { name: GRPC_MAX_CONNECTION_AGE_GRACE, value: {{ $limiter.maxConnectionAgeGraceSeconds }}s }
- { name: SHUTDOWN_DRAIN_DELAY, value: {{ $limiter.drainDelaySeconds }}s }
- { name: LIMITER_WORKERS, value: {{ $limiter.workers | quote }} }
- { name: LOG_LEVEL, value: {{ $limiter.log.level }} }
- { name: LOG_FORMAT, value: {{ $limiter.log.format }} }
{{ include "weir.limiter.statisticsEnv" . }}
{{ include "weir.limiter.rulesEnv" . }}
{{ include "weir.limiter.storeEnv" . }}
{{- with $limiter.grpcTls }}
{{- if .existingSecret }}
- { name: GRPC_SERVER_USE_TLS, value: "true" }
- { name: GRPC_SERVER_TLS_CERT, value: /etc/weir/grpc-tls/tls.crt }
- { name: GRPC_SERVER_TLS_KEY, value: /etc/weir/grpc-tls/tls.key }
{{- if .clientCa }}
- { name: GRPC_CLIENT_TLS_CACERT, value: /etc/weir/grpc-tls/ca.crt }
{{- end }}
{{- if .clientName }}
- { name: GRPC_CLIENT_TLS_SAN, value: {{ .clientName | quote }} }
{{- end }}
{{- end }}
{{- end }}
{{- with $limiter.httpTls }}
{{- if .existingSecret }}
- { name: HTTP_SERVER_USE_TLS, value: "true" }
- { name: HTTP_SERVER_TLS_CERT, value: /etc/weir/http-tls/tls.crt }
- { name: HTTP_SERVER_TLS_KEY, value: /etc/weir/http-tls/tls.key }
{{- if .clientCa }}
- { name: HTTP_CLIENT_TLS_CACERT, value: /etc/weir/http-tls/ca.crt }
{{- end }}
{{- if .clientName }}
- { name: HTTP_CLIENT_TLS_SAN, value: {{ .clientName | quote }} }
{{- end }}
{{- end }}
{{- end }}
{{- with include "weir.limiter.callersFile" . }}
- { name: CALLERS_FILE, value: {{ printf "/etc/weir/callers/%s" . | quote }} }
{{- end }}
{{- with include "weir.limiter.profilesFile" . }}
- { name: PROFILES_FILE, value: {{ printf "/etc/weir/profiles/%s" . | quote }} }
{{- end }}
{{- with $limiter.debugToken }}
{{- if .existingSecret }}
- { name: DEBUG_TOKEN_FILE, value: {{ printf "/etc/weir/debug-token/%s" .existingSecretKey | quote }} }
{{- end }}
{{- end }}
{{- with $limiter.debugAllowedHosts }}
- { name: DEBUG_ALLOWED_HOSTS, value: {{ join "," . | quote }} }
{{- end }}
{{- with $limiter.httpAllowedHosts }}
- { name: HTTP_ALLOWED_HOSTS, value: {{ join "," . | quote }} }
{{- end }}
{{- end -}}

{{- define "weir.limiter.statisticsEnv" -}}
{{- if .Values.limiter.metrics.enabled -}}
- { name: USE_PROMETHEUS, value: "true" }
- { name: PROMETHEUS_ADDR, value: "{{ include "weir.bracketed" . }}:{{ .Values.limiter.ports.metrics }}" }
{{- else -}}
{{- $chosen := false -}}
{{- range .Values.limiter.extraEnv -}}
{{- if has .name (list "USE_STATSD" "USE_PUSHSTATS" "USE_DOG_STATSD" "USE_TAGGEDSTATS" "DISABLE_STATS") -}}{{- $chosen = true -}}{{- end -}}
{{- end -}}
{{- if $chosen -}}
# extraEnv sets the destination of statistics.
{{- else -}}
- { name: DISABLE_STATS, value: "true" }
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.limiter.rulesEnv" -}}
{{- $limiter := .Values.limiter -}}
{{- if or $limiter.rules $limiter.existingRulesConfigMap -}}
- { name: CONFIG_TYPE, value: FILE }
- { name: RUNTIME_ROOT, value: /etc/weir }
- { name: RUNTIME_APPDIRECTORY, value: rules }
- { name: RUNTIME_WATCH_ROOT, value: "false" }
- { name: RUNTIME_IGNOREDOTFILES, value: "true" }
- { name: HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED, value: "true" }
{{- else -}}
- { name: CONFIG_TYPE, value: GRPC_XDS_DELTA }
- { name: CONFIG_GRPC_XDS_SERVER_URL, value: {{ include "weir.limiter.xdsAddress" . | quote }} }
- { name: CONFIG_GRPC_XDS_FLEET, value: {{ $limiter.fleet | quote }} }
{{- if eq (include "weir.limiter.xdsTokenFrom" .) "secret" }}
- { name: CONFIG_GRPC_XDS_TOKEN_FILE, value: {{ printf "/etc/weir/xds-token/%s" $limiter.xdsToken.existingSecretKey | quote }} }
{{- else if eq (include "weir.limiter.xdsTokenFrom" .) "account" }}
- { name: CONFIG_GRPC_XDS_TOKEN_FILE, value: /etc/weir/xds-token/token }
{{- end }}
{{- with fromYaml (include "weir.limiter.xdsTls" .) }}
{{- if .enabled }}
- { name: CONFIG_GRPC_XDS_SERVER_USE_TLS, value: "true" }
{{- if .existingSecret }}
- { name: CONFIG_GRPC_XDS_SERVER_TLS_CACERT, value: /etc/weir/xds-tls/ca.crt }
{{- end }}
{{- if .clientCertificate }}
- { name: CONFIG_GRPC_XDS_CLIENT_TLS_CERT, value: /etc/weir/xds-tls/tls.crt }
- { name: CONFIG_GRPC_XDS_CLIENT_TLS_KEY, value: /etc/weir/xds-tls/tls.key }
{{- end }}
{{- if .serverName }}
- { name: CONFIG_GRPC_XDS_SERVER_TLS_SAN, value: {{ .serverName | quote }} }
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "weir.limiter.xdsAddress" -}}
{{- $own := printf "%s.%s.svc:%d" (include "weir.controlPlane.name" .) .Release.Namespace (int .Values.controlPlane.ports.xds) -}}
{{- default $own .Values.limiter.xdsAddress -}}
{{- end -}}

{{/* The source of the token that authenticates the limiter: `secret`, `account`, or empty. */}}
{{- define "weir.limiter.xdsTokenFrom" -}}
{{- $limiter := .Values.limiter -}}
{{- if not (or $limiter.rules $limiter.existingRulesConfigMap) -}}
{{- if $limiter.xdsToken.existingSecret }}secret{{ else if and $limiter.xdsToken.audience (not (fromYaml (include "weir.limiter.xdsTls" .)).clientCertificate) }}account{{ end -}}
{{- end -}}
{{- end -}}
