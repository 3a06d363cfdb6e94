{{/* What the control plane may do where RateLimitConfigs are. */}}
{{- define "weir.controlPlane.configRules" -}}
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitconfigs]
  verbs: [list, watch]
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitconfigs/status]
  verbs: [patch]
# An event that comes again is counted in the event that is there.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What it may do in the namespace of the release. */}}
{{- define "weir.controlPlane.ownRules" -}}
# The leader's Lease, and one of each replica.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch, delete]
# What each replica's limiters answered, and the last accepted rules of objects whose newest are not accepted.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, create, patch, delete]
{{- end -}}

{{/* The end of a binding: (dict "root" $ "kind" "Role" "role" "..."). */}}
{{- define "weir.controlPlane.binds" -}}
{{- $name := include "weir.controlPlane.name" .root -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ include "weir.serviceAccountName" (dict "values" .root.Values.controlPlane "name" $name) }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
