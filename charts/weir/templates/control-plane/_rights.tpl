{{/* The rights of the control plane in the namespaces of RateLimitConfigs and RateLimitOverrides. */}}
{{- define "weir.controlPlane.configRules" -}}
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitconfigs, ratelimitoverrides]
  verbs: [list, watch]
- apiGroups: [ratelimit.weir.dev]
  resources: [ratelimitconfigs/status, ratelimitoverrides/status]
  verbs: [patch]
# A repeated event increases the count of the existing event.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* Its rights on objects without a namespace. */}}
{{- define "weir.controlPlane.clusterRules" -}}
# The labels by which a RateLimitFleet may select namespaces. They are read only while a fleet selects by label.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end -}}

{{/* Its rights in the namespace of the release. */}}
{{- define "weir.controlPlane.ownRules" -}}
# The leader's Lease object, by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "weir.controlPlane.leaseName" . | quote }}]
  verbs: [get, update]
# A Lease object for each replica, named after its pod. Rules cannot name these, nor objects that are still to be created.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, watch, create, patch, delete]
# Each replica's report about its limiters, the last accepted specs of objects, the last owners of domains, and
# deleted objects that webhooks must report: ConfigMaps named after pods and uids, weir-domains, and others.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, create, patch, delete]
# RateLimitFleets, which the control plane creates for the Services in FLEET_SERVICES, and never changes.
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

{{/* LEASE_NAME from extraEnv, if it is set. */}}
{{- define "weir.controlPlane.leaseName" -}}
{{- $name := "weir-control-plane" -}}
{{- range .Values.controlPlane.extraEnv -}}
{{- if eq .name "LEASE_NAME" }}{{ $name = default $name .value }}{{ end -}}
{{- end -}}
{{- $name -}}
{{- end -}}
