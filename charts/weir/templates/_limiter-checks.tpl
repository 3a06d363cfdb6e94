{{/* The number of pods, and its effect on counters in memory. */}}
{{- define "weir.checks.pods" -}}
{{- $limiter := .Values.limiter -}}
{{- $autoscaling := $limiter.autoscaling -}}
{{- /* 2 is the default: it cannot be distinguished from a 2 in the values. */ -}}
{{- if and $autoscaling.enabled (ne (int $limiter.replicas) 2) -}}
{{- fail "limiter.replicas has no effect with autoscaling: set limiter.autoscaling.minReplicas and maxReplicas, or limiter.autoscaling.enabled=false" -}}
{{- end -}}
{{- $most := ternary (int $autoscaling.maxReplicas) (int $limiter.replicas) $autoscaling.enabled -}}
{{- if and (eq .Values.store.type "memory") (gt $most 1) (not .Values.store.memoryPerPod) -}}
{{- fail (printf "store.type=memory with up to %d limiters: each limiter would count on its own; set limiter.autoscaling.enabled=false and limiter.replicas=1, or store.memoryPerPod=true to accept this" $most) -}}
{{- end -}}
{{- if and .Values.store.memoryPerPod (ne .Values.store.type "memory") -}}
{{- fail "store.memoryPerPod needs store.type=memory" -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.monitoring" -}}
{{- $blind := and .Values.limiter.enabled (not .Values.limiter.metrics.enabled) -}}
{{- if and .Values.serviceMonitor.enabled $blind -}}
{{- fail "serviceMonitor.enabled needs limiter.metrics.enabled=true: without it, limiters have no metrics to scrape" -}}
{{- end -}}
{{- if and .Values.prometheusRule.enabled $blind -}}
{{- fail "prometheusRule.enabled needs limiter.metrics.enabled=true: its alerts use the metrics of limiters" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.metricsFrom) -}}
{{- fail "serviceMonitor.enabled with networkPolicy.enabled needs networkPolicy.metricsFrom: without it, Prometheus cannot reach the metrics port" -}}
{{- end -}}
{{- end -}}

{{/* Checks that an egress policy does not block necessary peers. */}}
{{- define "weir.checks.egress" -}}
{{- $egress := .Values.networkPolicy.egress -}}
{{- if not .Values.networkPolicy.enabled -}}
{{- fail "networkPolicy.egress.enabled needs networkPolicy.enabled=true" -}}
{{- end -}}
{{- if and .Values.limiter.enabled (ne .Values.store.type "memory") (not $egress.store) -}}
{{- fail "networkPolicy.egress.enabled needs networkPolicy.egress.store: without it, limiters cannot reach the store" -}}
{{- end -}}
{{- if and .Values.controlPlane.enabled (not $egress.apiServer) -}}
{{- fail "networkPolicy.egress.enabled needs networkPolicy.egress.apiServer: without it, the control plane cannot reach the API server" -}}
{{- end -}}
{{- if and .Values.controlPlane.enabled .Values.controlPlane.webhooks.urlsSecret (not $egress.controlPlane) -}}
{{- fail "networkPolicy.egress.enabled with controlPlane.webhooks.urlsSecret needs networkPolicy.egress.controlPlane: without it, webhooks cannot reach their receivers" -}}
{{- end -}}
{{- end -}}

{{/* Checks for values that a limiter would reject at its start: (dict "name" "redis.perSecond" "redis" .Values.redis.perSecond). */}}
{{- define "weir.checks.redisUrl" -}}
{{- $url := .redis.url -}}
{{- $address := "(\\[[^\\]]+\\]|[^:@/,\\s]+):[0-9]+" -}}
{{- if regexMatch "(?i)rediss://" $url -}}
{{- $tls := ternary "redis.perSecond.tls" "redis.tls.enabled" (eq .name "redis.perSecond") -}}
{{- fail (printf "%s.url starts with rediss://: use redis:// and set %s=true" .name $tls) -}}
{{- end -}}
{{- if eq .redis.type "SENTINEL" -}}
{{- if not (regexMatch (printf "(?i)^\\s*[^,:/\\s]+\\s*(,\\s*(%s|redis://[^,\\s]+)\\s*)+$" $address) $url) -}}
{{- fail (printf "%s.url must be master,host:port,... with %s.type=SENTINEL" .name .name) -}}
{{- end -}}
{{- else if eq .redis.type "CLUSTER" -}}
{{- if not (regexMatch (printf "(?i)^\\s*(%s|redis://\\S+)\\s*(,\\s*(%s|redis://\\S+)\\s*)*$" $address $address) $url) -}}
{{- fail (printf "%s.url must be host:port,... with %s.type=CLUSTER" .name .name) -}}
{{- end -}}
{{- else if not (regexMatch (printf "(?i)^(%s|redis://\\S+)$" $address) $url) -}}
{{- fail (printf "%s.url must be host:port or redis://host:port/db" .name) -}}
{{- end -}}
{{- end -}}
