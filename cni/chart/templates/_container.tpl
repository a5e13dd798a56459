{{- /*
SPDX-License-Identifier: Apache-2.0

The agent's container and its volumes: what the mode needs, and no more.
*/ -}}

{{- define "istio-cni.container" -}}
image: {{ include "istio-cni.image" .v | quote }}
{{- with .v.pullPolicy | default .v.global.imagePullPolicy }}
imagePullPolicy: {{ . | quote }}
{{- end }}
command: [install-cni]
{{- if include "istio-cni.hostNetwork" .v }}
# There the probes' port may be anybody's, who answers 200, and a declared port is one of the node's, which is free once.
startupProbe:
  exec:
    command: [install-cni, probe, healthz]
  timeoutSeconds: 3
  initialDelaySeconds: 1
  periodSeconds: 1
  failureThreshold: 2147483647
readinessProbe:
  exec:
    command: [install-cni, probe, readyz]
  timeoutSeconds: 3
{{- else }}
ports:
  - name: metrics
    containerPort: 15014
    protocol: TCP
# No liveness probe: with a port that another process of the node holds, an agent that works would be killed.
startupProbe:
  {{- include "istio-cni.startup" . | nindent 2 }}
readinessProbe:
  httpGet:
    path: /readyz
    port: 8000
{{- end }}
securityContext:
  {{- include "istio-cni.securityContext" .v | nindent 2 }}
envFrom:
  - configMapRef:
      name: istio-cni-config
env:
  {{- range $name, $path := include "istio-cni.podFields" . | fromJson }}
  - name: {{ $name }}
    valueFrom:
      fieldRef:
        fieldPath: {{ $path }}
  {{- end }}
  {{- range $name, $value := mergeOverwrite (include "istio-cni.ofPod" . | fromJson) .v.env }}
  - name: {{ $name | quote }}
    {{- with $value }}
    value: {{ . | quote }}
    {{- end }}
  {{- end }}
volumeMounts:
  - name: cni-bin-dir
    mountPath: /host/opt/cni/bin
  - name: cni-net-dir
    mountPath: /host/etc/cni/net.d
  - name: cni-socket-dir
    mountPath: /var/run/istio-cni
  - name: cni-cache-dir
    mountPath: /host/var/lib/cni
    readOnly: true
  {{- if .v.cniMoreBinDir }}
  - name: cni-more-bin-dir
    mountPath: /host/opt/cni/more
  {{- end }}
  {{- if include "istio-cni.hasMultusDir" .v }}
  - name: multus-conf-dir
    mountPath: /host/multus/net.d
    readOnly: true
  {{- end }}
  {{- if .v.repair.enabled }}
  - name: cni-host-procfs
    mountPath: /host/proc
    readOnly: true
  {{- end }}
  {{- if .v.criSocket }}
  - name: cri-socket-dir
    mountPath: /host/cri
    readOnly: true
  {{- end }}
{{- with .v.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /*
Whether the process is there at all. Nobody asks whether it is ready before that, so that a container that starts as it should is never said to
be unhealthy. It is never ended for it, as for a liveness probe.
*/ -}}
{{- define "istio-cni.startup" -}}
httpGet:
  path: /healthz
  port: 8000
initialDelaySeconds: 1
periodSeconds: 1
failureThreshold: 2147483647
{{- end -}}

{{- /* Variables that are fields of the pod itself. */ -}}
{{- define "istio-cni.podFields" -}}
{{- toJson (dict
  "NODE_NAME" "spec.nodeName"
  "POD_NAME" "metadata.name"
  "POD_NAMESPACE" "metadata.namespace"
  "REPAIR_NODE_NAME" "spec.nodeName"
) -}}
{{- end -}}

