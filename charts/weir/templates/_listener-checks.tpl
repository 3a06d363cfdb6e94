{{/* Checks for ports that two listeners would share, and for Services that Kubernetes would reject. */}}
{{- define "weir.checks.service" -}}
{{- $limiter := .Values.limiter -}}
{{- $service := $limiter.service -}}
{{- if and $service.headless (ne $service.type "ClusterIP") -}}
{{- fail (printf "limiter.service.headless needs limiter.service.type=ClusterIP: a %s Service has an address of its own" $service.type) -}}
{{- end -}}
{{- if and $service.headless $service.trafficDistribution -}}
{{- fail "limiter.service.trafficDistribution has no effect with limiter.service.headless, because callers choose among all pods: remove one of them" -}}
{{- end -}}
{{- if and (ne $service.type "LoadBalancer") (or $service.loadBalancerClass $service.loadBalancerSourceRanges) -}}
{{- fail "limiter.service.loadBalancerClass and limiter.service.loadBalancerSourceRanges need limiter.service.type=LoadBalancer" -}}
{{- end -}}
{{- if and (eq $service.type "ClusterIP") $service.externalTrafficPolicy -}}
{{- fail "limiter.service.externalTrafficPolicy needs limiter.service.type=LoadBalancer or NodePort: no other Service has calls from outside of the cluster" -}}
{{- end -}}
{{- include "weir.checks.ipFamilies" (dict "root" . "name" "limiter" "service" $service) -}}
{{- $listeners := $limiter.ports -}}
{{- if not $limiter.metrics.enabled }}{{ $listeners = omit $listeners "metrics" }}{{ end -}}
{{- include "weir.checks.samePort" (dict "name" "limiter.ports" "ports" $listeners) -}}
{{- $ports := dict "grpcPort" $service.grpcPort "httpPort" $service.httpPort -}}
{{- if and $limiter.metrics.enabled (eq $service.type "ClusterIP") }}{{ $ports = set $ports "metricsPort" $service.metricsPort }}{{ end -}}
{{- include "weir.checks.samePort" (dict "name" "limiter.service" "ports" $ports) -}}
{{- end -}}

{{/* (dict "root" $ "name" "limiter" "service" .Values.limiter.service). */}}
{{- define "weir.checks.ipFamilies" -}}
{{- $policy := default "" .service.ipFamilyPolicy -}}
{{- $families := default list .service.ipFamilies -}}
{{- if and (gt (len $families) 1) (not (hasSuffix "DualStack" $policy)) -}}
{{- fail (printf "%s.service.ipFamilies has two families: set %s.service.ipFamilyPolicy=PreferDualStack or RequireDualStack" .name .name) -}}
{{- end -}}
{{- if and (or (hasSuffix "DualStack" $policy) (has "IPv6" $families)) (ne .root.Values.listenAddress "::") -}}
{{- fail (printf "%s.service has IPv6 addresses, which need listenAddress=\"::\": at %s, pods accept no connections over IPv6" .name .root.Values.listenAddress) -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.controlPlanePorts" -}}
{{- include "weir.checks.ipFamilies" (dict "root" . "name" "controlPlane" "service" .Values.controlPlane.service) -}}
{{- $ports := .Values.controlPlane.ports -}}
{{- if not .Values.controlPlane.secretLookup.tokenSecret }}{{ $ports = omit $ports "api" }}{{ end -}}
{{- if not .Values.admission.enabled }}{{ $ports = omit $ports "admission" }}{{ end -}}
{{- include "weir.checks.samePort" (dict "name" "controlPlane.ports" "ports" $ports) -}}
{{- end -}}

{{/* (dict "name" "limiter.ports" "ports" (dict "grpc" 8081 "http" 8080)). */}}
{{- define "weir.checks.samePort" -}}
{{- $taken := dict -}}
{{- range $name := sortAlpha (keys .ports) -}}
{{- $port := index $.ports $name | int | toString -}}
{{- with get $taken $port -}}
{{- fail (printf "%s.%s and %s.%s are both %s: each listener needs a port of its own" $.name . $.name $name $port) -}}
{{- end -}}
{{- $taken = set $taken $port $name -}}
{{- end -}}
{{- end -}}

{{/* Checks for files that no limiter would load: files that are not YAML, or have no domain. */}}
{{- define "weir.checks.ruleFiles" -}}
{{- range $file, $rules := .Values.limiter.rules -}}
{{- if kindIs "string" $rules }}{{ $rules = fromYaml $rules }}{{ end -}}
{{- if hasKey $rules "Error" -}}
{{- fail (printf "the file %q in limiter.rules is not a rule file: %s" $file (get $rules "Error")) -}}
{{- end -}}
{{- if empty (get $rules "domain") -}}
{{- fail (printf "the file %q in limiter.rules has no domain: add the field domain" $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
