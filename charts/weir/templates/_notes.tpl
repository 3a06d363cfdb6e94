{{/*
A rule of limiter.rules whose limit a few requests exceed, as YAML: domain, entries, limit. Prints nothing if all rules are
unlimited, in shadow or quota mode, per second, or above 20.
*/}}
{{- define "weir.notes.rule" -}}
{{- $chosen := "" -}}
{{- range $name := sortAlpha (keys .Values.limiter.rules) -}}
{{- $file := index $.Values.limiter.rules $name -}}
{{- if kindIs "string" $file }}{{ $file = fromYaml $file }}{{ end -}}
{{- if not $chosen -}}
{{- $chosen = include "weir.notes.ruleIn" (dict "domain" $file.domain "above" list "descriptors" $file.descriptors) -}}
{{- end -}}
{{- end -}}
{{- $chosen -}}
{{- end -}}

{{/* The same rule at any depth: (dict "domain" "..." "above" <entries of the rules above> "descriptors" <list>). */}}
{{- define "weir.notes.ruleIn" -}}
{{- $chosen := "" -}}
{{- range $descriptor := ternary .descriptors list (kindIs "slice" .descriptors) -}}
{{- if and (not $chosen) (kindIs "map" $descriptor) -}}
{{- $value := default "you" $descriptor.value | toString | replace "*" "you" -}}
{{- $entries := append $.above (dict "key" $descriptor.key "value" $value) -}}
{{- $limit := ternary $descriptor.rate_limit dict (kindIs "map" $descriptor.rate_limit) -}}
{{- $modes := or $limit.unlimited $descriptor.shadow_mode $descriptor.quota_mode (eq (default "" $limit.unit | toString | lower) "second") -}}
{{- $small := and (hasKey $limit "requests_per_unit") (le (int $limit.requests_per_unit) 20) -}}
{{- if and $small (not $modes) -}}
{{- $chosen = toYaml (dict "domain" $.domain "entries" $entries "limit" (int $limit.requests_per_unit)) -}}
{{- else -}}
{{- $chosen = include "weir.notes.ruleIn" (dict "domain" $.domain "above" $entries "descriptors" $descriptor.descriptors) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $chosen -}}
{{- end -}}

{{/* The labels of a selector such as `team=a,tier==b`, as YAML; empty for a more complex selector. */}}
{{- define "weir.notes.labels" -}}
{{- $labels := dict -}}
{{- $plain := true -}}
{{- range splitList "," (default "" .Values.controlPlane.labelSelector) -}}
{{- if regexMatch "^\\s*[^=!()\\s]+\\s*==?\\s*[^=!()\\s]+\\s*$" . -}}
{{- $pair := regexSplit "==?" . 2 -}}
{{- $labels = set $labels (trim (first $pair)) (trim (last $pair)) -}}
{{- else -}}
{{- $plain = false -}}
{{- end -}}
{{- end -}}
{{- if $plain }}{{ toYaml $labels }}{{ end -}}
{{- end -}}

{{/* Sends requests until the first 429: (dict "domain" "..." "entries" (list (dict "key" "..." "value" "...")) "limit" 3 "curl" "..."). */}}
{{- define "weir.notes.loop" -}}
{{- $body := dict "domain" .domain "descriptors" (list (dict "entries" .entries)) | toJson -}}
{{- /* A window may end in between, so up to twice the limit plus one requests are needed. */ -}}
for i in $(seq {{ add (mul 2 .limit) 1 }}); do code=$(curl -s -o /dev/null -w '%{http_code}' {{ .curl }} -d '{{ $body | replace "'" "'\\''" }}'); echo "$code"; [ "$code" != 429 ] || break; done
{{- end -}}

{{/* The arguments of curl other than the body, with the forwarded port: its output format and the address. */}}
{{- define "weir.notes.curl" -}}
{{- $tls := .Values.limiter.httpTls -}}
{{- if $tls.existingSecret }}--cacert ca.crt {{ end -}}
{{- if $tls.clientCa }}--cert <certificate> --key <key> {{ end -}}
{{- if include "weir.limiter.callersFile" . }}-H "Authorization: Bearer $(cat token)" {{ end -}}
http{{ if $tls.existingSecret }}s{{ end }}://localhost:8080/json
{{- end -}}
