{{/* The template of the pods of both stores. */}}
{{- define "toolrack.pod" -}}
{{- $replicated := eq .Values.store "postgres" -}}
metadata:
  labels:
    {{- include "toolrack.labels" . | nindent 4 }}
  annotations:
    # A change of the files, or of the secret that the chart makes, starts the pods anew.
    checksum/files: {{ print (include "toolrack.files" .) (toJson .Values.secret) | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Longer than the `--grace` of the daemon, and the pause before its end.
  terminationGracePeriodSeconds: {{ add .Values.grace (ternary 30 10 $replicated) }}
  {{- if $replicated }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "toolrack.labels" . | nindent 10 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    # Otherwise each start opens all files to the group, and the daemon refuses a token that others may read.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: toolrack
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
      {{- with .Values.image.pullPolicy }}
      imagePullPolicy: {{ . }}
      {{- end }}
      args:
        - serve
        - --no-open
        - --team=/etc/toolrack/team.toml
        - --listen=0.0.0.0:7717
        - --allow-remote
        {{- if $replicated }}
        - --replica=$(POD_IP):7718
        {{- else }}
        - --token-file=/var/lib/toolrack/token
        {{- end }}
        - --grace={{ .Values.grace }}s
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        {{- if $replicated }}
        - name: POD_IP
          valueFrom: { fieldRef: { fieldPath: status.podIP } }
        {{- include "toolrack.variable" (dict "root" . "variable" "TOOLRACK_DATABASE" "key" "database") | nindent 8 }}
        {{- end }}
        {{- include "toolrack.variable" (dict "root" . "variable" "TOOLRACK_CLIENT_SECRET" "key" "client-secret") | nindent 8 }}
        {{- include "toolrack.variable" (dict "root" . "variable" "TOOLRACK_SECRET_KEY" "key" "key") | nindent 8 }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: 7717
        {{- if $replicated }}
        - name: replicas
          containerPort: 7718
        {{- end }}
      {{- if $replicated }}
      # Requests go elsewhere before the daemon ends.
      lifecycle:
        preStop:
          sleep: { seconds: 5 }
      {{- end }}
      startupProbe:
        {{- include "toolrack.probe" "/health" | nindent 8 }}
        periodSeconds: 2
        failureThreshold: 30
      livenessProbe:
        {{- include "toolrack.probe" "/health" | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe:
        {{- include "toolrack.probe" "/ready" | nindent 8 }}
        periodSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - { name: data, mountPath: /var/lib/toolrack }
        - { name: team, mountPath: /etc/toolrack, readOnly: true }
        {{- range $tenant, $files := .Values.tenants }}
        {{- if or $files.mcp $files.settings }}
        # Kubernetes makes this folder with the rights of the volume. It would belong to root if only files in it were mounted.
        - { name: data, mountPath: /var/lib/toolrack/tenants/{{ $tenant }}, subPath: tenants/{{ $tenant }} }
        {{- end }}
        {{- if $files.mcp }}
        - { name: team, mountPath: /var/lib/toolrack/tenants/{{ $tenant }}/mcp.json, subPath: {{ $tenant }}.json, readOnly: true }
        {{- end }}
        {{- if $files.settings }}
        - { name: team, mountPath: /var/lib/toolrack/tenants/{{ $tenant }}/toolrack.toml, subPath: {{ $tenant }}.settings.toml, readOnly: true }
        {{- end }}
        {{- end }}
        - { name: tmp, mountPath: /tmp }
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if $replicated }}
    - name: data
      emptyDir: { sizeLimit: 2Gi }
    {{- end }}
    - name: team
      configMap: { name: {{ .Release.Name }} }
    - name: tmp
      emptyDir: { sizeLimit: 256Mi }
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
