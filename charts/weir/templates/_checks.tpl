{{/* Checks of values in different places, which the schema cannot express. */}}
{{- define "weir.checks" -}}
{{- $limiter := .Values.limiter -}}
{{- $controlPlane := .Values.controlPlane -}}
{{- if .Values.certManager.enabled }}{{ include "weir.checks.certManager" . }}{{ end -}}
{{- if .Values.admission.enabled }}{{ include "weir.checks.admission" . }}{{ end -}}
{{- if $limiter.enabled -}}
{{- include "weir.checks.store" . -}}
{{- include "weir.checks.rules" . -}}
{{- include "weir.checks.ruleFiles" . -}}
{{- include "weir.checks.pods" . -}}
{{- include "weir.checks.service" . -}}
{{- include "weir.checks.grace" (dict "name" "limiter" "values" $limiter) -}}
{{- if and $limiter.autoscaling.enabled (gt (int $limiter.autoscaling.minReplicas) (int $limiter.autoscaling.maxReplicas)) -}}
{{- fail "limiter.autoscaling.minReplicas is greater than limiter.autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and $limiter.autoscaling.enabled (not (int $limiter.autoscaling.targetCPUUtilizationPercentage)) (not $limiter.autoscaling.metrics) -}}
{{- fail "limiter.autoscaling has no metric to scale by: set limiter.autoscaling.targetCPUUtilizationPercentage or limiter.autoscaling.metrics" -}}
{{- end -}}
{{- if and $limiter.autoscaling.enabled (int $limiter.autoscaling.targetCPUUtilizationPercentage) (not (dig "requests" "cpu" "" (default dict $limiter.resources))) -}}
{{- fail "limiter.autoscaling.targetCPUUtilizationPercentage needs limiter.resources.requests.cpu: the target is a percentage of that request" -}}
{{- end -}}
{{- range $limiter.extraEnv -}}
{{- if and $limiter.metrics.enabled (has .name (list "USE_STATSD" "USE_PUSHSTATS" "USE_DOG_STATSD" "USE_TAGGEDSTATS")) -}}
{{- fail (printf "limiter.extraEnv has %s, but limiters send statistics to one place only: remove it, or set limiter.metrics.enabled=false" .name) -}}
{{- end -}}
{{- end -}}
{{- if and $limiter.profiles $limiter.existingProfilesConfigMap -}}
{{- fail "limiter.profiles and limiter.existingProfilesConfigMap exclude each other: remove one of them" -}}
{{- end -}}
{{- range $limiter.extraEnv -}}
{{- if and (eq .name "PROFILES_FILE") (or $limiter.profiles $limiter.existingProfilesConfigMap) -}}
{{- fail "limiter.extraEnv has PROFILES_FILE, which limiter.profiles and limiter.existingProfilesConfigMap set: remove one of them" -}}
{{- end -}}
{{- end -}}
{{- if and $limiter.grpcTls.clientName (not $limiter.grpcTls.clientCa) -}}
{{- fail "limiter.grpcTls.clientName needs limiter.grpcTls.clientCa=true: without it, limiters do not request a certificate" -}}
{{- end -}}
{{- if and $limiter.grpcTls.clientCa (not $limiter.grpcTls.existingSecret) -}}
{{- fail "limiter.grpcTls.clientCa needs limiter.grpcTls.existingSecret" -}}
{{- end -}}
{{- if and $limiter.httpTls.clientName (not $limiter.httpTls.clientCa) -}}
{{- fail "limiter.httpTls.clientName needs limiter.httpTls.clientCa=true: without it, limiters do not request a certificate" -}}
{{- end -}}
{{- if and $limiter.httpTls.clientCa (not $limiter.httpTls.existingSecret) -}}
{{- fail "limiter.httpTls.clientCa needs limiter.httpTls.existingSecret" -}}
{{- end -}}
{{- $callers := $limiter.callers -}}
{{- if gt (len (compact (list $callers.existingConfigMap $callers.existingSecret (ternary "entries" "" (not (empty $callers.entries)))))) 1 -}}
{{- fail "limiter.callers.entries, limiter.callers.existingConfigMap and limiter.callers.existingSecret exclude each other: keep one of them" -}}
{{- end -}}
{{- if and $limiter.xdsTls.clientCertificate (not $limiter.xdsTls.existingSecret) -}}
{{- fail "limiter.xdsTls.clientCertificate needs limiter.xdsTls.existingSecret" -}}
{{- end -}}
{{- if and $limiter.xdsTls.existingSecret (not $limiter.xdsTls.enabled) -}}
{{- fail "limiter.xdsTls.existingSecret needs limiter.xdsTls.enabled=true" -}}
{{- end -}}
{{- end -}}
{{- if $controlPlane.enabled -}}
{{- include "weir.checks.onlyControlPlane" . -}}
{{- include "weir.checks.grace" (dict "name" "controlPlane" "values" $controlPlane) -}}
{{- include "weir.checks.domainOwners" . -}}
{{- include "weir.checks.controlPlane" . -}}
{{- include "weir.checks.controlPlanePorts" . -}}
{{- end -}}
{{- include "weir.checks.monitoring" . -}}
{{- if .Values.networkPolicy.egress.enabled }}{{ include "weir.checks.egress" . }}{{ end -}}
{{- if .Values.helmTest.enabled }}{{ include "weir.checks.helmTest" . }}{{ end -}}
{{- end -}}

{{- define "weir.checks.store" -}}
{{- $type := .Values.store.type -}}
{{- if eq $type "redis" -}}
{{- $socketTypes := dict "REDIS_SOCKET_TYPE" "tcp" "REDIS_PERSECOND_SOCKET_TYPE" "tcp" -}}
{{- range .Values.limiter.extraEnv }}{{ $socketTypes = set $socketTypes .name (.value | default "" | lower) }}{{ end -}}
{{- include "weir.checks.redis" (dict "name" "redis" "redis" .Values.redis "socketType" $socketTypes.REDIS_SOCKET_TYPE) -}}
{{- if .Values.redis.perSecond.enabled -}}
{{- include "weir.checks.redis" (dict "name" "redis.perSecond" "redis" .Values.redis.perSecond "socketType" $socketTypes.REDIS_PERSECOND_SOCKET_TYPE) -}}
{{- else if or .Values.redis.perSecond.url .Values.redis.perSecond.existingSecret -}}
{{- fail "redis.perSecond is set, but redis.perSecond.enabled is false: enable it, or remove redis.perSecond" -}}
{{- end -}}
{{- if and .Values.redis.sentinelAuthSecret (ne .Values.redis.type "SENTINEL") -}}
{{- fail "redis.sentinelAuthSecret needs redis.type=SENTINEL" -}}
{{- end -}}
{{- if and .Values.redis.tls.clientCertificate (not .Values.redis.tls.existingSecret) -}}
{{- fail "redis.tls.clientCertificate needs redis.tls.existingSecret" -}}
{{- end -}}
{{- if and .Values.redis.tls.existingSecret (not .Values.redis.tls.enabled) (not (and .Values.redis.perSecond.enabled .Values.redis.perSecond.tls)) -}}
{{- fail "redis.tls.existingSecret needs redis.tls.enabled=true, or redis.perSecond.tls=true" -}}
{{- end -}}
{{- if and .Values.redis.tls.skipHostnameVerification (not .Values.redis.tls.enabled) (not (and .Values.redis.perSecond.enabled .Values.redis.perSecond.tls)) -}}
{{- fail "redis.tls.skipHostnameVerification needs redis.tls.enabled=true, or redis.perSecond.tls=true" -}}
{{- end -}}
{{- else if eq $type "memcache" -}}
{{- if and (not .Values.memcache.hostPort) (not .Values.memcache.srv) -}}
{{- fail "memcache.hostPort or memcache.srv is needed with store.type=memcache" -}}
{{- end -}}
{{- if and .Values.memcache.hostPort .Values.memcache.srv -}}
{{- fail "memcache.hostPort and memcache.srv exclude each other: remove one of them" -}}
{{- end -}}
{{- else if ne (.Values.limiter.workers | toString) "1" -}}
{{- fail "store.type=memory needs limiter.workers=1: otherwise each thread counts on its own" -}}
{{- end -}}
{{- if and (ne $type "redis") (or .Values.redis.url .Values.redis.existingSecret .Values.redis.perSecond.enabled) -}}
{{- fail (printf "redis is set, but store.type is %s: remove one of them" $type) -}}
{{- end -}}
{{- if and (ne $type "memcache") (or .Values.memcache.hostPort .Values.memcache.srv) -}}
{{- fail (printf "memcache.hostPort or memcache.srv is set, but store.type is %s: remove one of them" $type) -}}
{{- end -}}
{{- if and (ne $type "redis") .Values.store.leases -}}
{{- fail "store.leases needs store.type=redis: limiters take leases only from Redis" -}}
{{- end -}}
{{- if and (eq $type "memory") .Values.store.failureMode -}}
{{- fail "store.failureMode has no effect with store.type=memory, which does not fail: remove it" -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.redis" -}}
{{- if and (not .redis.url) (not .redis.existingSecret) -}}
{{- fail (printf "%s.url or %s.existingSecret is needed; to try the chart without Redis, set store.type=memory, limiter.autoscaling.enabled=false and limiter.replicas=1" .name .name) -}}
{{- end -}}
{{- if and .redis.url .redis.existingSecret -}}
{{- fail (printf "%s.url and %s.existingSecret exclude each other: remove one of them" .name .name) -}}
{{- end -}}
{{- if and .redis.url (eq .socketType "tcp") -}}
{{- include "weir.checks.redisUrl" . -}}
{{- else if and .redis.url (eq .socketType "unix") (not (and (hasPrefix "/" .redis.url) (eq .redis.type "SINGLE"))) -}}
{{- fail (printf "limiter.extraEnv sets the socket type unix, which needs the path of a socket in %s.url, and %s.type=SINGLE" .name .name) -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.rules" -}}
{{- $limiter := .Values.limiter -}}
{{- $files := or $limiter.rules $limiter.existingRulesConfigMap -}}
{{- range $file, $_ := $limiter.rules -}}
{{- if not (regexMatch "^[A-Za-z0-9][-_.A-Za-z0-9]*\\.ya?ml$" $file) -}}
{{- fail (printf "limiter.rules has %q: the name of a rule file may contain only letters, digits, \"-\", \"_\" and \".\", and must end in .yaml or .yml" $file) -}}
{{- end -}}
{{- end -}}
{{- if and $limiter.rules $limiter.existingRulesConfigMap -}}
{{- fail "limiter.rules and limiter.existingRulesConfigMap exclude each other: remove one of them" -}}
{{- end -}}
{{- if and $files .Values.controlPlane.enabled -}}
{{- fail "limiters read rules either from files or from the control plane: with limiter.rules or limiter.existingRulesConfigMap, set controlPlane.enabled=false" -}}
{{- end -}}
{{- if and $files (or $limiter.xdsAddress $limiter.xdsTls.enabled) -}}
{{- fail "limiters read rules either from files or from a control plane: remove limiter.xdsAddress and limiter.xdsTls, or the rules" -}}
{{- end -}}
{{- if not (or $files .Values.controlPlane.enabled $limiter.xdsAddress) -}}
{{- fail "limiters have no rules: with controlPlane.enabled=false, set limiter.rules, limiter.existingRulesConfigMap or limiter.xdsAddress" -}}
{{- end -}}
{{- if and .Values.controlPlane.enabled (not $limiter.xdsAddress) (not .Values.certManager.enabled) (ne (ternary "yes" "no" $limiter.xdsTls.enabled) (ternary "no" "yes" (empty .Values.controlPlane.xds.tls.existingSecret))) -}}
{{- fail "limiter.xdsTls.enabled and controlPlane.xds.tls.existingSecret need each other: with only one of them, limiters cannot reach the control plane" -}}
{{- end -}}
{{- if and .Values.controlPlane.enabled (not $limiter.xdsAddress) .Values.controlPlane.xds.tls.clientCa (not $limiter.xdsTls.clientCertificate) -}}
{{- fail "controlPlane.xds.tls.clientCa needs limiter.xdsTls.clientCertificate=true: without a certificate, limiters cannot reach the control plane" -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.controlPlane" -}}
{{- $controlPlane := .Values.controlPlane -}}
{{- if and $controlPlane.xds.tls.clientCa (not $controlPlane.xds.tls.existingSecret) -}}
{{- fail "controlPlane.xds.tls.clientCa needs controlPlane.xds.tls.existingSecret" -}}
{{- end -}}
{{- $xds := $controlPlane.xds -}}
{{- $clientCa := (fromYaml (include "weir.controlPlane.xdsTls" .)).clientCa -}}
{{- $canProve := or $clientCa $xds.tokensSecret (include "weir.controlPlane.serviceAccounts" .) -}}
{{- if not (or $canProve $xds.allowAnonymous) -}}
{{- fail "limiters have no way to authenticate: set controlPlane.xds.tls.clientCa, controlPlane.xds.tokensSecret, controlPlane.xds.serviceAccounts with a service account in controlPlane.xds.clientFleets, or controlPlane.xds.allowAnonymous=true" -}}
{{- end -}}
{{- range $entry := splitList "," (default "" $xds.clientFleets) -}}
{{- $entry = trim $entry -}}
{{- if hasPrefix "system:serviceaccount:" $entry -}}
{{- if or (not $xds.serviceAccounts) $clientCa -}}
{{- fail (printf "controlPlane.xds.clientFleets has %q, which needs controlPlane.xds.serviceAccounts=true and no controlPlane.xds.tls.clientCa" $entry) -}}
{{- end -}}
{{- else if hasPrefix "token:" $entry -}}
{{- if not $xds.tokensSecret -}}
{{- fail (printf "controlPlane.xds.clientFleets has %q, which needs controlPlane.xds.tokensSecret" $entry) -}}
{{- end -}}
{{- else if and $entry (not $clientCa) -}}
{{- fail (printf "controlPlane.xds.clientFleets has %q, which needs controlPlane.xds.tls.clientCa=true: without it, the control plane does not request certificates" $entry) -}}
{{- end -}}
{{- end -}}
{{- if and $xds.tokensSecret (include "weir.controlPlane.clientFleets" .) (not (contains "token:" (default "" $xds.clientFleets))) -}}
{{- fail "controlPlane.xds.tokensSecret needs its names in controlPlane.xds.clientFleets, such as token:edge=edge: all other limiters are bound to fleets, too" -}}
{{- end -}}
{{- if and .Values.limiter.enabled (not .Values.limiter.xdsAddress) (include "weir.controlPlane.serviceAccounts" .) (ne .Values.limiter.xdsToken.audience $xds.tokenAudience) (not .Values.limiter.xdsToken.existingSecret) -}}
{{- fail "limiter.xdsToken.audience and controlPlane.xds.tokenAudience must be the same: otherwise limiters cannot authenticate" -}}
{{- end -}}
{{- if and $controlPlane.webhooks.urlsSecret (not $controlPlane.webhooks.signingSecret) -}}
{{- fail "controlPlane.webhooks.urlsSecret needs controlPlane.webhooks.signingSecret: the control plane posts only signed events" -}}
{{- end -}}
{{- if and $controlPlane.secretLookup.tokenSecret (not $controlPlane.webhooks.signingSecret) -}}
{{- fail "controlPlane.secretLookup needs controlPlane.webhooks.signingSecret: it serves that secret" -}}
{{- end -}}
{{- if and $controlPlane.secretLookup.tlsSecret (not $controlPlane.secretLookup.tokenSecret) -}}
{{- fail "controlPlane.secretLookup.tlsSecret needs controlPlane.secretLookup.tokenSecret: its listener opens only with a token" -}}
{{- end -}}
{{- if and $controlPlane.secretLookup.tokenSecret (not (include "weir.controlPlane.apiTlsSecret" .)) (not $controlPlane.secretLookup.allowPlain) -}}
{{- fail "controlPlane.secretLookup needs controlPlane.secretLookup.tlsSecret, or controlPlane.secretLookup.allowPlain=true if others on the network may read the token and the secret" -}}
{{- end -}}
{{- if and $controlPlane.secretLookup.allowPlain $controlPlane.secretLookup.tlsSecret -}}
{{- fail "controlPlane.secretLookup.allowPlain has no effect with controlPlane.secretLookup.tlsSecret: remove one of them" -}}
{{- end -}}
{{- end -}}

{{/* Two releases in one namespace would elect one leader, with the settings of either. Without a cluster, nothing is found. */}}
{{- define "weir.checks.onlyControlPlane" -}}
{{- range default list (lookup "apps/v1" "Deployment" .Release.Namespace "").items -}}
{{- $labels := default dict .metadata.labels -}}
{{- $isControlPlane := and (eq (dig "app.kubernetes.io/part-of" "" $labels) "weir") (eq (dig "app.kubernetes.io/component" "" $labels) "control-plane") -}}
{{- $release := dig "app.kubernetes.io/instance" "" $labels -}}
{{- if and $isControlPlane (ne $release $.Release.Name) -}}
{{- fail (printf "the namespace %s has the control plane of the release %s: install this release in another namespace, or set controlPlane.enabled=false and limiter.xdsAddress" $.Release.Namespace $release) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.dns" -}}
{{- if and (eq (default "" .values.dnsPolicy) "None") (not (default dict .values.dnsConfig).nameservers) -}}
{{- fail (printf "%s.dnsPolicy=None needs %s.dnsConfig.nameservers: otherwise pods cannot resolve names" .name .name) -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.grace" -}}
{{- include "weir.checks.dns" . -}}
{{- if lt (int .values.terminationGracePeriodSeconds) (add (int .values.drainDelaySeconds) 35) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds must be at least 35 more than %s.drainDelaySeconds: otherwise Kubernetes kills pods while calls are still running" .name .name) -}}
{{- end -}}
{{- end -}}

{{/* The control plane rejects an entry that never applies. `*` in an earlier domain stands for any characters, also for a `*`. */}}
{{- define "weir.checks.domainOwners" -}}
{{- $before := list -}}
{{- range $part := regexSplit "[;\n]" (default "" .Values.controlPlane.domainOwners) -1 -}}
{{- $entry := trim $part -}}
{{- if $entry -}}
{{- $domain := trim (regexReplaceAll "=[^=]*$" $entry "") -}}
{{- range $other := $before -}}
{{- if regexMatch (printf "^%s$" ($other | regexQuoteMeta | replace "\\*" ".*")) $domain -}}
{{- fail (printf "the entry %q of controlPlane.domainOwners never applies, because the earlier entry for %q matches the same domains: remove one of them, or change their order" $entry $other) -}}
{{- end -}}
{{- end -}}
{{- $before = append $before $domain -}}
{{- end -}}
{{- end -}}
{{- end -}}
