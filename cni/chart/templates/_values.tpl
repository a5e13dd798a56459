{{- /*
SPDX-License-Identifier: Apache-2.0

The values that count, as JSON: defaults < profile < compatibility version < platform < what the user says. Everything outside of
_internal_defaults_do_not_set was said by the user, so that a user's value always wins. Nothing is written back to .Values: each template asks for itself.

The defaults come from a file and not from values.yaml: after `helm upgrade --reuse-values` .Values has the defaults of the chart that was installed
before, which may be upstream's, in place of those of this one. Charts before 1.23 had theirs in `defaults`, or with the user's. Beside this chart's
own defaults, `defaults` is the user's.
*/ -}}
{{- define "istio-cni.values" -}}
{{- if and .Values.defaults .Values._internal_defaults_do_not_set -}}
{{- fail "defaults: not to be set; set the value itself, at the root" -}}
{{- end -}}
{{- $merged := .Files.Get "files/defaults.yaml" | fromYaml -}}
{{- $legacy := deepCopy (.Values.cni | default dict) -}}
{{- $root := deepCopy (omit .Values "_internal_defaults_do_not_set" "defaults" "cni") -}}
{{- include "istio-cni.null" (dict "user" $legacy "defaults" $merged) -}}
{{- include "istio-cni.null" (dict "user" $root "defaults" $merged) -}}
{{- include "istio-cni.agree" (dict "root" $root "legacy" $legacy "path" "") -}}
{{- $user := mergeOverwrite $root $legacy -}}
{{- include "istio-cni.former" $user -}}
{{- include "istio-cni.texts" $user -}}
{{- range $family := list (list "profile" "profile") (list "compatibilityVersion" "compat") (list "platform" "platform") -}}
{{- $key := first $family -}}
{{- with get $user $key | default (get ($user.global | default dict) $key) -}}
{{- $file := include "istio-cni.file" (dict "files" $.Files "key" $key "kind" (last $family) "name" .) -}}
{{- $merged = mergeOverwrite $merged ($file | fromYaml) -}}
{{- $_ := set $user $key . -}}
{{- end -}}
{{- end -}}
{{- $merged = mergeOverwrite $merged $user -}}
{{- range include "istio-cni.open" . | fromJsonArray -}}
{{- include "istio-cni.null" (dict "user" (get $merged .) "defaults" dict) -}}
{{- end -}}
{{- if not (kindIs "bool" $merged.useAppArmorAnnotation) -}}
{{- $_ := set $merged "useAppArmorAnnotation" (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- include "istio-cni.contradictions" $merged -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if and (include "istio-cni.policies" $merged) (semverCompare "<1.30.0-0" $version) -}}
{{- fail (printf "admissionPolicy.enabled: true contradicts kubeVersion: %q: before 1.30 Kubernetes has no ValidatingAdmissionPolicy, and without it an agent's token can change pods or nodes of the whole cluster; give your server's version (--kube-version), or set admissionPolicy.enabled: false" $version) -}}
{{- end -}}
{{- toJson $merged -}}
{{- end -}}

{{- /* Former spellings. Of two that differ neither is guessed. */ -}}
{{- define "istio-cni.former" -}}
{{- $user := . -}}
{{- range $rename := list (list "logLevel" "logging" "pluginLevel") (list "rollingMaxUnavailable" "updateStrategy" "rollingUpdate" "maxUnavailable") -}}
{{- $old := first $rename -}}
{{- if hasKey $user $old -}}
{{- $value := get $user $old -}}
{{- $path := initial (rest $rename) -}}
{{- $last := last $rename -}}
{{- $map := $user -}}
{{- range $path -}}
{{- if not (kindIs "map" (get $map .)) -}}{{ $_ := set $map . dict }}{{- end -}}
{{- $map = get $map . -}}
{{- end -}}
{{- $new := join "." (rest $rename) -}}
{{- if and (hasKey $map $last) (ne (toString (get $map $last)) (toString $value)) -}}
{{- fail (printf "%s: %s and %s: %s are one value: give it once" $new (toJson (get $map $last)) $old (toJson $value)) -}}
{{- end -}}
{{- $_ := set $map $last $value -}}
{{- $_ := unset $user $old -}}
{{- end -}}
{{- end -}}
{{- range $unread := list "privileged" "psp_cluster_role" -}}{{ $_ := unset $user $unread }}{{- end -}}
{{- with $user.taint -}}{{ $_ := unset . "enabled" }}{{- end -}}
{{- with $user.ambient -}}{{ $_ := unset . "redirectMode" }}{{- end -}}
{{- with $user.resourceQuotas -}}{{ $_ := unset . "priorityClasses" }}{{- end -}}
{{- end -}}

{{- /* Numbers and truth values in maps of texts, as upstream's charts take them. */ -}}
{{- define "istio-cni.texts" -}}
{{- range $map := list .env .podAnnotations .podLabels .daemonSetLabels -}}
{{- range $key, $value := $map | default dict -}}
{{- if or (kindIs "bool" $value) (kindIs "float64" $value) (kindIs "int64" $value) -}}{{ $_ := set $map $key (toJson $value) }}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Open maps that have defaults: the only ones with entries to take out. */ -}}
{{- define "istio-cni.open" -}}
{{- list "resources" "updateStrategy" | toJson -}}
{{- end -}}

