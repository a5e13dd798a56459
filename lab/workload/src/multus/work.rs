// SPDX-License-Identifier: Apache-2.0
//! ADD of the default network and of those that the pod names; DEL of the kept ones. Runtimes ask CHECK from `cniVersion` 0.4
//! on, STATUS and GC from 1.1: the configuration of its manifests has 0.3.1. Each network is one of its own: it gets no result of another.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Call;
use super::api::{Api, Refusal};
use super::conf::Conf;
use super::invoke::Invoker;
use super::kept::Kept;
use super::network::{Directory, Network, of_file};
use super::places::Places;
use super::selection::{NETWORKS, Selection, parse};

/// Interval and deadline of the look for the readiness indicator: a second and 45 of the real one, in the lab's time.
const LOOK_EVERY: Duration = Duration::from_millis(25);
const READY_WITHIN: Duration = Duration::from_millis(45 * 25);
/// The error of such a look, in the words of Kubernetes' libraries.
pub const TIMED_OUT: &str = "timed out waiting for the condition";

/// Definitions of networks in the API.
const DEFINITIONS: &str = "/apis/k8s.cni.cncf.io/v1/namespaces";

/// Multus during one call.
#[derive(Debug)]
struct Multus<'a> {
    call: &'a Call,
    conf: Conf,
    places: &'a Places,
    binaries: Vec<(PathBuf, PathBuf)>,
}

/// Carries a call out; `Null` where a command has no result.
///
/// # Errors
/// It failed, in Multus' words.
pub async fn carry_out(call: &Call, places: &Places) -> Result<Value, String> {
    let conf = Conf::parse(&call.configuration)?;
    let mut binaries = vec![(conf.bin_dir.clone(), places.find(&conf.bin_dir))];
    binaries.extend(
        call.get("CNI_PATH")
            .split(':')
            .filter(|path| !path.is_empty())
            .map(|path| (path.into(), path.into())),
    );
    let multus = Multus { call, conf, places, binaries };
    match call.get("CNI_COMMAND") {
        "ADD" => multus.add().await,
        "DEL" => multus.del().await.map(|()| Value::Null),
        command => Err(format!("the lab's Multus is of CNI 0.3.1, which has no {command}")),
    }
}

