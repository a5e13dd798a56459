// SPDX-License-Identifier: Apache-2.0

// Upstream's injector as a program: cases on standard input (YAML), on standard output what its webhook makes of each pod (JSON, by the case's
// name): the pod, or the message that refuses it. Template and defaults are those of upstream's chart of istiod.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admission "k8s.io/api/admission/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"istio.io/istio/operator/pkg/helm"
	"istio.io/istio/operator/pkg/values"
	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config/constants"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/config/mesh/meshwatcher"
	"istio.io/istio/pkg/kube"
	"istio.io/istio/pkg/kube/inject"
	"istio.io/istio/pkg/kube/multicluster"
	"istio.io/istio/pkg/log"
)

// A pod, and what is said of its mesh.
type Case struct {
	Name string `json:"name"`
	// Values of the chart.
	Values map[string]any `json:"values"`
	// Fields of MeshConfig.
	Mesh map[string]any `json:"mesh"`
	// Native sidecars.
	Native bool `json:"native"`
	// As istiod's variable PLATFORM.
	Platform string `json:"platform"`
	// Annotations of the pod's namespace.
	Namespace map[string]string `json:"namespace"`
	Pod       core.Pod          `json:"pod"`
}

// The configuration that the chart renders for the injector.
type fixed struct {
	config *inject.Config
	values string
}

func (fixed) SetHandler(func(*inject.Config, string) error) {}
func (fixed) Run(<-chan struct{})                           {}
func (f fixed) Get() (*inject.Config, string, error)        { return f.config, f.values, nil }

func main() {
	quiet := log.DefaultOptions()
	quiet.SetDefaultOutputLevel(log.OverrideScopeName, log.NoneLevel)
	check(log.Configure(quiet))
	text, err := io.ReadAll(os.Stdin)
	check(err)
	var cases []Case
	check(yaml.UnmarshalStrict(text, &cases))
	answers := map[string]any{}
	for _, one := range cases {
		answer, err := one.answer()
		if err != nil {
			check(fmt.Errorf("%s: %w", one.Name, err))
		}
		answers[one.Name] = answer
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	check(encoder.Encode(answers))
}

func (c Case) answer() (any, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	check(os.Setenv("PLATFORM", c.Platform))
	features.EnableNativeSidecars = features.NativeSidecarModeDisabled
	if c.Native {
		features.EnableNativeSidecars = features.NativeSidecarModeEnabled
	}
	text, err := yaml.Marshal(c.Mesh)
	if err != nil {
		return nil, err
	}
	meshConfig, err := mesh.ApplyMeshConfigDefaults(string(text))
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	defer close(stop)
	clusters := multicluster.NewFakeController()
	namespace := &core.Namespace{ObjectMeta: v1.ObjectMeta{Name: "shop", Annotations: c.Namespace}}
	client := kube.NewFakeClient(namespace)
	store := model.NewFakeStore()
	environment := model.Environment{Watcher: meshwatcher.NewTestWatcher(meshConfig), ConfigStore: store}
	environment.SetPushContext(&model.PushContext{ProxyConfigs: model.GetProxyConfigs(store, meshConfig)})
	mux := http.NewServeMux()
	parameters := inject.WebhookParameters{Watcher: config, Env: &environment, Mux: mux, MultiCluster: clusters}
	if _, err := inject.NewWebhook(parameters); err != nil {
		return nil, err
	}
	clusters.Add(constants.DefaultClusterName, client, stop)
	client.RunAndWait(stop)
	return c.ask(mux)
}

// As the API server asks it.
func (c Case) ask(mux *http.ServeMux) (any, error) {
	pod, err := json.Marshal(c.Pod)
	if err != nil {
		return nil, err
	}
	request := &admission.AdmissionRequest{Namespace: "shop", Object: runtime.RawExtension{Raw: pod}}
	review := admission.AdmissionReview{
		TypeMeta: v1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	asked := httptest.NewRequest(http.MethodPost, "/inject", bytes.NewReader(body))
	asked.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, asked)
	var answer struct {
		Response struct {
			Allowed bool   `json:"allowed"`
			Patch   string `json:"patch"`
			Status  struct {
				Message string `json:"message"`
			} `json:"status"`
		} `json:"response"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", recorder.Body, err)
	}
	if !answer.Response.Allowed {
		return map[string]string{"refused": answer.Response.Status.Message}, nil
	}
	if answer.Response.Patch == "" {
		return json.RawMessage(pod), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(answer.Response.Patch)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(decoded)
	if err != nil {
		return nil, err
	}
	patched, err := patch.Apply(pod)
	return json.RawMessage(patched), err
}

// Renders upstream's chart.
func (c Case) config() (fixed, error) {
	all := values.Map{"spec": map[string]any{"values": c.Values}}
	manifests, _, err := helm.Render("istiod", "istio-system", "istio-control/istio-discovery", all, nil)
	if err != nil {
		return fixed{}, err
	}
	for _, one := range manifests {
		if one.GetKind() != "ConfigMap" || one.GetName() != "istio-sidecar-injector" {
			continue
		}
		data, _ := one.Object["data"].(map[string]any)
		config, _ := data["config"].(string)
		values, _ := data["values"].(string)
		parsed, err := inject.UnmarshalConfig([]byte(config))
		return fixed{&parsed, values}, err
	}
	return fixed{}, fmt.Errorf("the chart renders no istio-sidecar-injector")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "injector:", err)
		os.Exit(1)
	}
}
