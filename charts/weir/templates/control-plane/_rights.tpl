{{/* What the control plane may do where RateLimitConfigs and RateLimitOverrides are. */}}
{{- define "weir.controlPlane.configRules" -}}
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitconfigs, ratelimitoverrides]
  verbs: [list, watch]
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitconfigs/status, ratelimitoverrides/status]
  verbs: [patch]
# An event that comes again is counted in the event that is there.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What it may do with what is of no namespace. */}}
{{- define "weir.controlPlane.clusterRules" -}}
# The labels by which a RateLimitFleet may choose namespaces; asked for while one does.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end -}}

{{/* What it may do in the namespace of the release. */}}
{{- define "weir.controlPlane.ownRules" -}}
# The Lease of the leader, by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "weir.controlPlane.leaseName" . | quote }}]
  verbs: [get, update]
# One Lease of each replica, named after its pod, which no rule can know; and what has no name yet when it is created.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, watch, create, patch, delete]
# What each replica's limiters answered, the last accepted rules of objects whose newest are not accepted, whose domains
# were last, and deleted objects that webhooks are to report: named after pods, by uids, weir-domains and the like.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, create, patch, delete]
# Who is expected in which fleet: created for the Services that FLEET_SERVICES names, and never changed.
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitfleets]
  verbs: [list, watch, create]
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitfleets/status]
  verbs: [patch]
# The limiters behind these Services.
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end -}}

{{/* The end of a binding: (dict "root" $ "kind" "Role" "role" "..."). */}}
{{- define "weir.controlPlane.binds" -}}
{{- $name := include "weir.controlPlane.name" .root -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ include "weir.serviceAccountName" (dict "values" .root.Values.controlPlane "name" $name) | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end -}}

{{/* As LEASE_NAME of extraEnv says, if it does. */}}
{{- define "weir.controlPlane.leaseName" -}}
{{- $name := "weir-control-plane" -}}
{{- range .Values.controlPlane.extraEnv -}}
{{- if eq .name "LEASE_NAME" }}{{ $name = default $name .value }}{{ end -}}
{{- end -}}
{{- $name -}}
{{- end -}}