impl Multus<'_> {
    fn failed(&self, why: &str) -> String {
        let of = |name| self.call.argument(name);
        let (namespace, name, uid) = (of("K8S_POD_NAMESPACE"), of("K8S_POD_NAME"), of("K8S_POD_UID"));
        format!("Multus: [{namespace}/{name}/{uid}]: {why}")
    }

    fn kept(&self) -> Kept {
        Kept::of(self.call, self.places.find(&self.conf.cni_dir))
    }

    fn files(&self) -> Directory {
        Directory { name: self.conf.conf_dir.clone(), place: self.places.find(&self.conf.conf_dir) }
    }

    fn api(&self) -> Result<Option<Api>, String> {
        if self.conf.kubeconfig.as_os_str().is_empty() {
            return Ok(None);
        }
        let api = Api::of(&self.places.find(&self.conf.kubeconfig));
        api.map(Some).map_err(|error| format!("Multus: error getting k8s client: GetK8sClient: failed to get context for the kubeconfig {}: {error}", self.conf.kubeconfig.display()))
    }

    fn invoker<'a>(&'a self, network: &'a Network, interface: &'a str) -> Invoker<'a> {
        Invoker { call: self.call, binaries: &self.binaries, network, interface }
    }

    fn interface(&self, number: usize, network: &Network) -> String {
        match (network.interface.as_str(), number) {
            ("", 0) => self.call.get("CNI_IFNAME").to_owned(),
            ("", number) => format!("net{number}"),
            (wanted, _) => wanted.to_owned(),
        }
    }

    async fn until_ready(&self) -> Result<(), String> {
        let file = &self.conf.readiness_indicator_file;
        let since = Instant::now();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        while !file.as_os_str().is_empty() && !self.places.find(file).exists() {
            if since.elapsed() > READY_WITHIN {
                return Err(self.failed(&format!(
                    "have you checked that your default network is ready? still waiting for readinessindicatorfile @ {}. pollimmediate error: {TIMED_OUT}",
                    file.display()
                )));
            }
            looks.tick().await;
        }
        Ok(())
    }

    async fn add(&self) -> Result<Value, String> {
        let api = self.api()?;
        self.until_ready().await?;
        let pod = match &api {
            None => Value::Null,
            Some(api) => match self.pod(api).await {
                Ok(pod) => pod,
                // Its sandbox outlives a pod that was deleted meanwhile; nothing is attached to it.
                Err(lack) if lack.is_absence => return Ok(self.of_nothing()),
                Err(lack) => return Err(lack.message),
            },
        };
        let networks = self.networks(api.as_ref(), &pod).await?;
        let kept = self.kept();
        kept.put(&networks).map_err(|error| self.failed(&format!("error saving the delegates: {error}")))?;
        let mut first = Value::Null;
        for (number, network) in networks.iter().enumerate() {
            let interface = self.interface(number, network);
            match self.invoker(network, &interface).add().await {
                Ok(result) => {
                    let written = kept.put_result(self.call, network, &interface, &result);
                    written.map_err(|error| self.failed(&error.to_string()))?;
                    if number == 0 {
                        first = result;
                    }
                }
                Err(error) => {
                    // The first failure is the one to report.
                    let _ = self.detach(&kept, &networks[..=number]).await;
                    let of = |name| self.call.argument(name);
                    let (namespace, pod, uid) =
                        (of("K8S_POD_NAMESPACE"), of("K8S_POD_NAME"), of("K8S_POD_UID"));
                    let name = &network.name;
                    return Err(format!(
                        "[{namespace}/{pod}/{uid}:{name}]: error adding container to network {name:?}: {error}"
                    ));
                }
            }
        }
        Ok(first)
    }

    /// The result of an ADD that attached nothing.
    fn of_nothing(&self) -> Value {
        let interface = json!({ "name": self.call.get("CNI_IFNAME"), "sandbox": self.call.get("CNI_NETNS") });
        let address = json!({ "address": "0.0.0.0/32", "gateway": "0.0.0.0" });
        json!({ "cniVersion": "1.0.0", "interfaces": [interface], "ips": [address], "dns": {} })
    }

    async fn pod(&self, api: &Api) -> Result<Value, Refusal> {
        let of = |name| self.call.argument(name);
        let path = format!("/api/v1/namespaces/{}/pods/{}", of("K8S_POD_NAMESPACE"), of("K8S_POD_NAME"));
        let failed = |refusal: Refusal| {
            let message = self.failed(&format!("error waiting for pod: {}", refusal.message));
            Refusal { message, ..refusal }
        };
        let pod = api.get(&path).await.map_err(failed)?;
        let (wanted, found) = (of("K8S_POD_UID"), pod["metadata"]["uid"].as_str().unwrap_or_default());
        let is_static = !pod["metadata"]["annotations"]["kubernetes.io/config.source"].is_null();
        if !wanted.is_empty() && wanted != found && !is_static {
            let message =
                self.failed(&format!("expected pod UID {wanted:?} but got {found:?} from Kube API"));
            return Err(Refusal { is_absence: false, message });
        }
        Ok(pod)
    }

    /// The default network, then those of the system's pods' defaults, then those that the pod names.
    async fn networks(&self, api: Option<&Api>, pod: &Value) -> Result<Vec<Network>, String> {
        let mut all = self.defaults(api).await?;
        if let Some(api) = api {
            all.extend(self.of_annotation(api, pod).await?);
        }
        Ok(all)
    }

    async fn defaults(&self, api: Option<&Api>) -> Result<Vec<Network>, String> {
        let failed = |why: String| self.failed(&why);
        let given = self.conf.delegates.iter().map(|given| Network::parse(given.to_string().as_bytes(), ""));
        let mut all: Vec<_> = given.collect::<Result<_, _>>().map_err(failed)?;
        let Some(api) = api else {
            let none = "must have either Kubernetes config or delegates";
            return if all.is_empty() { Err(failed(format!("GetDefaultNetworks: {none}"))) } else { Ok(all) };
        };
        if !self.conf.cluster_network.is_empty() {
            let found = self.default_network(api, &self.conf.cluster_network).await.map_err(|_| {
                let (name, namespace) = (&self.conf.cluster_network, &self.conf.multus_namespace);
                failed(format!("failed to get clusterNetwork/defaultNetworks: GetDefaultNetworks: failed to get clusterNetwork {name} in namespace {namespace}"))
            })?;
            all.insert(0, found);
        }
        let namespace = self.call.argument("K8S_POD_NAMESPACE");
        if !self.conf.system_namespaces.iter().any(|system| system == namespace) {
            for name in &self.conf.default_networks {
                all.push(self.default_network(api, name).await.map_err(failed)?);
            }
        }
        Ok(all)
    }

    async fn of_annotation(&self, api: &Api, pod: &Value) -> Result<Vec<Network>, String> {
        let annotation = pod["metadata"]["annotations"][NETWORKS].as_str().unwrap_or_default();
        let named = self.named(api, annotation, self.call.argument("K8S_POD_NAMESPACE")).await;
        named.map_err(|why| self.failed(&why))
    }

    /// A network that is a path, or a name of a definition in Multus' own namespace, or of a file.
    async fn default_network(&self, api: &Api, name: &str) -> Result<Network, String> {
        if !name.contains('/') {
            let selection = Selection {
                name: name.to_owned(),
                namespace: self.conf.multus_namespace.clone(),
                interface: String::new(),
            };
            return match self.defined(api, &selection).await {
                Ok(network) => Ok(network),
                Err(_) => self.files().named(name),
            };
        }
        let place = self.places.find(Path::new(name));
        if place.is_dir() { Directory { name: name.into(), place }.named("") } else { of_file(&place) }
    }

    /// Networks of a pod's annotation.
    async fn named(&self, api: &Api, annotation: &str, namespace: &str) -> Result<Vec<Network>, String> {
        if annotation.is_empty() {
            return Ok(Vec::new());
        }
        let begin = "error loading k8s delegates k8s args: TryLoadPodDelegates:";
        let selections = parse(annotation, namespace).map_err(|error| format!("{begin} {error}"))?;
        let begin = format!("{begin} error in getting k8s network for pod: GetNetworkDelegates:");
        let mut networks = Vec::new();
        for selection in selections {
            if self.conf.namespace_isolation
                && selection.namespace != namespace
                && !self.conf.is_global(&selection.namespace)
            {
                return Err(format!(
                    "{begin} namespace isolation enabled, annotation violates permission, pod is in namespace {namespace} but refers to target namespace {}",
                    selection.namespace
                ));
            }
            let found = self.defined(api, &selection).await;
            networks.push(found.map_err(|error| format!("{begin} failed getting the delegate: {error}"))?);
        }
        Ok(networks)
    }

    async fn defined(&self, api: &Api, selection: &Selection) -> Result<Network, String> {
        let Selection { name, namespace, interface } = selection;
        let path = format!("{DEFINITIONS}/{namespace}/network-attachment-definitions/{name}");
        let definition = api.get(&path).await.map_err(|refusal| {
            format!("getKubernetesDelegate: cannot find a network-attachment-definition ({name}) in namespace ({namespace}): {}", refusal.message)
        })?;
        let network = Network::of_definition(&definition, &self.files())?;
        Ok(Network { interface: interface.clone(), ..network })
    }

    /// Forgets the kept networks, whether each DEL succeeded or not (`CmdDel` without `retryDeleteOnError`).
    async fn del(&self) -> Result<(), String> {
        let (kept, api) = (self.kept(), self.api()?);
        let networks = match kept.networks() {
            Some(networks) => networks,
            None => self.of_pod(api.as_ref()).await?,
        };
        let done = self.detach(&kept, &networks).await;
        kept.forget();
        done
    }

    /// The networks of a pod that is still there, when nothing was kept. A sandbox that nobody knows anything of can be deleted all the same.
    async fn of_pod(&self, api: Option<&Api>) -> Result<Vec<Network>, String> {
        let Some(api) = api else { return Ok(Vec::new()) };
        let Ok(pod) = self.pod(api).await else { return Ok(Vec::new()) };
        let mut all = self.defaults(Some(api)).await?;
        match self.of_annotation(api, &pod).await {
            Ok(named) => all.extend(named),
            Err(why) if all.is_empty() => return Err(why),
            // The default ones are known.
            Err(_) => {}
        }
        Ok(all)
    }

    async fn detach(&self, kept: &Kept, networks: &[Network]) -> Result<(), String> {
        let mut errors = Vec::new();
        for (number, network) in networks.iter().enumerate().rev() {
            let interface = self.interface(number, network);
            match self.invoker(network, &interface).del(kept.result(network, &interface)).await {
                Ok(()) => kept.forget_result(network, &interface),
                Err(error) => errors.push(format!(
                    "delegateDel: error invoking {} - {:?}: error in getting result from DelNetwork: {error}",
                    if network.is_list { "ConflistDel" } else { "DelegateDel" },
                    network.name
                )),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join(" / ")) }
    }
}