{{- /*
Settings that hold for a pod's life: those that go with its mounts, and the taint of its own node. A change of them rolls the DaemonSet. The agent
takes them from its pod's template and not from the ConfigMap, which a pod of another template may watch. An empty value is left out, as the API
server leaves it out.
*/ -}}
{{- define "istio-cni.ofPod" -}}
{{- $v := .v -}}
{{- $settings := dict "CHAINED_CNI_PLUGIN" (toString $v.chained) "CNI_CONF_NAME" $v.cniConfFileName "KUBECONFIG_MODE" $v.kubeconfigMode "SKIP_TLS_VERIFY" "false" "AMBIENT_DISABLE_SAFE_UPGRADE" "false" -}}
{{- $_ := set $settings "MILLRACE_NODE_BIN_DIR" (include "istio-cni.binDir" .) -}}
{{- $_ := set $settings "MILLRACE_NODE_NET_DIR" $v.cniConfDir -}}
{{- if $v.cniMoreBinDir -}}{{ $_ := set $settings "MILLRACE_NODE_MORE_BIN_DIR" $v.cniMoreBinDir }}{{- end -}}
{{- if include "istio-cni.hasMultusDir" $v -}}{{ $_ := set $settings "MILLRACE_NODE_MULTUS_DIR" $v.multusConfDir }}{{- end -}}
{{- if $v.repair.enabled -}}{{ $_ := set $settings "MILLRACE_NETNS_DIR" $v.cniNetnsDir }}{{- end -}}
{{- if $v.criSocket -}}{{ $_ := set $settings "MILLRACE_CRI_SOCKET" (printf "/host/cri/%s" (base $v.criSocket)) }}{{- end -}}
{{- if $v.global.logAsJson -}}{{ $_ := set $settings "LOG_AS_JSON" "true" }}{{- end -}}
{{- if eq $v.taint.mode "node" -}}
{{- $settings = mergeOverwrite $settings (include "istio-cni.ownTaint" $v | fromJson) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{- /* Root and DAC_OVERRIDE write the runtime's directories, whoever owns them; the others are for namespaces of pods. */ -}}
{{- define "istio-cni.securityContext" -}}
privileged: false
readOnlyRootFilesystem: true
runAsUser: 0
runAsGroup: 0
runAsNonRoot: false
{{- if not .repair.enabled }}
allowPrivilegeEscalation: false
{{- end }}
{{- if not .useAppArmorAnnotation }}
appArmorProfile:
  type: Unconfined
{{- end }}
{{- with .seLinuxOptions }}
seLinuxOptions:
  {{- mergeOverwrite (dict "type" "spc_t") . | toYaml | nindent 2 }}
{{- end }}
capabilities:
  drop: [ALL]
  {{- if and .repair.enabled .repair.repairPods }}
  add: [NET_ADMIN, NET_RAW, SYS_PTRACE, SYS_ADMIN, DAC_OVERRIDE, SETUID, SETGID]
  {{- else if .repair.enabled }}
  add: [NET_ADMIN, NET_RAW, SYS_PTRACE, SYS_ADMIN, DAC_OVERRIDE]
  {{- else }}
  add: [DAC_OVERRIDE]
  {{- end }}
{{- end -}}

{{- /* Whether the agent looks for Multus' own file. */ -}}
{{- define "istio-cni.hasMultusDir" -}}
{{- if and (eq .provider "multus") .multusConfDir -}}true{{- end -}}
{{- end -}}

{{- define "istio-cni.volumes" -}}
- name: cni-bin-dir
  hostPath:
    path: {{ include "istio-cni.binDir" . | quote }}
    type: DirectoryOrCreate
- name: cni-net-dir
  hostPath:
    path: {{ .v.cniConfDir | quote }}
    type: DirectoryOrCreate
- name: cni-socket-dir
  hostPath:
    path: /var/run/istio-cni
    type: DirectoryOrCreate
- name: cni-cache-dir
  hostPath:
    path: {{ .v.cniCacheDir | quote }}
    type: DirectoryOrCreate
{{- if .v.cniMoreBinDir }}
- name: cni-more-bin-dir
  hostPath:
    path: {{ .v.cniMoreBinDir | quote }}
    type: DirectoryOrCreate
{{- end }}
{{- if include "istio-cni.hasMultusDir" .v }}
- name: multus-conf-dir
  hostPath:
    path: {{ .v.multusConfDir | quote }}
    type: DirectoryOrCreate
{{- end }}
{{- if .v.repair.enabled }}
- name: cni-host-procfs
  hostPath:
    path: /proc
    type: Directory
{{- end }}
{{- with .v.criSocket }}
- name: cri-socket-dir
  hostPath:
    path: {{ dir . | quote }}
    type: Directory
{{- end }}
{{- end -}}
