{{- define "portaria.selector" -}}
app.kubernetes.io/name: portaria
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "portaria.labels" -}}
{{ include "portaria.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
