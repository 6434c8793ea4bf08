{{/* What Strimzi makes of the declaration. */}}

{{/* The rights of a role with the topics and ids of one spec, as a YAML list: root, facts, role. */}}
{{- define "streaminfer.acls" -}}
{{- $root := .root -}}
{{- $role := .role -}}
{{- $name := .facts.name -}}
{{- $declared := .root.Files.Get "files/declared.yaml" | fromYaml -}}
{{- range .facts.topics -}}
{{- $operations := list -}}
{{- if has $role .readers -}}
{{- $operations = append $operations "Read" -}}
{{- end -}}
{{- if and (has $role .writers) (not .external) -}}
{{- $operations = append $operations "Write" -}}
{{- end -}}
{{- if and (has $role .describers) (not $operations) -}}
{{- $operations = append $operations "Describe" -}}
{{- end -}}
{{- if and (has $role .writers) (not .external) -}}
{{- $operations = append $operations "DescribeConfigs" -}}
{{- end -}}
{{- if $operations }}
- resource: {type: topic, name: {{ include "streaminfer.public" (dict "root" $root "name" .name) | quote }}, patternType: literal}
  operations: {{ toJson $operations }}
{{- end -}}
{{- end -}}
{{- with get $declared.roles $role }}
- resource: {type: group, name: {{ include "streaminfer.public" (dict "root" $root "name" (printf "%s.%s" $name .group)) }}, patternType: literal}
  operations: [Read]
- resource: {type: group, name: {{ include "streaminfer.public" (dict "root" $root "name" (printf "%s.until-idle" $name)) }}, patternType: literal}
  operations: [Describe]
{{- if .writer }}
- resource: {type: transactionalId, name: {{ include "streaminfer.public" (dict "root" $root "name" (printf "%s.%s" $name .writer)) }}, patternType: {{ ternary "prefix" "literal" (hasSuffix "." .writer) }}}
  operations: [Write]
{{- end }}
{{- end -}}
{{- if and (eq $role "monitor") .facts.sampled }}
- resource: {type: group, name: {{ include "streaminfer.public" (dict "root" $root "name" (printf "%s.sampler" $name)) }}, patternType: literal}
  operations: [Describe]
{{- end -}}
{{- end -}}

{{/* A KafkaUser: root, role, posterior (may be empty), acls. */}}
{{- define "streaminfer.strimziUser" -}}
apiVersion: {{ .root.Values.strimzi.apiVersion }}
kind: KafkaUser
metadata:
  name: {{ include "streaminfer.kafkaUser" . }}
  labels:
    {{- include "streaminfer.labels" .root | nindent 4 }}
    strimzi.io/cluster: {{ .root.Values.strimzi.cluster | quote }}
spec:
  authentication: {type: {{ .root.Values.strimzi.authentication }}}
  authorization:
    type: simple
    acls:
      {{- .acls | trim | nindent 6 }}
{{- end -}}
