{{- /*
SPDX-License-Identifier: Apache-2.0

Parts that several objects share. Those that take values get them as `.v`, and the chart's own context as `.root`.
*/ -}}

{{- /* Labels of every object. Helm itself adds who manages it. */ -}}
{{- define "istio-cni.labels" -}}
app: istio-cni
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/name: istio-cni
app.kubernetes.io/part-of: istio
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
install.operator.istio.io/owning-resource: {{ .v.ownerName | default "unknown" | quote }}
istio.io/rev: {{ .v.revision | default "default" | quote }}
operator.istio.io/component: Cni
release: {{ .root.Release.Name | quote }}
{{- end -}}

{{- /* Annotations of every pod. */ -}}
{{- define "istio-cni.annotations" -}}
prometheus.io/path: /metrics
prometheus.io/port: "15014"
prometheus.io/scrape: "true"
sidecar.istio.io/inject: "false"
{{- end -}}

{{- define "istio-cni.image" -}}
{{- if contains "/" .image -}}
{{- .image -}}
{{- else -}}
{{- .hub | default .global.hub }}/{{ .image | default "install-cni" }}:{{ .tag | default .global.tag }}{{ with .variant | default .global.variant }}-{{ . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* Where the runtime looks for plugins, for who leaves that to the server's version. */ -}}
{{- define "istio-cni.binDir" -}}
{{- $gke := contains "-gke" .root.Capabilities.KubeVersion.Version -}}
{{- .v.cniBinDir | default (ternary "/home/kubernetes/bin" "/opt/cni/bin" $gke) -}}
{{- end -}}

{{- /* What is done about broken pods needs this right: "delete", "label" or nothing. The first policy that is on counts. */ -}}
{{- define "istio-cni.repairRight" -}}
{{- with .repair -}}
{{- if not .enabled -}}
{{- else if .repairPods -}}{{ ternary "" .fallback (eq .fallback "none") }}
{{- else if .deletePods -}}delete
{{- else if .labelPods -}}label
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* "rendered" if the mode has rights that admission policies limit. */ -}}
{{- define "istio-cni.policies" -}}
{{- $asked := and .enabled .admissionPolicy.enabled (ne .global.resourceScope "namespace") -}}
{{- if and $asked (or (include "istio-cni.repairRight" .) .taint.mode) -}}rendered{{- end -}}
{{- end -}}

{{- define "istio-cni.taintName" -}}
{{- .taint.name | default (ternary "NodeReadiness" "cni.istio.io/not-ready" (eq .taint.mode "readiness")) -}}
{{- end -}}

{{- /* The agent's tolerations. In each taint.mode a node's taint goes once its agent is ready, so the agent starts beside it whatever the list says. */ -}}
{{- define "istio-cni.tolerations" -}}
{{- $all := .tolerations | default list -}}
{{- $name := include "istio-cni.taintName" . -}}
{{- $starts := not .taint.mode -}}
{{- range $all -}}
{{- $any := and (not .key) (eq (.operator | default "Equal") "Exists") -}}
{{- $own := and (eq (.key | default "") $name) (eq (.operator | default "Equal") "Exists") -}}
{{- if and (or $any $own) (has (.effect | default "NoSchedule") (list "NoSchedule")) -}}
{{- $starts = true -}}
{{- end -}}
{{- end -}}
{{- if not $starts -}}
{{- $all = append $all (dict "key" $name "operator" "Exists") -}}
{{- end -}}
{{- $all | toJson -}}
{{- end -}}

{{- /* The agent's settings in taint.mode node. */ -}}
{{- define "istio-cni.ownTaint" -}}
{{- dict "MILLRACE_TAINT_OWN_NODE" "true" "MILLRACE_TAINT_NAME" (include "istio-cni.taintName" .) | toJson -}}
{{- end -}}

{{- /* Whether a controller of its own looks after taints. */ -}}
{{- define "istio-cni.taintController" -}}
{{- if has .taint.mode (list "readiness" "untaint") -}}true{{- end -}}
{{- end -}}

{{- define "istio-cni.hostNetwork" -}}
{{- if or .hostNetwork (and .ambient.enabled .ambient.shareHostNetworkNamespace) -}}true{{- end -}}
{{- end -}}

{{- /* The variable with which a policy knows the node of whoever asks. */ -}}
{{- define "istio-cni.callersNode" -}}
- name: node
  expression: >-
    has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra ?
    request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end -}}
