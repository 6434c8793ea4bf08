{{/* What all pods have in common. */}}

{{- define "streaminfer.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "streaminfer.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Fields of a pod's spec that are the same everywhere. */}}
{{- define "streaminfer.podCommon" -}}
serviceAccountName: {{ include "streaminfer.serviceAccount" . | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  {{- include "streaminfer.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of a pod: root, component, posterior, role, names (of specs). */}}
{{- define "streaminfer.podMetadata" -}}
labels:
  {{- include "streaminfer.selector" . | nindent 2 }}
  {{- if .serves }}
  streaminfer/metrics: "true"
  {{- end }}
  {{- with merge (dict) .root.Values.podLabels .root.Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/spec: {{ include "streaminfer.specSum" . }}
  checksum/secrets: {{ include "streaminfer.secretSum" . }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Pods of one workload are spread: root, component, posterior. */}}
{{- define "streaminfer.spread" -}}
{{- if .root.Values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range .root.Values.topologySpread.topologyKeys }}
  - maxSkew: 1
    topologyKey: {{ . | quote }}
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "streaminfer.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* A container of our image: root, role, posterior, names (of specs), name, kind (key of resources and scratch), args. */}}
{{- define "streaminfer.container" -}}
{{- $values := .root.Values -}}
name: {{ .name }}
image: {{ include "streaminfer.image" .root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
command: [streaminfer]
args: {{ toJson .args }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- include "streaminfer.containerSecurity" .root | nindent 2 }}
resources: {{ get $values.resources .kind | toJson }}
env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: HOME, value: /tmp}
  {{- if dig .kind "requests" "cpu" "" $values.resources }}
  {{- range list "OMP_NUM_THREADS" "OPENBLAS_NUM_THREADS" "MKL_NUM_THREADS" }}
  - {name: {{ . }}, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: "1"}}}
  {{- end }}
  {{- end }}
  - {name: STREAMINFER_LOG, value: {{ $values.log.format }}}
  - {name: STREAMINFER_OWN_MODELS, value: {{ $values.ownModels | join "," | default "none" | quote }}}
  {{- include "streaminfer.busEnv" . | nindent 2 }}
  {{- if .serves }}
  - {name: STREAMINFER_HTTP_TOKEN_FILE, value: /etc/streaminfer-http/token}
  {{- end }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if .serves }}
{{- $port := .portName | default "http" }}
ports: [{name: {{ $port }}, containerPort: {{ int (.port | default $values.http.port) }}, protocol: TCP}]
startupProbe:
  httpGet: {path: {{ .startup | default "/healthz" }}, port: {{ $port }}}
  {{- toYaml (merge (dict) (.patience | default dict) $values.probes.startup) | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ $port }}}
  {{- toYaml $values.probes.liveness | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: {{ $port }}}
  {{- toYaml $values.probes.readiness | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: {{ .scratch | default "tmp" }}, mountPath: /tmp}
  {{- with .posteriorAt }}
  - {name: posterior, mountPath: {{ . }}}
  {{- end }}
  {{- range .names }}
  - {name: spec-{{ . }}, mountPath: /etc/streaminfer/{{ . }}, readOnly: true}
  {{- end }}
  {{- if .serves }}
  - {name: http-token, mountPath: /etc/streaminfer-http, readOnly: true}
  {{- end }}
  {{- with include "streaminfer.busMounts" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The volumes of such a container; same argument. */}}
{{- define "streaminfer.volumes" -}}
- {name: {{ .scratch | default "tmp" }}, emptyDir: {sizeLimit: {{ get .root.Values.scratch .kind }}}}
{{- range .names }}
- {name: spec-{{ . }}, configMap: {name: {{ include "streaminfer.specMap" (dict "root" $.root "posterior" .) }}}}
{{- end }}
{{- if .serves }}
- name: http-token
  secret: {secretName: {{ include "streaminfer.tokenSecret" .root | quote }}, defaultMode: 0440, items: [{key: {{ .root.Values.http.tokenKey | quote }}, path: token}]}
{{- end }}
{{- with include "streaminfer.busVolumes" . | trim }}
{{ . }}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A Deployment of a service: as streaminfer.container, and component, replicas (may be empty). */}}
{{- define "streaminfer.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "streaminfer.object" (dict "root" .root "parts" (compact (list .posterior .component))) }}
  labels:
    {{- include "streaminfer.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with .posterior }}
    streaminfer/posterior: {{ . | quote }}
    {{- end }}
spec:
  {{- if .replicas }}
  replicas: {{ int .replicas }}
  {{- end }}
  minReadySeconds: {{ .root.Values.minReadySeconds }}
  revisionHistoryLimit: 5
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector:
    matchLabels:
      {{- include "streaminfer.selector" . | nindent 6 }}
  template:
    metadata:
      {{- include "streaminfer.podMetadata" . | nindent 6 }}
    spec:
      {{- include "streaminfer.podCommon" .root | nindent 6 }}
      {{- with include "streaminfer.spread" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
        -
          {{- include "streaminfer.container" . | nindent 10 }}
      volumes:
        {{- include "streaminfer.volumes" . | nindent 8 }}
{{- end -}}

{{/* The pod that makes the topics of a spec; argument as streaminfer.container. */}}
{{- define "streaminfer.topicsPod" -}}
metadata:
  {{- include "streaminfer.podMetadata" . | nindent 2 }}
spec:
  restartPolicy: OnFailure
  {{- include "streaminfer.podCommon" .root | nindent 2 }}
  containers:
    -
      {{- include "streaminfer.container" . | nindent 6 }}
  volumes:
    {{- include "streaminfer.volumes" . | nindent 4 }}
{{- end -}}
