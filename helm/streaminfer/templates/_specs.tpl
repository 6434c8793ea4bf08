{{/* What follows from a spec: its services and topics, by files/declared.yaml. */}}

{{/* The facts of one entry of `specs`, as YAML: (dict "root" . "entry" entry "place" "specs[0]").
partitions is 0 if the spec does not say. */}}
{{- define "streaminfer.facts" -}}
{{- $declared := .root.Files.Get "files/declared.yaml" | fromYaml -}}
{{- $spec := .entry.spec -}}
{{- $data := $spec.data | default dict -}}
{{- $inference := $spec.inference | default dict -}}
{{- $method := $inference.method | default $declared.defaults.method -}}
{{- $sampled := has $method $declared.samplers -}}
{{- $partitions := ternary 0 (int ($data.partitions | default $declared.defaults.partitions)) (not (empty $data.topic)) -}}
{{- $shards := 1 -}}
{{- if eq $spec.model.kind "lda" -}}
{{- $shards = int ($spec.model.shards | default 1) -}}
{{- else if kindIs "map" $spec.key -}}
{{- $shards = int ($spec.key.shards | default 1) -}}
{{- end -}}
{{- $parts := int ($inference.subposteriors | default (ternary 1 $partitions (empty $inference.combine))) -}}
{{- $combines := and $sampled (or (gt $parts 1) (not (empty $inference.combine))) -}}
{{- $units := mul $parts (int ($inference.chains | default $declared.defaults.chains)) -}}
{{- $has := list $method (ternary "samplers" "variational" $sampled) -}}
{{- if $combines -}}
{{- $has = append $has "combine" -}}
{{- end -}}
{{- $forget := $inference.forget | default dict -}}
{{- if and (not $sampled) (or (hasKey $forget "window_events") (hasKey $forget "window_seconds")) -}}
{{- $has = append $has "windows" -}}
{{- end -}}
{{- $topics := list -}}
{{- range $declared.topics -}}
{{- $wanted := not .only_with -}}
{{- range .only_with -}}
{{- if has . $has -}}
{{- $wanted = true -}}
{{- end -}}
{{- end -}}
{{- if $wanted -}}
{{- $count := get (dict "data" $partitions "shard" $shards "unit" (int $units) "one" 1) .partitions -}}
{{- $external := and (eq .name "events") (not (empty $data.topic)) -}}
{{- $full := ternary $data.topic (printf "%s.%s" $spec.name .name) $external -}}
{{- $topics = append $topics (merge (dict "name" $full "short" .name "partitions" $count "external" $external) .) -}}
{{- end -}}
{{- end -}}
{{- $roles := list -}}
{{- if ne (toString .entry.services) "false" -}}
{{- if $combines -}}
{{- $roles = append $roles (dict "name" "combiner" "replicas" 2) -}}
{{- else -}}
{{- $roles = append $roles (dict "name" "master" "replicas" (add $shards 1)) -}}
{{- end -}}
{{- if $sampled -}}
{{- $replicas := int (.entry.samplers | default (min 4 $units)) -}}
{{- if gt $replicas (int $units) -}}
{{- fail (printf "%s.samplers: must be at most %d, the chains of %s: set fewer samplers, or more inference.chains (got %d)" .place (int $units) $spec.name $replicas) -}}
{{- end -}}
{{- $roles = append $roles (dict "name" "sampler" "replicas" $replicas) -}}
{{- else -}}
{{- $most := ternary 1024 $partitions (eq $partitions 0) -}}
{{- $replicas := int (.entry.workers | default (min 2 $most)) -}}
{{- if gt $replicas $most -}}
{{- fail (printf "%s.workers: must be at most %d, the partitions of %s: set fewer workers, or more data.partitions (got %d)" .place $most $spec.name $replicas) -}}
{{- end -}}
{{- $roles = append $roles (dict "name" (get $declared.workers $method) "replicas" $replicas) -}}
{{- end -}}
{{- end -}}
{{- if and $sampled .entry.workers -}}
{{- fail (printf "%s.workers: must not be set with the method %s, which has samplers: set samplers (got %d)" .place $method (int .entry.workers)) -}}
{{- end -}}
{{- if and (not $sampled) .entry.samplers -}}
{{- fail (printf "%s.samplers: must not be set with the method %s, which has workers: set workers (got %d)" .place $method (int .entry.samplers)) -}}
{{- end -}}
{{- toYaml (dict "name" $spec.name "method" $method "sampled" $sampled "combines" $combines "partitions" $partitions "shards" $shards "units" (int $units) "external" ($data.topic | default "") "topics" $topics "roles" $roles) -}}
{{- end -}}

{{/* Every entry of `specs` with its facts, as YAML under `specs`; names are checked. */}}
{{- define "streaminfer.specs" -}}
{{- $found := list -}}
{{- $names := list -}}
{{- range $index, $entry := .Values.specs -}}
{{- $place := printf "specs[%d]" $index -}}
{{- if has $entry.spec.name $names -}}
{{- fail (printf "%s.spec.name: must be different for each spec, as it is the prefix of all topics (got %q twice)" $place $entry.spec.name) -}}
{{- end -}}
{{- $names = append $names $entry.spec.name -}}
{{- if hasKey ($entry.files | default dict) "spec.yaml" -}}
{{- fail (printf "%s.files: must not have spec.yaml, which is the spec itself: give the file another name" $place) -}}
{{- end -}}
{{- $found = append $found (include "streaminfer.facts" (dict "root" $ "entry" $entry "place" $place) | fromYaml) -}}
{{- end -}}
{{- toYaml (dict "specs" $found) -}}
{{- end -}}

{{/* What a role is called in names and in the values by role: (dict "root" . "role" "svb-worker"). */}}
{{- define "streaminfer.short" -}}
{{- $declared := .root.Files.Get "files/declared.yaml" | fromYaml -}}
{{- (get $declared.roles .role).short -}}
{{- end -}}

{{/* Where the file of a spec is in a container. */}}
{{- define "streaminfer.specFile" -}}
/etc/streaminfer/{{ . }}/spec.yaml
{{- end -}}

{{- define "streaminfer.specMap" -}}
{{- include "streaminfer.object" (dict "root" .root "parts" (list .posterior "spec")) -}}
{{- end -}}

{{/* What a ConfigMap holds: the spec and the files that it names. */}}
{{- define "streaminfer.specData" -}}
spec.yaml: |
  {{- toYaml .spec | nindent 2 }}
{{- range $name, $content := .files }}
{{ $name | quote }}: {{ $content | quote }}
{{- end }}
{{- end -}}

{{/* A hash of what a spec says: pods roll when it changes. */}}
{{- define "streaminfer.specSum" -}}
{{- $sum := "" -}}
{{- $names := .names -}}
{{- range .root.Values.specs -}}
{{- if has .spec.name $names -}}
{{- $sum = printf "%s%s" $sum (include "streaminfer.specData" . | sha256sum) -}}
{{- end -}}
{{- end -}}
{{- $sum | sha256sum -}}
{{- end -}}
