{{/*
TLS between limiters and control plane: from the values, or from cert-manager. It is YAML, for fromYaml.
*/}}
{{- define "weir.controlPlane.xdsTls" -}}
{{- if .Values.certManager.enabled -}}
{{- toYaml (dict "existingSecret" (printf "%s-xds-tls" (include "weir.controlPlane.name" .)) "clientCa" true) -}}
{{- else -}}
{{- toYaml .Values.controlPlane.xds.tls -}}
{{- end -}}
{{- end -}}

{{- define "weir.limiter.xdsTls" -}}
{{- $own := dict -}}
{{- if .Values.certManager.enabled -}}
{{- $own = dict "enabled" true "existingSecret" (printf "%s-xds-tls" (include "weir.limiter.name" .)) "clientCertificate" true -}}
{{- end -}}
{{- toYaml (merge $own .Values.limiter.xdsTls) -}}
{{- end -}}

{{- define "weir.controlPlane.xdsSpeaksTls" -}}
{{- if (fromYaml (include "weir.controlPlane.xdsTls" .)).existingSecret }}yes{{ end -}}
{{- end -}}

{{/* The Secret for TLS of the secret lookup; empty without TLS. */}}
{{- define "weir.controlPlane.apiTlsSecret" -}}
{{- $lookup := .Values.controlPlane.secretLookup -}}
{{- if $lookup.tlsSecret -}}
{{- $lookup.tlsSecret -}}
{{- else if and .Values.certManager.enabled $lookup.tokenSecret -}}
{{- include "weir.controlPlane.name" . }}-api-tls
{{- end -}}
{{- end -}}

{{/* The Secret for admission reviews; empty if admission is off. */}}
{{- define "weir.controlPlane.admissionTlsSecret" -}}
{{- if .Values.admission.enabled -}}
{{- default (printf "%s-admission-tls" (include "weir.controlPlane.name" .)) .Values.admission.tlsSecret -}}
{{- end -}}
{{- end -}}

{{/* The name in the certificate that cert-manager creates for the limiters. It assigns them to their fleet. */}}
{{- define "weir.limiter.certificateName" -}}
{{- include "weir.limiter.name" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* The certificates to request from cert-manager, as a YAML list. Each is stored in a Secret with its name. */}}
{{- define "weir.certificates" -}}
{{- $controlPlane := include "weir.controlPlane.name" . -}}
{{- $service := printf "%s.%s" $controlPlane .Release.Namespace -}}
{{- $names := list (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) $service $controlPlane -}}
{{- $certificates := list -}}
{{- if .Values.controlPlane.enabled -}}
{{- $certificates = append $certificates (dict "name" (printf "%s-xds-tls" $controlPlane) "component" "control-plane" "usage" "server auth" "dnsNames" $names) -}}
{{- if and .Values.controlPlane.secretLookup.tokenSecret (not .Values.controlPlane.secretLookup.tlsSecret) -}}
{{- $certificates = append $certificates (dict "name" (printf "%s-api-tls" $controlPlane) "component" "control-plane" "usage" "server auth" "dnsNames" $names) -}}
{{- end -}}
{{- if and .Values.admission.enabled (not .Values.admission.tlsSecret) -}}
{{- $certificates = append $certificates (dict "name" (include "weir.controlPlane.admissionTlsSecret" .) "component" "control-plane" "usage" "server auth" "dnsNames" $names) -}}
{{- end -}}
{{- end -}}
{{- if .Values.limiter.enabled -}}
{{- $certificates = append $certificates (dict "name" (printf "%s-xds-tls" (include "weir.limiter.name" .)) "component" "limiter" "usage" "client auth" "dnsNames" (list (include "weir.limiter.certificateName" .))) -}}
{{- end -}}
{{- toYaml $certificates -}}
{{- end -}}

{{- define "weir.checks.admission" -}}
{{- $admission := .Values.admission -}}
{{- if not .Values.controlPlane.enabled -}}
{{- fail "admission.enabled needs controlPlane.enabled=true: without a control plane, nothing answers the API server" -}}
{{- end -}}
{{- if not (or $admission.tlsSecret .Values.certManager.enabled) -}}
{{- fail "admission.enabled needs a certificate: set admission.tlsSecret and admission.caBundle, or certManager.enabled=true" -}}
{{- end -}}
{{- if and $admission.tlsSecret (not $admission.caBundle) (not $admission.annotations) -}}
{{- fail "admission.tlsSecret needs admission.caBundle, or an annotation in admission.annotations that adds it: otherwise the API server does not trust the certificate" -}}
{{- end -}}
{{- if and $admission.caBundle (not $admission.tlsSecret) -}}
{{- fail "admission.caBundle needs admission.tlsSecret: without it, cert-manager adds the authority of its own certificate, so remove admission.caBundle" -}}
{{- end -}}
{{- if and $admission.caBundle (not (contains "-----BEGIN CERTIFICATE-----" $admission.caBundle)) -}}
{{- fail "admission.caBundle is not a certificate in PEM: use --set-file admission.caBundle=ca.crt to read it from a file" -}}
{{- end -}}
{{- end -}}

{{- define "weir.checks.certManager" -}}
{{- $server := .Values.controlPlane.xds.tls -}}
{{- $client := .Values.limiter.xdsTls -}}
{{- if or $server.existingSecret $server.clientCa $client.enabled $client.existingSecret $client.clientCertificate -}}
{{- fail "certManager.enabled sets up TLS between limiters and control plane: remove controlPlane.xds.tls, and everything in limiter.xdsTls except serverName" -}}
{{- end -}}
{{- if and .Values.limiter.enabled (or .Values.limiter.rules .Values.limiter.existingRulesConfigMap) -}}
{{- fail "certManager.enabled has no effect when limiters read their rules from files: set certManager.enabled=false" -}}
{{- end -}}
{{- if and (not .Values.controlPlane.enabled) (not .Values.certManager.issuerRef.name) -}}
{{- fail "certManager.enabled without a control plane needs certManager.issuerRef.name: set it to the issuer of the other release, because its control plane does not trust an authority of this release" -}}
{{- end -}}
{{- if .Values.controlPlane.secretLookup.allowPlain -}}
{{- fail "controlPlane.secretLookup.allowPlain has no effect with certManager.enabled: remove one of them" -}}
{{- end -}}
{{- if .Values.limiter.xdsToken.existingSecret -}}
{{- fail "limiter.xdsToken.existingSecret has no effect with certManager.enabled, because limiters authenticate with certificates: remove one of them" -}}
{{- end -}}
{{- end -}}
