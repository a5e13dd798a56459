// SPDX-License-Identifier: Apache-2.0
//! Environment of a pod's containers at their start: root file system, files, variables, credentials.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cluster::Actor;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use crate::account::{Credentials, Kept};
use crate::env::Sources;
use crate::error::Error;
use crate::node::{NetnsNode, PLUGIN};
use crate::options::{SERVICE, SERVICE_V6};
use crate::output::Output;
use crate::pace;
use crate::pod::{Binaries, Plan, Planned};
use crate::process::{Process, Program};
use crate::rootfs::{Mount, Root};
use crate::sandbox::Sandbox;
use crate::view::View;

/// Where a container with a root of its own has the program that it runs.
const IMAGE: &str = "/image";
/// Program of the agent's image; it may have to be started by the lab's own program.
const AGENT: &str = "install-cni";
/// Directory of the plugin in the agent's image.
const SHIPPED: &str = "/opt/cni/bin";
/// File of names that a kubelet writes for each pod.
const HOSTS: &str = "hosts";
/// Lifetime of a container's token: a kubelet's default for projected tokens is an hour.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// `PATH` of containers.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Shared by all containers of a pod.
#[derive(Debug)]
pub struct Shared {
    netns: PathBuf,
    addresses: Vec<IpAddr>,
    /// Addresses of the node.
    host: Vec<IpAddr>,
    resolv_conf: PathBuf,
    view: Arc<View>,
    /// For containers with a root of their own.
    rooted: Option<Rooted>,
}

#[derive(Debug)]
struct Rooted {
    credentials: Arc<Credentials>,
    /// Private directory of the pod.
    own: PathBuf,
}

impl NetnsNode {
    /// Prepares the shared parts of a pod's containers.
    pub(crate) async fn furnish(
        &self,
        plan: &Plan,
        sandbox: &Sandbox,
        kept: &mut Option<Kept>,
    ) -> Result<Shared, Error> {
        let own = self.directory.join("pods").join(&plan.uid);
        let rooted = if plan.is_rooted() {
            let credentials = self.credentials(plan, own.join("account"), kept).await?;
            fs::create_dir_all(own.join("root")).map_err(Error::file("make", &own))?;
            let hosts = own.join(HOSTS);
            fs::write(&hosts, hosts_of(plan, sandbox.addresses())).map_err(Error::file("write", &hosts))?;
            Some(Rooted { credentials, own })
        } else {
            None
        };
        Ok(Shared {
            netns: sandbox.netns().to_owned(),
            addresses: sandbox.addresses().to_vec(),
            host: self.addresses(),
            resolv_conf: self.write_resolv_conf(plan)?,
            view: self.view.now(),
            rooted,
        })
    }

    async fn credentials(
        &self,
        plan: &Plan,
        directory: PathBuf,
        kept: &mut Option<Kept>,
    ) -> Result<Arc<Credentials>, Error> {
        if let Some(kept) = kept {
            return Ok(Arc::clone(&kept.credentials));
        }
        let made = Credentials::new(&self.access, &plan.service_account, &plan.pod, directory, TOKEN_LIFE);
        let made = made.await?;
        Ok(Arc::clone(&kept.insert(Kept::new(made)).credentials))
    }

    /// Starts a container.
    pub(crate) async fn launch(
        &self,
        plan: &Plan,
        planned: &Planned,
        shared: &Shared,
        output: Output,
    ) -> Result<Process, Error> {
        if let Some(why) = self.options.images.refusal(&planned.image) {
            return Err(Error::NoImage(why));
        }
        let mut program = planned.program.clone();
        let under_test = std::mem::take(&mut program.env);
        let mut env = environment(&planned.env, &self.access.client, plan, shared).await?;
        // The system under test may play a defect, whatever its container says.
        for (name, value) in &self.options.binaries.sut_env {
            if under_test.get(name) == Some(value) {
                env.insert(name.clone(), value.clone());
            }
        }
        // No container of a real runtime lacks it: it is the image's, or the runtime's default.
        env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
        program.env = env;
        program.resolv_conf = Some(shared.resolv_conf.clone());
        program.view = Some(Arc::clone(&shared.view));
        if let Some(rooted) = &shared.rooted {
            self.root(plan, planned, rooted, &mut program)?;
        }
        pace::late(&self.options.chaos, Actor::Process).await;
        Process::start_into(&program, &shared.netns, output).await
    }

