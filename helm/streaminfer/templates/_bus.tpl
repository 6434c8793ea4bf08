{{/* How containers reach the brokers and the registry: variables, files and what is checked. */}}

{{/* The address of the bus. */}}
{{- define "streaminfer.bus" -}}
kafka://{{ .Values.kafka.bootstrapServers }}{{ with .Values.kafka.namespace }}/{{ . }}{{ end }}
{{- end -}}

{{/* A name of ours as the cluster has it: (dict "root" . "name" "prices.events"). */}}
{{- define "streaminfer.public" -}}
{{- with .root.Values.kafka.namespace }}{{ . }}.{{ end }}{{ .name -}}
{{- end -}}

{{/* Wrong combinations of values, each with the field, the rule and the remedy. */}}
{{- define "streaminfer.checkBus" -}}
{{- $kafka := .Values.kafka -}}
{{- $sasl := hasPrefix "SASL" $kafka.protocol -}}
{{- $strimzi := eq .Values.topics.create "strimzi" -}}
{{- if and $strimzi (not .Values.strimzi.cluster) -}}
{{- fail "strimzi.cluster: is required with topics.create: strimzi: set it to the name of the Kafka object" -}}
{{- end -}}
{{- if and $strimzi (or $kafka.sasl.existingSecret $kafka.client.existingSecret $kafka.secretsByRole) -}}
{{- fail "kafka: sasl.existingSecret, client.existingSecret and secretsByRole must not be set with topics.create: strimzi, which makes users: leave them out" -}}
{{- end -}}
{{- if not $strimzi -}}
{{- if and $sasl (not $kafka.sasl.mechanism) -}}
{{- fail (printf "kafka.sasl.mechanism: is required with kafka.protocol: %s: set PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER" $kafka.protocol) -}}
{{- end -}}
{{- if and $sasl (not $kafka.sasl.existingSecret) (not $kafka.secretsByRole) -}}
{{- fail (printf "kafka.sasl.existingSecret: is required with kafka.protocol: %s: name the Secret that has the user and the password, or the token" $kafka.protocol) -}}
{{- end -}}
{{- if and (not $sasl) $kafka.sasl.mechanism -}}
{{- fail (printf "kafka.protocol: must be SASL_SSL or SASL_PLAINTEXT with kafka.sasl.mechanism (got %q)" $kafka.protocol) -}}
{{- end -}}
{{- if and (eq $kafka.protocol "SASL_PLAINTEXT") (not $kafka.allowPlaintext) -}}
{{- fail "kafka.protocol: SASL_PLAINTEXT sends passwords without TLS: use SASL_SSL, or set kafka.allowPlaintext: true" -}}
{{- end -}}
{{- if and (not (hasSuffix "SSL" $kafka.protocol)) (or $kafka.ca.existingSecret $kafka.ca.existingConfigMap $kafka.client.existingSecret) -}}
{{- fail (printf "kafka.protocol: must be SSL or SASL_SSL with kafka.ca or kafka.client (got %q)" $kafka.protocol) -}}
{{- end -}}
{{- end -}}
{{- range $name, $ca := dict "kafka.ca" $kafka.ca "schemaRegistry.ca" .Values.schemaRegistry.ca -}}
{{- if and $ca.existingSecret $ca.existingConfigMap -}}
{{- fail (printf "%s: existingSecret and existingConfigMap are both set: choose one" $name) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.schemaRegistry.url) (or .Values.schemaRegistry.existingSecret .Values.schemaRegistry.ca.existingSecret .Values.schemaRegistry.ca.existingConfigMap) -}}
{{- fail "schemaRegistry.url: is required with schemaRegistry.existingSecret or schemaRegistry.ca: set the address of the registry" -}}
{{- end -}}
{{- if and .Values.schemaRegistry.tokenKey (or .Values.schemaRegistry.usernameKey .Values.schemaRegistry.passwordKey) -}}
{{- fail "schemaRegistry.tokenKey: must not be set with usernameKey or passwordKey: choose one way to log in" -}}
{{- end -}}
{{- end -}}

{{/* The name of the KafkaUser of a role of a spec, and of the Secret that Strimzi makes for it. */}}
{{- define "streaminfer.kafkaUser" -}}
{{- include "streaminfer.object" (dict "root" .root "parts" (compact (list .posterior .role))) -}}
{{- end -}}

