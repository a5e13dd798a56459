{{- /*
SPDX-License-Identifier: Apache-2.0

The values that count, as JSON: defaults < profile < compatibility version < platform < what the user says. Everything outside of
_internal_defaults_do_not_set was said by the user, so that a user's value always wins. Nothing is written back to .Values: each template asks for itself.
*/ -}}
{{- define "istio-cni.values" -}}
{{- $merged := deepCopy .Values._internal_defaults_do_not_set -}}
{{- $legacy := deepCopy (.Values.cni | default dict) -}}
{{- $root := deepCopy (omit .Values "_internal_defaults_do_not_set" "cni") -}}
{{- include "istio-cni.withoutNull" $legacy -}}
{{- include "istio-cni.withoutNull" $root -}}
{{- include "istio-cni.agree" (dict "root" $root "legacy" $legacy "path" "") -}}
{{- $user := mergeOverwrite $root $legacy -}}
{{- range $family := list (list "profile" "profile") (list "compatibilityVersion" "compat") (list "platform" "platform") -}}
{{- $key := first $family -}}
{{- with get $user $key | default (get ($user.global | default dict) $key) -}}
{{- $file := include "istio-cni.file" (dict "files" $.Files "key" $key "kind" (last $family) "name" .) -}}
{{- $merged = mergeOverwrite $merged ($file | fromYaml) -}}
{{- $_ := set $user $key . -}}
{{- end -}}
{{- end -}}
{{- $merged = mergeOverwrite $merged $user -}}
{{- include "istio-cni.contradictions" $merged -}}
{{- toJson $merged -}}
{{- end -}}

{{- /* A value that is null says nothing. */ -}}
{{- define "istio-cni.withoutNull" -}}
{{- $map := . -}}
{{- range $key, $value := $map -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $map $key -}}
{{- else if kindIs "map" $value -}}
{{- include "istio-cni.withoutNull" $value -}}
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
{{- end -}}
