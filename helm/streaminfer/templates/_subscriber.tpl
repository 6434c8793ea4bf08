{{/* For your own charts: a sidecar that keeps the newest posterior of a spec in a file.

With this chart as a dependency named streaminfer, in the spec of a pod:

  initContainers:
    - {{- include "streaminfer.subscriber.sidecar" (dict "root" .Subcharts.streaminfer "spec" "prices") | nindent 6 }}
  volumes:
    {{- include "streaminfer.subscriber.volumes" (dict "root" .Subcharts.streaminfer "spec" "prices") | nindent 4 }}

Mount the volume `posterior` in your own container. Further arguments, the same for both: key, maxAge, directory. */}}

{{- define "streaminfer.subscriber.arguments" -}}
{{- $names := list -}}
{{- range .root.Values.specs -}}
{{- $names = append $names .spec.name -}}
{{- end -}}
{{- if not (has .spec $names) -}}
{{- fail (printf "%sspec: must be the name of a spec in specs, one of %s (got %q)" (.place | default "subscriber.") (join ", " $names) (toString .spec)) -}}
{{- end -}}
{{- $directory := .directory | default "/posterior" -}}
{{- $args := list "subscribe" (include "streaminfer.specFile" .spec) "--to" $directory -}}
{{- if .key -}}
{{- $args = concat $args (list (printf "--key=%s" (.key | replace "$" "$$"))) -}}
{{- end -}}
{{- if .maxAge -}}
{{- $args = concat $args (list "--max-age" (int .maxAge | toString)) -}}
{{- end -}}
{{- $args = concat $args (list "--http" (printf "%s:%d" .root.Values.http.host (int .root.Values.http.sidecarPort))) -}}
{{- toYaml (dict "role" "subscribe" "name" "posterior" "kind" "subscriber" "posterior" .spec "names" (list .spec) "scratch" "posterior-tmp"
  "serves" true "port" .root.Values.http.sidecarPort "portName" "posterior" "startup" "/readyz"
  "patience" (dict "failureThreshold" 28800) "posteriorAt" $directory "args" $args) -}}
{{- end -}}

{{/* It is ready while the file is complete and fresh; your container starts once it is. */}}
{{- define "streaminfer.subscriber.sidecar" -}}
{{ include "streaminfer.container" (merge (dict "root" .root) (include "streaminfer.subscriber.arguments" . | fromYaml)) }}
restartPolicy: Always
{{- end -}}

{{- define "streaminfer.subscriber.volumes" -}}
- {name: posterior, emptyDir: {sizeLimit: {{ .root.Values.scratch.posterior }}}}
{{ include "streaminfer.volumes" (merge (dict "root" .root) (include "streaminfer.subscriber.arguments" . | fromYaml)) }}
{{- end -}}

{{- define "streaminfer.subscriberSelector" -}}
{{ include "streaminfer.releaseLabels" .root }}
app.kubernetes.io/component: subscriber
streaminfer/subscriber: {{ .each.name | quote }}
{{- end -}}