{{/* Where credentials come from, as YAML: protocol, mechanism, username (as it is), and Secrets with their keys.
(dict "root" . "role" "master" "posterior" "prices") */}}
{{- define "streaminfer.credentials" -}}
{{- include "streaminfer.checkBus" .root -}}
{{- $kafka := .root.Values.kafka -}}
{{- $strimzi := .root.Values.strimzi -}}
{{- if eq .root.Values.topics.create "strimzi" -}}
{{- $user := include "streaminfer.kafkaUser" . -}}
ca: {existingSecret: {{ $strimzi.cluster }}-cluster-ca-cert, key: ca.crt}
{{- if eq $strimzi.authentication "tls" }}
protocol: SSL
client: {secret: {{ $user }}, certKey: user.crt, keyKey: user.key}
{{- else }}
protocol: SASL_SSL
sasl: {mechanism: SCRAM-SHA-512, username: {{ $user }}, secret: {{ $user }}, passwordKey: password}
{{- end }}
{{- else -}}
protocol: {{ $kafka.protocol }}
ca: {{ $kafka.ca | toJson }}
{{- $own := get $kafka.secretsByRole .role }}
{{- if hasPrefix "SASL" $kafka.protocol }}
{{- $secret := $own | default $kafka.sasl.existingSecret | required (printf "kafka.secretsByRole.%s: is required without kafka.sasl.existingSecret: name the Secret of its user" .role) }}
{{- if eq $kafka.sasl.mechanism "OAUTHBEARER" }}
sasl: {mechanism: OAUTHBEARER, secret: {{ $secret | quote }}, tokenKey: {{ $kafka.sasl.tokenKey | quote }}}
{{- else }}
sasl: {mechanism: {{ $kafka.sasl.mechanism }}, secret: {{ $secret | quote }}, usernameKey: {{ $kafka.sasl.usernameKey | quote }}, passwordKey: {{ $kafka.sasl.passwordKey | quote }}}
{{- end }}
{{- end }}
{{- $client := ternary "" ($own | default "") (hasPrefix "SASL" $kafka.protocol) | default $kafka.client.existingSecret }}
{{- if and $client (hasSuffix "SSL" $kafka.protocol) }}
client: {secret: {{ $client | quote }}, certKey: {{ $kafka.client.certKey | quote }}, keyKey: {{ $kafka.client.keyKey | quote }}, passwordKey: {{ $kafka.client.passwordKey | quote }}}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Variables for the bus and the registry: (dict "root" . "role" "master" "posterior" "prices"). */}}
{{- define "streaminfer.busEnv" -}}
{{- $with := include "streaminfer.credentials" . | fromYaml -}}
{{- $values := .root.Values -}}
{{- $registry := $values.schemaRegistry -}}
- {name: STREAMINFER_BUS, value: {{ include "streaminfer.bus" .root | quote }}}
- {name: STREAMINFER_TOPICS, value: {{ ternary "create" "expect" (or (eq .role "topics") (eq $values.topics.create "services")) }}}
- {name: STREAMINFER_KAFKA_SECURITY, value: {{ $with.protocol }}}
{{- if eq $with.protocol "SASL_PLAINTEXT" }}
- {name: STREAMINFER_KAFKA_ALLOW_PLAINTEXT, value: "1"}
{{- end }}
{{- if $values.kafka.replication }}
- {name: STREAMINFER_KAFKA_REPLICATION, value: {{ int $values.kafka.replication | quote }}}
{{- end }}
{{- if or $with.ca.existingSecret $with.ca.existingConfigMap }}
- {name: STREAMINFER_KAFKA_CA_FILE, value: /etc/streaminfer-kafka/ca/ca.crt}
{{- end }}
{{- with $with.client }}
- {name: STREAMINFER_KAFKA_CERT_FILE, value: /etc/streaminfer-kafka/client/tls.crt}
- {name: STREAMINFER_KAFKA_KEY_FILE, value: /etc/streaminfer-kafka/client/tls.key}
{{- if .passwordKey }}
- {name: STREAMINFER_KAFKA_KEY_PASSWORD_FILE, value: /etc/streaminfer-kafka/client/password}
{{- end }}
{{- end }}
{{- with $with.sasl }}
- {name: STREAMINFER_KAFKA_SASL_MECHANISM, value: {{ .mechanism }}}
{{- if .tokenKey }}
- {name: STREAMINFER_KAFKA_TOKEN_FILE, value: /etc/streaminfer-kafka/sasl/token}
{{- else }}
{{- if .username }}
- {name: STREAMINFER_KAFKA_USERNAME, value: {{ .username }}}
{{- else }}
- {name: STREAMINFER_KAFKA_USERNAME, valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .usernameKey | quote }}}}}
{{- end }}
- {name: STREAMINFER_KAFKA_PASSWORD_FILE, value: /etc/streaminfer-kafka/sasl/password}
{{- end }}
{{- end }}
{{- if $registry.url }}
- {name: STREAMINFER_SCHEMA_REGISTRY_URL, value: {{ $registry.url | quote }}}
{{- if or $registry.ca.existingSecret $registry.ca.existingConfigMap }}
- {name: STREAMINFER_SCHEMA_REGISTRY_CA_FILE, value: /etc/streaminfer-registry/ca/ca.crt}
{{- end }}
{{- if and $registry.existingSecret $registry.tokenKey }}
- {name: STREAMINFER_SCHEMA_REGISTRY_TOKEN_FILE, value: /etc/streaminfer-registry/login/token}
{{- else if $registry.existingSecret }}
- {name: STREAMINFER_SCHEMA_REGISTRY_USERNAME, valueFrom: {secretKeyRef: {name: {{ $registry.existingSecret | quote }}, key: {{ $registry.usernameKey | default "username" | quote }}}}}
- {name: STREAMINFER_SCHEMA_REGISTRY_PASSWORD_FILE, value: /etc/streaminfer-registry/login/password}
{{- end }}
{{- end }}
{{- if $registry.ids }}
- {name: STREAMINFER_SCHEMA_IDS, value: {{ $registry.ids | quote }}}
{{- end }}
{{- end -}}