    /// Gives a program a root file system.
    fn root(
        &self,
        plan: &Plan,
        planned: &Planned,
        rooted: &Rooted,
        program: &mut Program,
    ) -> Result<(), Error> {
        let service = if self.options.node.service_is_ipv6 { SERVICE_V6 } else { SERVICE.0 };
        let defaults = BTreeMap::from([
            ("KUBERNETES_SERVICE_HOST", service.to_owned()),
            ("KUBERNETES_SERVICE_PORT", SERVICE.1.to_string()),
        ]);
        for (name, value) in defaults {
            program.env.entry(name.to_owned()).or_insert(value);
        }
        let Binaries { sut, image, .. } = &self.options.binaries;
        let there = image.iter().filter(|path| program.path.starts_with(sut) && path.exists());
        let mut mounts: Vec<_> = there.map(|path| Mount::image(path, &path.display().to_string())).collect();
        let name = program.path.file_name().unwrap_or_default();
        let at = Path::new(IMAGE).join(name);
        mounts.push(Mount::image(&program.path, &at.display().to_string()));
        let agent = self.options.binaries.sut.join(AGENT);
        if program.path == self.options.binaries.workload && agent.is_file() {
            mounts.push(Mount::image(&agent, &format!("{IMAGE}/{AGENT}")));
        }
        let plugin = self.options.binaries.sut.join(PLUGIN);
        if plugin.is_file() {
            mounts.push(Mount::image(&plugin, &format!("{SHIPPED}/{PLUGIN}")));
        }
        mounts.push(Mount::image(&rooted.own.join(HOSTS), "/etc/hosts"));
        // A volume hides what the image has at its place.
        let sources = (&*rooted.own, rooted.credentials.directory());
        mounts.extend(self.host.mounts(&plan.volumes, &planned.places, sources)?);
        program.root = Some(Root { base: rooted.own.join("root"), mounts });
        program.path = at;
        Ok(())
    }

    /// Path of a pod's `resolv.conf`.
    pub(crate) fn resolv_conf(&self, plan: &Plan) -> PathBuf {
        self.directory.join(format!("resolv.conf-{}", plan.uid))
    }

    fn write_resolv_conf(&self, plan: &Plan) -> Result<PathBuf, Error> {
        let path = self.resolv_conf(plan);
        fs::write(&path, &plan.resolv_conf).map_err(Error::file("write", &path))?;
        Ok(path)
    }
}

/// The names that a kubelet gives each pod: its own and `localhost`.
fn hosts_of(plan: &Plan, addresses: &[IpAddr]) -> String {
    let mut text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    // On the host's network a real kubelet takes the node's file.
    for address in addresses.iter().filter(|_| !plan.host_network) {
        text.push_str(&format!("{address}\t{}\n", plan.pod.name));
    }
    text
}

/// Environment of a container. What has to be asked for is asked when it starts, so a restarted one finds what changed.
///
/// # Errors
/// A ConfigMap is not there: a kubelet does not start the container then.
async fn environment(
    sources: &Sources,
    api: &kube::Client,
    plan: &Plan,
    shared: &Shared,
) -> Result<BTreeMap<String, String>, Error> {
    let mut env = BTreeMap::new();
    for (name, optional) in &sources.maps {
        let maps: Api<ConfigMap> = Api::namespaced(api.clone(), &plan.pod.namespace);
        match maps.get_opt(name).await? {
            Some(map) => env.extend(map.data.unwrap_or_default()),
            None if *optional => {}
            None => return Err(Error::Missing(format!("configmap {name:?}"))),
        }
    }
    for variable in &sources.variables {
        let field = || {
            let from = variable.value_from.as_ref()?.field_ref.as_ref()?;
            field(plan, shared, &from.field_path)
        };
        // One without a value is set to nothing, and hides what a ConfigMap says.
        let nothing = || variable.value_from.is_none().then(String::new);
        if let Some(value) = variable.value.clone().or_else(field).or_else(nothing) {
            env.insert(variable.name.clone(), value);
        }
    }
    Ok(env)
}

/// Field of the pod, as the downward API names it.
fn field(plan: &Plan, shared: &Shared, path: &str) -> Option<String> {
    let first = |addresses: &[IpAddr]| addresses.first().map(ToString::to_string);
    let all = |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let keyed = |map: &str| path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']");
    Some(match path {
        "metadata.name" => plan.pod.name.clone(),
        "metadata.namespace" => plan.pod.namespace.clone(),
        "metadata.uid" => plan.uid.clone(),
        "spec.nodeName" => plan.node.clone(),
        "spec.serviceAccountName" => plan.service_account.clone(),
        "status.hostIP" => first(&shared.host)?,
        "status.hostIPs" => all(&shared.host),
        "status.podIP" => first(&shared.addresses)?,
        "status.podIPs" => all(&shared.addresses),
        _ => {
            let annotation = keyed("metadata.annotations").map(|key| plan.annotations.get(key));
            annotation
                .or_else(|| keyed("metadata.labels").map(|key| plan.facts.metadata.labels.get(key)))??
                .clone()
        }
    })
}
