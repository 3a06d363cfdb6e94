{{/*
The pod of either program: (dict "root" $ "component" "limiter" "name" "..." "values" .Values.limiter "command" "limiter"
"env" <YAML list> "ports" <YAML list> "probes" <YAML map> "volumes" <YAML list> "mounts" <YAML list> "token" false).
*/}}
{{- define "weir.pod" -}}
{{- $values := .values -}}
{{- $volumes := concat (fromYamlArray .volumes) (default list $values.extraVolumes) -}}
{{- $mounts := concat (fromYamlArray .mounts) (default list $values.extraVolumeMounts) -}}
{{- $pullSecrets := include "weir.pullSecrets" .root -}}
metadata:
  labels:
    {{- /* Without the chart's version, so that a new chart alone replaces no pods. */}}
    {{- $labels := fromYaml (include "weir.labels" (dict "root" .root "component" .component "own" $values.podLabels)) }}
    {{- omit $labels "helm.sh/chart" | toYaml | nindent 4 }}
  {{- with include "weir.annotations" (dict "root" .root "own" $values.podAnnotations) }}
  {{- . | nindent 2 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "weir.serviceAccountName" . | quote }}
  automountServiceAccountToken: {{ .token }}
  # Kubernetes' variables for each Service could be mistaken for settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with $pullSecrets }}
  imagePullSecrets:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with $values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $values.runtimeClassName }}
  runtimeClassName: {{ . | quote }}
  {{- end }}
  {{- with $values.dnsPolicy }}
  dnsPolicy: {{ . }}
  {{- end }}
  {{- with $values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if $values.topologySpreadConstraints }}
    {{- toYaml $values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- include "weir.spread" . | trim | nindent 4 }}
    {{- end }}
  {{- with $values.extraInitContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .component | quote }}
      image: {{ include "weir.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: [/bin/weir]
      args: [{{ .command }}]
      env:
        {{- include "weir.env" (dict "own" .env "extra" $values.extraEnv) | nindent 8 }}
      {{- with $values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- .ports | nindent 8 }}
      {{- with .probes }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with $values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $mounts }}
      volumeMounts:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- with $values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $volumes }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The pull secrets of parent charts and of this chart, each a name or an object with a name, and each once; as YAML, empty without any. */}}
{{- define "weir.pullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (default list (dig "imagePullSecrets" list (default dict .Values.global))) (default list .Values.imagePullSecrets) -}}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- with uniq $secrets }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* Spreads pods over zones and nodes, each version of the pods separately. It never prevents a pod from running. */}}
{{- define "weir.spread" -}}
{{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" -}}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "weir.selectorLabels" $ | nindent 6 }}
{{ end -}}
{{- end -}}

{{/* The chart's own variables, except for those in extraEnv, then extraEnv. */}}
{{- define "weir.env" -}}
{{- $extra := default list .extra -}}
{{- $names := list -}}
{{- range $extra }}{{ $names = append $names .name }}{{ end -}}
{{- $env := list -}}
{{- range fromYamlArray .own }}
{{- if not (has .name $names) }}{{ $env = append $env . }}{{ end -}}
{{- end -}}
{{- toYaml (concat $env $extra) -}}
{{- end -}}

{{/* An HTTP probe: (dict "name" "livenessProbe" "path" "/livez" "port" "metrics" "tls" false "values" .Values.limiter). */}}
{{- define "weir.probe" -}}
{{- $probe := index .values .name -}}
{{ .name }}:
  httpGet:
    path: {{ .path }}
    port: {{ .port }}
    {{- if .tls }}
    scheme: HTTPS
    {{- end }}
  periodSeconds: {{ $probe.periodSeconds }}
  timeoutSeconds: {{ $probe.timeoutSeconds }}
  failureThreshold: {{ $probe.failureThreshold }}
{{- end -}}

{{/* A variable whose value is in a Secret: (dict "name" "REDIS_AUTH" "secret" "..." "key" "..."). */}}
{{- define "weir.secretEnv" -}}
- name: {{ .name | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{- end -}}

{{/* The files of a Secret in a folder of /etc/weir: (dict "volume" "grpc-tls" "secret" "..."). */}}
{{- define "weir.secretVolume" -}}
- name: {{ .volume | quote }}
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
{{- end -}}

{{- define "weir.mount" -}}
- name: {{ . | quote }}
  mountPath: /etc/weir/{{ . }}
  readOnly: true
{{- end -}}

{{/* The address with a port, in the form of `PROMETHEUS_ADDR`. */}}
{{- define "weir.bracketed" -}}
{{- ternary "[::]" .Values.listenAddress (eq .Values.listenAddress "::") -}}
{{- end -}}