{{- /*
Null empties a list, and in an open map that has defaults it stays until the map is over them, when it takes the entry out. Anywhere else it says
nothing.
*/ -}}
{{- define "istio-cni.null" -}}
{{- $in := . -}}
{{- $open := include "istio-cni.open" . | fromJsonArray -}}
{{- range $key, $value := .user -}}
{{- $default := get $in.defaults $key -}}
{{- if kindIs "map" $value -}}
{{- $below := ternary $default dict (kindIs "map" $default) -}}
{{- $isOpen := or $in.isOpen (and (kindIs "map" $default) (has $key $open)) -}}
{{- include "istio-cni.null" (dict "user" $value "defaults" $below "isOpen" $isOpen) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- else if kindIs "slice" $default -}}
{{- $_ := set $in.user $key list -}}
{{- else if not $in.isOpen -}}
{{- $_ := unset $in.user $key -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The two spellings of a value, `x` and `cni.x`, may both be there if they say the same. */ -}}
{{- define "istio-cni.agree" -}}
{{- $root := .root -}}
{{- $path := .path -}}
{{- range $key, $legacy := .legacy -}}
{{- if hasKey $root $key -}}
{{- $own := get $root $key -}}
{{- $name := printf "%s%s" $path $key -}}
{{- if and (kindIs "map" $own) (kindIs "map" $legacy) -}}
{{- include "istio-cni.agree" (dict "root" $own "legacy" $legacy "path" (printf "%s." $name)) -}}
{{- else if not (deepEqual $own $legacy) -}}
{{- fail (printf "%s: %s and cni.%s: %s are one value: give it once" $name (toJson $own) $name (toJson $legacy)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A file of values, or an error that lists those that there are. */ -}}
{{- define "istio-cni.file" -}}
{{- $path := printf "files/%s-%s.yaml" .kind .name -}}
{{- $known := list -}}
{{- $prefix := printf "files/%s-" .kind -}}
{{- range $there, $_ := .files.Glob (printf "%s*.yaml" $prefix) -}}
{{- $known = append $known ($there | trimPrefix $prefix | trimSuffix ".yaml") -}}
{{- end -}}
{{- if not (has .name $known) -}}
{{- fail (printf "%s: %q: unknown; known are %s" .key .name (join ", " $known)) -}}
{{- end -}}
{{- .files.Get $path -}}
{{- end -}}

{{- /* Values that cannot stand together, wherever each came from. */ -}}
{{- define "istio-cni.contradictions" -}}
{{- if and (eq .provider "multus") .chained -}}
{{- fail "chained: true contradicts provider: \"multus\": Multus runs the plugin from a file of its own; set chained: false, or provider: default" -}}
{{- end -}}
{{- if and (eq .statusGate "agent") (not (include "istio-cni.hostNetwork" .)) -}}
{{- fail "statusGate: \"agent\" contradicts hostNetwork: false: an agent that needs the pod network would wait for itself; set hostNetwork: true" -}}
{{- end -}}
{{- if and (has .backend (list "iptables-nft" "iptables-legacy")) (not .iptablesTools) -}}
{{- fail (printf "backend: %q contradicts iptablesTools: false: the image has no iptables tools; set backend: auto, nft-compat or nft, or name an image that has them and set iptablesTools: true" .backend) -}}
{{- end -}}
{{- include "istio-cni.ambient" . -}}
{{- include "istio-cni.limits" . -}}
{{- end -}}

{{- /* Ambient mode, which this agent does not serve, wherever it comes from. */ -}}
{{- define "istio-cni.ambient" -}}
{{- $given := "" -}}
{{- if .ambient.enabled -}}
{{- $given = ternary "profile: \"ambient\"" "ambient.enabled: true" (eq .profile "ambient") -}}
{{- else if has (get .env "AMBIENT_ENABLED") (list "1" "t" "T" "true" "TRUE" "True") -}}
{{- $given = printf "env.AMBIENT_ENABLED: %q" .env.AMBIENT_ENABLED -}}
{{- end -}}
{{- if and $given .enabled (not .ambient.acceptUnredirected) -}}
{{- fail (printf "%s contradicts ambient.acceptUnredirected: false: this node agent serves sidecars only, and pods of ambient mode would start without redirection, past ztunnel; remove it, or set ambient.acceptUnredirected: true" $given) -}}
{{- end -}}
{{- end -}}

{{- /* What no other value contradicts and is refused all the same: an image that nobody named, two agents on one node, a second value of what the pod says of itself. */ -}}
{{- define "istio-cni.limits" -}}
{{- if and .enabled (ne .global.resourceScope "cluster") -}}
{{- if contains "/" .image -}}
{{- if not (regexMatch "[:@]" (base .image)) -}}
{{- fail (printf "image: %q: names no image: it has no tag and no digest" .image) -}}
{{- end -}}
{{- else if not (or .hub .global.hub) -}}
{{- fail "hub: \"\": names no image: set hub and tag (or global.hub and global.tag) to where you keep the image, or image to a whole reference such as registry.example.com/mesh/install-cni@sha256:…" -}}
{{- else if not (or .tag .global.tag) -}}
{{- fail "tag: \"\": names no image: set tag (or global.tag), or image to a whole reference with its digest" -}}
{{- end -}}
{{- end -}}
{{- with .updateStrategy.rollingUpdate -}}
{{- if not (has (toString (get . "maxSurge")) (list "" "0" "0%")) -}}
{{- fail (printf "updateStrategy.rollingUpdate.maxSurge: %s: must be 0: two agents on one node, the old one and the new, would undo each other's work; set maxUnavailable instead" (toJson .maxSurge)) -}}
{{- end -}}
{{- end -}}
{{- $env := .env -}}
{{- range $name, $path := include "istio-cni.podFields" . | fromJson -}}
{{- if hasKey $env $name -}}
{{- fail (printf "env.%s: %s: must be left out: it is %s of the agent's pod" $name (get $env $name | toJson) $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
