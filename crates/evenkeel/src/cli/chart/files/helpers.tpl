{{/* The ServiceAccount that the operator runs as. */}}
{{- define "operator.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default "@operator@" -}}
{{- end -}}

{{/* The image: a digest, if there is one, or else a tag. */}}
{{- define "operator.image" -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest -}}
@{{ .Values.image.digest }}
{{- else if .Values.image.tag -}}
:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* The arguments of the operator. */}}
{{- define "operator.args" -}}
{{- $args := list -}}
WEBHOOK_ARGS
{{- if .Values.health.enabled -}}
{{- $args = append $args (printf "--health-probe-bind-address=%s:%d" .Values.health.host (int .Values.health.port)) -}}
{{- else -}}
{{- $args = append $args "--health-probe-bind-address=0" -}}
{{- end -}}
{{- if .Values.metrics.enabled -}}
{{- $args = append $args (printf "--metrics-bind-address=%s:%d" .Values.metrics.host (int .Values.metrics.port)) -}}
{{- if not .Values.metrics.secure -}}
{{- $args = append $args "--metrics-secure=false" -}}
{{- else if .Values.metrics.certSecret -}}
{{- $args = append $args (printf "--metrics-cert-dir=%s" .Values.metrics.certDir) -}}
{{- end -}}
{{- else -}}
{{- $args = append $args "--metrics-bind-address=0" -}}
{{- end -}}
{{- if .Values.leaderElection.enabled -}}
{{- $args = append $args "--leader-elect" -}}
{{- with .Values.leaderElection.resourceName -}}
{{- $args = append $args (printf "--leader-elect-resource-name=%s" .) -}}
{{- end -}}
{{- with .Values.leaderElection.resourceNamespace -}}
{{- $args = append $args (printf "--leader-elect-resource-namespace=%s" .) -}}
{{- end -}}
{{- end -}}
{{- with .Values.log -}}
{{- $args = append $args (printf "--log=%s" .) -}}
{{- end -}}
{{- toYaml (concat $args .Values.extraArgs) -}}
{{- end -}}

{{/* The ports of the container. */}}
{{- define "operator.ports" -}}
{{- $ports := list -}}
{{- if and .Values.health.enabled .Values.metrics.enabled (eq (int .Values.health.port) (int .Values.metrics.port)) -}}
{{- $ports = append $ports (dict "name" "http" "containerPort" (int .Values.health.port)) -}}
{{- else -}}
{{- if .Values.health.enabled -}}
{{- $ports = append $ports (dict "name" (ternary "probes" "http" .Values.metrics.enabled) "containerPort" (int .Values.health.port)) -}}
{{- end -}}
{{- if .Values.metrics.enabled -}}
{{- $ports = append $ports (dict "name" "metrics" "containerPort" (int .Values.metrics.port)) -}}
{{- end -}}
{{- end -}}
WEBHOOK_PORTS
{{- with $ports -}}
ports:
{{ toYaml . | indent 2 }}
{{- end -}}
{{- end -}}

{{/* The volumes and where they are mounted. */}}
{{- define "operator.volumeMounts" -}}
{{- $mounts := list -}}
WEBHOOK_MOUNTS
{{- if and .Values.metrics.enabled .Values.metrics.secure .Values.metrics.certSecret -}}
{{- $mounts = append $mounts (dict "name" "metrics-certificates" "mountPath" .Values.metrics.certDir "readOnly" true) -}}
{{- end -}}
{{- with concat $mounts .Values.extraVolumeMounts -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "operator.volumes" -}}
{{- $volumes := list -}}
WEBHOOK_VOLUMES
{{- if and .Values.metrics.enabled .Values.metrics.secure .Values.metrics.certSecret -}}
{{- $volumes = append $volumes (dict "name" "metrics-certificates" "secret" (dict "secretName" .Values.metrics.certSecret)) -}}
{{- end -}}
{{- with concat $volumes .Values.extraVolumes -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
