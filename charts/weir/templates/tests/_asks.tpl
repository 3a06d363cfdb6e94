{{/*
The request of "helm test", as YAML: domain, descriptor, and `own` if the test creates the rule for it. Empty if no rule is
known: limiters get their rules from elsewhere, or the labels of a rule of our own could not be determined.
*/}}
{{- define "weir.test.asks" -}}
{{- $test := .Values.helmTest -}}
{{- if and $test.enabled .Values.limiter.enabled -}}
{{- if $test.domain -}}
{{- toYaml (dict "domain" $test.domain "descriptor" $test.descriptor "own" false) -}}
{{- else if and .Values.controlPlane.enabled (or (not .Values.controlPlane.labelSelector) (include "weir.notes.labels" .)) -}}
{{- toYaml (dict "domain" "weir-helm-test" "descriptor" "caller=helm-test" "own" true) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.helmTest" -}}
{{- $test := .Values.helmTest -}}
{{- if ne (empty $test.domain) (empty $test.descriptor) -}}
{{- fail "helmTest.domain and helmTest.descriptor need each other: set both or neither" -}}
{{- end -}}
{{- if and $test.tlsSecret (not .Values.limiter.grpcTls.clientCa) -}}
{{- fail "helmTest.tlsSecret needs limiter.grpcTls.clientCa=true: without it, limiters do not request a certificate" -}}
{{- end -}}
{{- end -}}

{{/* The hooks of "helm test": (dict "root" $ "weight" "0"). */}}
{{- define "weir.test.annotations" -}}
{{- $hook := dict "helm.sh/hook" "test" "helm.sh/hook-weight" .weight "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" -}}
{{- toYaml (merge $hook (default (dict) .root.Values.commonAnnotations)) -}}
{{- end -}}
