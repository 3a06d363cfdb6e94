{{- define "weir.name" -}}
{{- include "weir.shortened" (default .Chart.Name .Values.nameOverride) -}}
{{- end -}}

{{/*
The name of a Service has no dots, but the name of a release may have some. A name that is too long ends in a hash, so that
names with the same beginning differ.
*/}}
{{- define "weir.shortened" -}}
{{- $name := replace "." "-" . -}}
{{- if gt (len .) 40 -}}
{{- $name = printf "%s-%s" (trunc 33 $name | trimSuffix "-") (sha256sum . | trunc 6) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "weir.fullname" -}}
{{- $name := include "weir.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- include "weir.shortened" .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- include "weir.shortened" .Release.Name -}}
{{- else -}}
{{- include "weir.shortened" (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- end -}}

{{- define "weir.limiter.name" -}}{{ include "weir.fullname" . }}-limiter{{- end -}}
{{- define "weir.controlPlane.name" -}}{{ include "weir.fullname" . }}-control-plane{{- end -}}

{{/* Takes (dict "root" $ "component" "limiter"); these labels never change for a release. */}}
{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: {{ include "weir.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component | quote }}
{{- end -}}

{{/* Takes (dict "root" $ "component" "limiter" "own" (dict)); the chart's own labels take precedence. */}}
{{- define "weir.labels" -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $labels := merge (dict) (fromYaml (include "weir.selectorLabels" .)) (dict
  "helm.sh/chart" $chart
  "app.kubernetes.io/version" (.root.Chart.AppVersion | toString)
  "app.kubernetes.io/part-of" "weir"
  "app.kubernetes.io/managed-by" .root.Release.Service) -}}
{{- toYaml (merge $labels (default (dict) .own) (default (dict) .root.Values.commonLabels)) -}}
{{- end -}}

{{/* Takes (dict "root" $ "own" (dict)); prints nothing without annotations. */}}
{{- define "weir.annotations" -}}
{{- with merge (dict) (default (dict) .own) (default (dict) .root.Values.commonAnnotations) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The head of an object: (dict "root" $ "component" "limiter" "name" "..." "labels" (dict) "annotations" (dict)). */}}
{{- define "weir.metadata" -}}
name: {{ .name | quote }}
namespace: {{ default .root.Release.Namespace .namespace | quote }}
labels:
  {{- include "weir.labels" (dict "root" .root "component" .component "own" .labels) | nindent 2 }}
{{- with include "weir.annotations" (dict "root" .root "own" .annotations) }}
{{ . }}
{{- end }}
{{- end -}}

{{/* Takes (dict "root" $ "values" .Values.limiter "name" "..."). */}}
{{- define "weir.serviceAccountName" -}}
{{- if .values.serviceAccount.create -}}
{{- default .name .values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/*
Who has a definition that is in the cluster and not of this release alone, which it leaves as it is; nothing for one that is
ours, or not there: (dict "root" $ "name" "..."). Without a cluster, as with "helm template", none is there. What kubectl
changed in a definition of ours it owns from then on: an upgrade would fail with a conflict.
*/}}
{{- define "weir.crds.owner" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name -}}
{{- $annotations := default (dict) (dig "metadata" "annotations" (dict) $found) -}}
{{- $release := get $annotations "meta.helm.sh/release-name" -}}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" -}}
{{- $hand := "" -}}
{{- range default list (dig "metadata" "managedFields" list $found) -}}
{{- if and (hasPrefix "kubectl" .manager) (hasKey (dig "fieldsV1" "f:spec" (dict) .) "f:versions") }}{{ $hand = .manager }}{{ end -}}
{{- end -}}
{{- if and $found (not $release) -}}
of no release
{{- else if and $found (not (and (eq $release .root.Release.Name) (eq $namespace .root.Release.Namespace))) -}}
of the release {{ $release }} in the namespace {{ $namespace }}
{{- else if and $hand (eq (get $annotations "helm.sh/resource-policy") "keep") -}}
kept by kubectl ({{ $hand }})
{{- end -}}
{{- end -}}

{{- define "weir.image" -}}
{{- $image := .Values.image -}}
{{- $registry := default (dig "imageRegistry" "" (default dict .Values.global)) $image.registry -}}
{{- $repository := ternary (printf "%s/%s" $registry $image.repository) $image.repository (not (empty $registry)) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The IP families of a Service, from its values. Prints nothing by default. */}}
{{- define "weir.ipFamilies" -}}
{{- $families := dict -}}
{{- range $name := list "ipFamilyPolicy" "ipFamilies" -}}
{{- with get $ $name }}{{ $families = set $families $name . }}{{ end -}}
{{- end -}}
{{- with $families }}{{ toYaml . }}{{ end -}}
{{- end -}}
