// SPDX-License-Identifier: Apache-2.0
//! The world of stand-ins that a call is made in, and what came of it.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use protocol::agent::{RequestKind, Response};
use protocol::pod::PodFacts;
use redirect::found::FoundRules;
use redirect::sandbox::GuestLinks;
use serde_json::{Value, json};

use crate::agent::AgentError;
use crate::call::run;
use crate::context::Exit;
use crate::http::{HttpError, HttpResponse};
use crate::testing::{FakeAgent, FakeApi, FakeClock, FakeKernel, FakeSite};
use crate::world::World;

pub(super) const NETNS: &str = "/run/netns/x";

pub(super) type AgentSays = fn() -> Result<Response, AgentError>;
pub(super) type ServerSays = fn() -> Result<HttpResponse, HttpError>;

/// One call that is to be made. [`Scene::new`] is an ADD of a mesh pod that the agent knows.
pub(super) struct Scene {
    pub(super) command: &'static str,
    pub(super) env: Vec<(&'static str, String)>,
    pub(super) args: Vec<String>,
    /// Content of `pod.json`.
    pub(super) object: Value,
    pub(super) conf: Value,
    pub(super) kubeconfig: bool,
    pub(super) record: Option<&'static str>,
    pub(super) agent: AgentSays,
    pub(super) api: ServerSays,
    pub(super) site: FakeSite,
}

/// Outcome of a call.
pub(super) struct Outcome {
    pub(super) exit: Exit,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) heard: Vec<RequestKind>,
    pub(super) requests: usize,
    pub(super) done: Vec<&'static str>,
    pub(super) waited: Duration,
    pub(super) log: String,
}

pub(super) fn pod_json() -> Value {
    json!({"kind": "Pod", "metadata": {"name": "cart", "namespace": "shop", "uid": "u1",
            "annotations": {"sidecar.istio.io/status": "{}"}},
        "spec": {"securityContext": {}, "containers": [{"name": "app"}, {"name": "istio-proxy", "args": ["proxy", "sidecar"]}]}})
}

pub(super) fn found(change: impl Fn(&mut Value)) -> Result<Response, AgentError> {
    let mut pod = pod_json();
    change(&mut pod);
    let pod: PodFacts = serde_json::from_value(pod).unwrap();
    Ok(Response::Found { pod: Box::new(pod) })
}

pub(super) fn mesh_pod() -> Result<Response, AgentError> {
    found(|_| {})
}

pub(super) fn no_agent() -> Result<Response, AgentError> {
    Err(AgentError::Absent)
}

pub(super) fn api_pod() -> Result<HttpResponse, HttpError> {
    Ok(HttpResponse { status: 200, retry_after: None, body: pod_json().to_string().into_bytes() })
}

pub(super) fn api_status(status: u16) -> Result<HttpResponse, HttpError> {
    Ok(HttpResponse { status, ..HttpResponse::default() })
}

impl Scene {
    pub(super) fn new(command: &'static str) -> Self {
        let addresses = vec!["127.0.0.1", "10.9.0.2"];
        Self {
            command,
            env: Vec::new(),
            args: Vec::new(),
            object: pod_json(),
            conf: json!({"cniVersion": "1.1.0", "name": "k8s", "type": "istio-cni", "plugin_log_level": "debug",
                "exclude_namespaces": ["kube-system"], "pod_namespace": "istio-system",
                "prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.9.0.2/24"}]}}),
            kubeconfig: true,
            record: None,
            agent: mesh_pod,
            api: || api_status(500),
            site: FakeSite {
                path: NETNS,
                own: false,
                addresses,
                ours: false,
                found: FoundRules::default(),
                fails: false,
                links: GuestLinks::default(),
            },
        }
    }

    pub(super) fn set(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    pub(super) fn pod(self, namespace: &str, name: &str) -> Self {
        self.set(
            "CNI_ARGS",
            &format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_UID=u1"),
        )
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn run(mut self) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        self.conf["cni_agent_run_dir"] = dir.path().to_str().unwrap().into();
        if self.kubeconfig {
            let text = "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: s3cret}}], contexts: [{name: x, context: {cluster: c, user: u}}]}";
            std::fs::write(dir.path().join("istio-cni-kubeconfig"), text).unwrap();
        }
        if let Some(record) = self.record {
            std::fs::write(dir.path().join("backend"), record).unwrap();
        }
        let stdin = self.conf.to_string();
        for word in &mut self.args {
            *word = word.replace("{dir}", &dir.path().display().to_string());
        }
        std::fs::write(dir.path().join("10-k8s.conf"), &stdin).unwrap();
        std::fs::write(dir.path().join("pod.json"), self.object.to_string()).unwrap();
        self.run_in(dir.path(), stdin.as_bytes())
    }

    pub(super) fn run_in(self, dir: &Path, mut stdin: &[u8]) -> Outcome {
        let defaults = [
            ("CNI_COMMAND", self.command),
            ("CNI_CONTAINERID", "c1"),
            ("CNI_NETNS", NETNS),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin"),
            ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart;K8S_POD_UID=u1"),
        ];
        let env = |name: &str| {
            let own = self.env.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
            own.or_else(|| {
                defaults.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let clock = FakeClock::new();
        let agent = FakeAgent { answer: self.agent, heard: RefCell::default() };
        let requests = Rc::new(Cell::new(0));
        let api = FakeApi { answer: self.api, requests: Rc::clone(&requests) };
        let done = Rc::default();
        let kernel = FakeKernel { site: self.site.clone(), done: Rc::clone(&done) };
        let exit = run(World {
            env: &env,
            args: &|| self.args.clone(),
            stdin: &mut stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
            clock: &clock,
            agent: &agent,
            api: &api,
            kernel: &kernel,
        });
        Outcome {
            exit,
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
            heard: agent.heard.take(),
            requests: requests.get(),
            done: done.take(),
            waited: clock.waits.borrow().iter().sum(),
            log: std::fs::read_to_string(dir.join("istio-cni.log")).unwrap_or_default(),
        }
    }
}

impl Outcome {
    /// The result, of an ADD that succeeded.
    pub(super) fn result(&self) -> Value {
        assert_eq!(self.exit, Exit::Success, "{}{}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Code and message, of a call that failed.
    pub(super) fn error(&self) -> (u64, String) {
        assert_eq!(self.exit, Exit::Failure, "{}", self.stdout);
        let error: Value = serde_json::from_str(&self.stdout).unwrap();
        (error["code"].as_u64().unwrap(), format!("{}; {}", error["msg"], error["details"]))
    }

    pub(super) fn silent_success(&self) {
        assert_eq!((self.exit, self.stdout.as_str()), (Exit::Success, ""), "{}", self.stderr);
    }
}