{{/* A volume of a Secret or ConfigMap with one file: name, existingSecret or existingConfigMap, key, path. */}}
{{- define "streaminfer.caVolume" -}}
- name: {{ .name }}
{{- if .ca.existingSecret }}
  secret: {secretName: {{ .ca.existingSecret | quote }}, defaultMode: 0440, items: [{key: {{ .ca.key | quote }}, path: ca.crt}]}
{{- else }}
  configMap: {name: {{ .ca.existingConfigMap | quote }}, items: [{key: {{ .ca.key | quote }}, path: ca.crt}]}
{{- end }}
{{- end -}}

{{/* Volumes that hold what the variables name; same argument. */}}
{{- define "streaminfer.busVolumes" -}}
{{- $with := include "streaminfer.credentials" . | fromYaml -}}
{{- $registry := .root.Values.schemaRegistry -}}
{{- if or $with.ca.existingSecret $with.ca.existingConfigMap }}
{{ include "streaminfer.caVolume" (dict "name" "kafka-ca" "ca" $with.ca) }}
{{- end }}
{{- with $with.client }}
- name: kafka-client
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
    items:
      - {key: {{ .certKey | quote }}, path: tls.crt}
      - {key: {{ .keyKey | quote }}, path: tls.key}
      {{- if .passwordKey }}
      - {key: {{ .passwordKey | quote }}, path: password}
      {{- end }}
{{- end }}
{{- with $with.sasl }}
- name: kafka-sasl
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
    items: [{{ if .tokenKey }}{key: {{ .tokenKey | quote }}, path: token}{{ else }}{key: {{ .passwordKey | quote }}, path: password}{{ end }}]
{{- end }}
{{- if or $registry.ca.existingSecret $registry.ca.existingConfigMap }}
{{ include "streaminfer.caVolume" (dict "name" "registry-ca" "ca" $registry.ca) }}
{{- end }}
{{- with $registry.existingSecret }}
- name: registry-login
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
    items: [{{ if $registry.tokenKey }}{key: {{ $registry.tokenKey | quote }}, path: token}{{ else }}{key: {{ $registry.passwordKey | default "password" | quote }}, path: password}{{ end }}]
{{- end }}
{{- end -}}

{{/* Where containers have them. */}}
{{- define "streaminfer.busMounts" -}}
{{- range include "streaminfer.busVolumes" . | fromYamlArray }}
- {name: {{ .name }}, mountPath: /etc/streaminfer-{{ .name | replace "-" "/" }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* A hash of the Secrets of the user's own that a pod reads, as they are in the cluster now: pods roll when one has
changed. Files are read again in any case. */}}
{{- define "streaminfer.secretSum" -}}
{{- $root := .root -}}
{{- $sum := "" -}}
{{- $names := list $root.Values.http.existingSecret -}}
{{- if ne $root.Values.topics.create "strimzi" -}}
{{- range include "streaminfer.busVolumes" . | fromYamlArray -}}
{{- $names = append $names (dig "secret" "secretName" "" .) -}}
{{- end -}}
{{- end -}}
{{- range compact $names | uniq -}}
{{- $found := lookup "v1" "Secret" $root.Release.Namespace . | default dict -}}
{{- $sum = printf "%s/%s=%s" $sum . (get $found "data" | toJson | sha256sum) -}}
{{- end -}}
{{- $sum | sha256sum -}}
{{- end -}}
