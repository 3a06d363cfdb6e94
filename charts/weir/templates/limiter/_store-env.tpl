{{- define "weir.limiter.storeEnv" -}}
{{- $store := .Values.store -}}
- { name: BACKEND_TYPE, value: {{ $store.type }} }
{{- if $store.keyPrefix }}
- { name: CACHE_KEY_PREFIX, value: {{ $store.keyPrefix | quote }} }
{{- end }}
- { name: COUNTER_KEYS, value: {{ $store.counterKeys }} }
{{- if $store.failureMode }}
- { name: STORE_FAILURE_MODE, value: {{ $store.failureMode }} }
{{- end }}
{{- if eq $store.type "redis" }}
{{- if $store.leases }}
- { name: LEASES, value: "on" }
{{- end }}
{{ include "weir.limiter.redisEnv" (dict "prefix" "REDIS" "redis" .Values.redis "tls" .Values.redis.tls.enabled) }}
{{- with .Values.redis.sentinelAuthSecret }}
{{ include "weir.secretEnv" (dict "name" "REDIS_SENTINEL_AUTH" "secret" . "key" $.Values.redis.sentinelAuthSecretKey) }}
{{- end }}
{{- include "weir.limiter.redisTlsEnv" . }}
{{- with .Values.redis.perSecond }}
{{- if .enabled }}
- { name: REDIS_PERSECOND, value: "true" }
{{ include "weir.limiter.redisEnv" (dict "prefix" "REDIS_PERSECOND" "redis" . "tls" .tls) }}
{{- end }}
{{- end }}
{{- else if eq $store.type "memcache" }}
{{- if .Values.memcache.srv }}
- { name: MEMCACHE_SRV, value: {{ .Values.memcache.srv | quote }} }
{{- else }}
- { name: MEMCACHE_HOST_PORT, value: {{ .Values.memcache.hostPort | quote }} }
{{- end }}
{{- end }}
{{- end -}}

{{/* The settings of one Redis: (dict "prefix" "REDIS_PERSECOND" "redis" .Values.redis.perSecond "tls" false). */}}
{{- define "weir.limiter.redisEnv" -}}
- { name: {{ .prefix }}_SOCKET_TYPE, value: tcp }
- { name: {{ .prefix }}_TYPE, value: {{ .redis.type }} }
{{- if .redis.existingSecret }}
{{ include "weir.secretEnv" (dict "name" (printf "%s_URL" .prefix) "secret" .redis.existingSecret "key" .redis.existingSecretKey) }}
{{- else }}
- { name: {{ .prefix }}_URL, value: {{ .redis.url | quote }} }
{{- end }}
{{- if .redis.authSecret }}
{{ include "weir.secretEnv" (dict "name" (printf "%s_AUTH" .prefix) "secret" .redis.authSecret "key" .redis.authSecretKey) }}
{{- end }}
{{- if .tls }}
- { name: {{ .prefix }}_TLS, value: "true" }
{{- end }}
{{- end -}}

{{- define "weir.limiter.redisTlsEnv" -}}
{{- with .Values.redis.tls }}
{{- if .existingSecret }}
- { name: REDIS_TLS_CACERT, value: /etc/weir/redis-tls/ca.crt }
{{- if .clientCertificate }}
- { name: REDIS_TLS_CLIENT_CERT, value: /etc/weir/redis-tls/tls.crt }
- { name: REDIS_TLS_CLIENT_KEY, value: /etc/weir/redis-tls/tls.key }
{{- end }}
{{- end }}
{{- if .skipHostnameVerification }}
- { name: REDIS_TLS_SKIP_HOSTNAME_VERIFICATION, value: "true" }
{{- end }}
{{- end }}
{{- end -}}
