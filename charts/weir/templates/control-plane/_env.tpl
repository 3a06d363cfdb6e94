{{/* The environment of the control plane; every name is a setting of docs/settings-control-plane.md. */}}
{{- define "weir.controlPlane.env" -}}
{{- $controlPlane := .Values.controlPlane -}}
{{- $xdsTls := fromYaml (include "weir.controlPlane.xdsTls" .) -}}
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
- { name: XDS_HOST, value: {{ .Values.listenAddress | quote }} }
- { name: XDS_PORT, value: {{ $controlPlane.ports.xds | quote }} }
- { name: HOST, value: {{ .Values.listenAddress | quote }} }
- { name: PORT, value: {{ $controlPlane.ports.metrics | quote }} }
- { name: SHUTDOWN_DRAIN_DELAY, value: {{ $controlPlane.drainDelaySeconds }}s }
- { name: LOG_LEVEL, value: {{ $controlPlane.log.level }} }
- { name: LOG_FORMAT, value: {{ $controlPlane.log.format }} }
- { name: MERGE_DOMAIN_CONFIG, value: {{ $controlPlane.mergeDomainConfig | quote }} }
- { name: CLASS_NAME, value: {{ $controlPlane.className | quote }} }
{{- with $controlPlane.watchNamespaces }}
- { name: WATCH_NAMESPACES, value: {{ join "," . | quote }} }
{{- end }}
{{- with $controlPlane.labelSelector }}
- { name: LABEL_SELECTOR, value: {{ . | quote }} }
{{- end }}
{{- if .Values.limiter.enabled }}
- { name: FLEET_SERVICES, value: {{ printf "%s=%s/%s" .Values.limiter.fleet .Release.Namespace (include "weir.limiter.name" .) | quote }} }
{{- end }}
{{- with $controlPlane.domainOwners }}
- { name: DOMAIN_OWNERS, value: {{ . | quote }} }
{{- end }}
- { name: DOMAIN_OWNERSHIP, value: {{ $controlPlane.domainOwnership }} }
{{- if $xdsTls.existingSecret }}
- { name: XDS_TLS_CERT, value: /etc/weir/xds-tls/tls.crt }
- { name: XDS_TLS_KEY, value: /etc/weir/xds-tls/tls.key }
{{- end }}
{{- if $xdsTls.clientCa }}
- { name: XDS_TLS_CLIENT_CACERT, value: /etc/weir/xds-tls/ca.crt }
{{- end }}
{{- if $controlPlane.xds.tokensSecret }}
- { name: XDS_TOKENS_FILE, value: {{ printf "/etc/weir/xds-tokens/%s" $controlPlane.xds.tokensSecretKey | quote }} }
{{- end }}
{{- if include "weir.controlPlane.serviceAccounts" . }}
- { name: XDS_TOKEN_AUDIENCE, value: {{ $controlPlane.xds.tokenAudience | quote }} }
{{- end }}
{{- with include "weir.controlPlane.clientFleets" . }}
- { name: XDS_CLIENT_FLEETS, value: {{ . | quote }} }
{{- end }}
{{- if $controlPlane.xds.allowAnonymous }}
- { name: XDS_ALLOW_ANONYMOUS, value: "true" }
{{- end }}
{{- with $controlPlane.webhooks }}
{{- if .urlsSecret }}
{{ include "weir.secretEnv" (dict "name" "WEBHOOK_URLS" "secret" .urlsSecret "key" .urlsSecretKey) }}
{{- end }}
{{- if .signingSecret }}
- { name: WEBHOOK_SECRET_FILE, value: {{ printf "/etc/weir/webhooks/%s" .signingSecretKey | quote }} }
{{- end }}
{{- if .allowLocal }}
- { name: WEBHOOK_ALLOW_LOCAL, value: "true" }
{{- end }}
{{- end }}
{{- with $controlPlane.secretLookup }}
{{- if .tokenSecret }}
- { name: API_HOST, value: {{ $.Values.listenAddress | quote }} }
- { name: API_PORT, value: {{ $controlPlane.ports.api | quote }} }
- { name: API_TOKEN_FILE, value: {{ printf "/etc/weir/api-token/%s" .tokenSecretKey | quote }} }
{{- end }}
{{- if .allowPlain }}
- { name: API_ALLOW_PLAIN, value: "true" }
{{- end }}
{{- if include "weir.controlPlane.apiTlsSecret" $ }}
- { name: API_TLS_CERT, value: /etc/weir/api-tls/tls.crt }
- { name: API_TLS_KEY, value: /etc/weir/api-tls/tls.key }
{{- end }}
{{- end }}
{{- with $controlPlane.debugToken }}
{{- if .existingSecret }}
- { name: DEBUG_TOKEN_FILE, value: {{ printf "/etc/weir/debug-token/%s" .existingSecretKey | quote }} }
{{- end }}
{{- end }}
{{- with $controlPlane.debugAllowedHosts }}
- { name: DEBUG_ALLOWED_HOSTS, value: {{ join "," . | quote }} }
{{- end }}
{{- if .Values.admission.enabled }}
- { name: ADMISSION_HOST, value: {{ .Values.listenAddress | quote }} }
- { name: ADMISSION_PORT, value: {{ $controlPlane.ports.admission | quote }} }
- { name: ADMISSION_TLS_CERT, value: /etc/weir/admission-tls/tls.crt }
- { name: ADMISSION_TLS_KEY, value: /etc/weir/admission-tls/tls.key }
{{- end }}
{{- end -}}

{{/* Not empty if limiters authenticate with service accounts, which are assigned to fleets. */}}
{{- define "weir.controlPlane.serviceAccounts" -}}
{{- $xds := .Values.controlPlane.xds -}}
{{- $clientCa := (fromYaml (include "weir.controlPlane.xdsTls" .)).clientCa -}}
{{- if and $xds.serviceAccounts (not $clientCa) (contains "system:serviceaccount:" (include "weir.controlPlane.clientFleets" .)) }}yes{{ end -}}
{{- end -}}

{{/* The limiters of this release, then the limiters in the values. */}}
{{- define "weir.controlPlane.clientFleets" -}}
{{- $xds := .Values.controlPlane.xds -}}
{{- $fleets := list -}}
{{- if and .Values.limiter.enabled .Values.certManager.enabled -}}
{{- $fleets = append $fleets (printf "%s=%s" (include "weir.limiter.certificateName" .) .Values.limiter.fleet) -}}
{{- else if and .Values.limiter.enabled $xds.serviceAccounts (not $xds.tls.clientCa) -}}
{{- $account := include "weir.serviceAccountName" (dict "values" .Values.limiter "name" (include "weir.limiter.name" .)) -}}
{{- $fleets = append $fleets (printf "system:serviceaccount:%s:%s=%s" .Release.Namespace $account .Values.limiter.fleet) -}}
{{- end -}}
{{- with $xds.clientFleets }}{{ $fleets = append $fleets . }}{{ end -}}
{{- join "," $fleets -}}
{{- end -}}
