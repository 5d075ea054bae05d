{{- define "toolrack.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- define "toolrack.secret" -}}
{{ .Values.secret.name | default .Release.Name }}
{{- end }}

{{/* The object metadata that all have. */}}
{{- define "toolrack.metadata" -}}
metadata:
  name: {{ .Release.Name }}
  labels:
    {{- include "toolrack.labels" . | nindent 4 }}
{{- end }}

{{- define "toolrack.variable" -}}
- name: {{ .variable }}
  valueFrom: { secretKeyRef: { name: {{ include "toolrack.secret" .root }}, key: {{ .key }} } }
{{- end }}

{{/* A probe needs a name that the daemon answers to. */}}
{{- define "toolrack.probe" -}}
httpGet:
  path: {{ . }}
  port: http
  httpHeaders: [{ name: Host, value: "localhost:7717" }]
{{- end }}

{{- define "toolrack.files" -}}
team.toml: |
  {{- .Values.team | trimSuffix "\n" | nindent 2 }}
  {{- if eq .Values.store "postgres" }}

  [store]
  url = "${TOOLRACK_DATABASE}"
  {{- end }}
{{- range $tenant, $files := .Values.tenants }}
{{- with $files.mcp }}
{{ $tenant }}.json: |
  {{- . | trimSuffix "\n" | nindent 2 }}
{{- end }}
{{- with $files.settings }}
{{ $tenant }}.settings.toml: |
  {{- . | trimSuffix "\n" | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
