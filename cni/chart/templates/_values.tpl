{{- /*
SPDX-License-Identifier: Apache-2.0

The values that count, as JSON: defaults < profile < compatibility version < platform < what the user says. Everything outside of
_internal_defaults_do_not_set was said by the user, so that a user's value always wins. Nothing is written back to .Values: each template asks for itself.
*/ -}}
{{- define "istio-cni.values" -}}
{{- $defaults := deepCopy .Values._internal_defaults_do_not_set -}}
{{- $legacy := deepCopy (.Values.cni | default dict) -}}
{{- $root := deepCopy (omit .Values "_internal_defaults_do_not_set" "cni") -}}
{{- include "istio-cni.agree" (dict "root" $root "legacy" $legacy "path" "") -}}
{{- $user := mergeOverwrite $root $legacy -}}
{{- $global := $user.global | default dict -}}
{{- $merged := $defaults -}}
{{- with $user.profile | default $global.profile -}}
{{- $merged = mergeOverwrite $merged (include "istio-cni.file" (dict "files" $.Files "key" "profile" "kind" "profile" "name" .) | fromYaml) -}}
{{- end -}}
{{- with $user.compatibilityVersion | default $global.compatibilityVersion -}}
{{- $merged = mergeOverwrite $merged (include "istio-cni.file" (dict "files" $.Files "key" "compatibilityVersion" "kind" "compat" "name" .) | fromYaml) -}}
{{- end -}}
{{- with $user.platform | default $global.platform -}}
{{- $merged = mergeOverwrite $merged (include "istio-cni.file" (dict "files" $.Files "key" "platform" "kind" "platform" "name" .) | fromYaml) -}}
{{- end -}}
{{- mergeOverwrite $merged $user | toJson -}}
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
{{- fail (printf "%s is %s and cni.%s is %s: they are two spellings of one value; leave one out" $name (toJson $own) $name (toJson $legacy)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A file of values, or an error that lists those that there are. */ -}}
{{- define "istio-cni.file" -}}
{{- $text := .files.Get (printf "files/%s-%s.yaml" .kind .name) -}}
{{- if not $text -}}
{{- $known := list -}}
{{- $prefix := printf "files/%s-" .kind -}}
{{- range $path, $_ := .files.Glob (printf "files/%s-*.yaml" .kind) -}}
{{- $known = append $known ($path | trimPrefix $prefix | trimSuffix ".yaml") -}}
{{- end -}}
{{- fail (printf "%s %q is not known: it is one of %s" .key (toString .name) (join ", " $known)) -}}
{{- end -}}
{{- $text -}}
{{- end -}}
