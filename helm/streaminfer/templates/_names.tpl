{{/* Names and labels. */}}

{{- define "streaminfer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What the names of all objects of the release begin with. */}}
{{- define "streaminfer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of an object: (dict "root" . "parts" (list "prices" "master")). A long one ends with a hash of all of it,
so that the names of its pods still fit. */}}
{{- define "streaminfer.object" -}}
{{- $long := prepend .parts (include "streaminfer.fullname" .root) | join "-" -}}
{{- if le (len $long) 52 -}}
{{- $long -}}
{{- else -}}
{{- printf "%s-%s" ($long | trunc 43 | trimSuffix "-") ($long | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{- define "streaminfer.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "streaminfer.releaseLabels" . }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What all pods of a release have, and no others. */}}
{{- define "streaminfer.releaseLabels" -}}
app.kubernetes.io/name: {{ include "streaminfer.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* What the pods of one workload have: root, component, posterior (may be empty). */}}
{{- define "streaminfer.selector" -}}
{{ include "streaminfer.releaseLabels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- with .posterior }}
streaminfer/posterior: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "streaminfer.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "streaminfer.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "streaminfer.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "streaminfer.tokenSecret" -}}
{{- .Values.http.existingSecret | default (include "streaminfer.object" (dict "root" . "parts" (list "http"))) -}}
{{- end -}}
