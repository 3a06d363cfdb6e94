{{- define "weir.controlPlane.ports" -}}
{{- $controlPlane := .Values.controlPlane -}}
- { name: xds, containerPort: {{ $controlPlane.ports.xds }} }
- { name: metrics, containerPort: {{ $controlPlane.ports.metrics }} }
{{- if $controlPlane.secretLookup.tokenSecret }}
- { name: api, containerPort: {{ $controlPlane.ports.api }} }
{{- end }}
{{- if .Values.admission.enabled }}
- { name: admission, containerPort: {{ $controlPlane.ports.admission }} }
{{- end }}
{{- end -}}

{{- define "weir.controlPlane.probes" -}}
{{- $controlPlane := .Values.controlPlane -}}
{{ include "weir.probe" (dict "name" "startupProbe" "path" "/healthz" "port" "metrics" "values" $controlPlane) }}
{{ include "weir.probe" (dict "name" "livenessProbe" "path" "/healthz" "port" "metrics" "values" $controlPlane) }}
{{ include "weir.probe" (dict "name" "readinessProbe" "path" "/readyz" "port" "metrics" "values" $controlPlane) }}
{{- end -}}

{{/* The folders of /etc/weir that contain Secrets, by name. */}}
{{- define "weir.controlPlane.secrets" -}}
{{- $controlPlane := .Values.controlPlane -}}
{{- with (fromYaml (include "weir.controlPlane.xdsTls" .)).existingSecret }}
xds-tls: {{ . | quote }}
{{- end }}
{{- with $controlPlane.xds.tokensSecret }}
xds-tokens: {{ . | quote }}
{{- end }}
{{- with $controlPlane.webhooks.signingSecret }}
webhooks: {{ . | quote }}
{{- end }}
{{- with $controlPlane.secretLookup.tokenSecret }}
api-token: {{ . | quote }}
{{- end }}
{{- with $controlPlane.debugToken.existingSecret }}
debug-token: {{ . | quote }}
{{- end }}
{{- with include "weir.controlPlane.apiTlsSecret" . }}
api-tls: {{ . | quote }}
{{- end }}
{{- with include "weir.controlPlane.admissionTlsSecret" . }}
admission-tls: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "weir.controlPlane.volumes" -}}
{{- range $volume, $secret := fromYaml (include "weir.controlPlane.secrets" .) }}
{{ include "weir.secretVolume" (dict "volume" $volume "secret" $secret) }}
{{- end }}
{{- end -}}

{{- define "weir.controlPlane.mounts" -}}
{{- range $volume, $_ := fromYaml (include "weir.controlPlane.secrets" .) }}
{{ include "weir.mount" $volume }}
{{- end }}
{{- end -}}
