{{/* Small objects that several templates make. */}}

{{/* Pods of a workload leave one at a time: root, component, posterior. */}}
{{- define "streaminfer.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "streaminfer.object" (dict "root" .root "parts" (compact (list .posterior .component))) }}
  labels:
    {{- include "streaminfer.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "streaminfer.selector" . | nindent 6 }}
{{- end -}}

{{/* Name and labels of an object: root, parts. */}}
{{- define "streaminfer.metadata" -}}
name: {{ include "streaminfer.object" . }}
labels:
  {{- include "streaminfer.labels" .root | nindent 2 }}
{{- end -}}

{{/* Where our pods may go: names, brokers, the registry, and what the user adds. */}}
{{- define "streaminfer.egress" -}}
{{- $policy := .root.Values.networkPolicy -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
- ports:
    {{- range .kafkaPorts }}
    - {port: {{ int . }}, protocol: TCP}
    {{- end }}
  {{- with $policy.kafkaTo }}
  to: {{ toJson . }}
  {{- end }}
{{- with .root.Values.schemaRegistry.url }}
{{- $port := regexFind ":[0-9]+$" (urlParse . | dig "host" "") | trimPrefix ":" }}
- ports: [{port: {{ $port | default (ternary "443" "80" (hasPrefix "https:" .)) }}, protocol: TCP}]
  {{- with $policy.registryTo }}
  to: {{ toJson . }}
  {{- end }}
{{- end }}
{{- with $policy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
