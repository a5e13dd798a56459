// SPDX-License-Identifier: Apache-2.0
//! A node and a pod, for one process: a directory with everything that the plugin reads, a network namespace for the pod, and what is taken
//! away from them.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use netfilter::{Netns, has_rules_of_ours, read};
use rig::{link, mounts, netns};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use serde_json::{Value, json};

/// Where tools are.
const TOOLS: [&str; 5] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local"];

/// A node and its one pod.
pub(crate) struct Stage {
    dir: PathBuf,
    /// The plugin's configuration.
    pub(crate) conf: Value,
    /// The pod's annotations.
    pub(crate) annotations: Value,
    env: Vec<(&'static str, String)>,
}

/// Output of the plugin.
pub(crate) struct Answer {
    code: Option<i32>,
    stdout: String,
    /// Standard error.
    pub(crate) log: String,
}

impl Stage {
    /// Makes it in `dir`. The calling process is on it from now on.
    pub(crate) fn enter(dir: &Path) -> Self {
        mounts::tmpfs(dir);
        for sub in ["run", "netns"] {
            std::fs::create_dir(dir.join(sub)).unwrap();
        }
        let conf = json!({"cniVersion": "1.0.0", "name": "k8s", "type": "istio-cni", "cni_agent_run_dir": dir.join("run")});
        let stage = Self {
            dir: dir.to_owned(),
            conf,
            annotations: json!({"sidecar.istio.io/status": "{}"}),
            env: Vec::new(),
        };
        netns::mounted(&stage.netns(), || link::up(&["10.9.0.2"]));
        stage
    }

    /// The pod's network namespace.
    pub(crate) fn netns(&self) -> PathBuf {
        self.dir.join("netns/pod")
    }

    /// An agent that knows the pod.
    pub(crate) fn with_agent(self) -> Self {
        let listener = UnixListener::bind(self.dir.join("run/agent.sock")).unwrap();
        let pod = json!({"metadata": {"name": "cart", "namespace": "shop", "uid": "u1", "annotations": self.annotations},
            "spec": {"securityContext": {}, "containers": [{"name": "app"}, {"name": "istio-proxy", "args": ["proxy", "sidecar"]}]}});
        let answer = json!({"version": 1, "response": "found", "pod": pod}).to_string() + "\n";
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                BufReader::new(&stream).read_line(&mut String::new()).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        self
    }

    /// The root is read-only, and where tools were is nothing.
    pub(crate) fn without_tools(self) -> Self {
        for path in TOOLS.map(Path::new).into_iter().filter(|path| path.is_dir()) {
            mounts::tmpfs(path);
        }
        mounts::make_read_only("/");
        self
    }

    /// Its own files, the run directory among them, are read-only.
    pub(crate) fn with_read_only_files(self) -> Self {
        std::fs::write(self.dir.join("stdin"), self.conf.to_string()).unwrap();
        mounts::make_read_only(&self.dir);
        self
    }

    /// Programs that are started have none of these capabilities.
    pub(crate) fn without(self, capabilities: CapabilitySet) -> Self {
        for capability in capabilities {
            remove_capability_from_bounding_set(capability).unwrap();
        }
        self
    }

    /// Sets a variable of the plugin's environment.
    pub(crate) fn set(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    /// A file in the run directory.
    pub(crate) fn run_file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.join("run").join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Nobody may open this any more, except who may everything.
    pub(crate) fn lock(&self, path: &str) {
        std::fs::set_permissions(self.dir.join(path), Permissions::from_mode(0o0)).unwrap();
    }

    /// An ADD of the pod.
    pub(crate) fn add(&self) -> Answer {
        let stdin = self.dir.join("stdin");
        // Where files are read-only, it was written before.
        let _ = std::fs::write(&stdin, self.conf.to_string());
        let output = Command::new(env!("CARGO_BIN_EXE_istio-cni"))
            .env_clear()
            .env("CNI_COMMAND", "ADD")
            .env("CNI_CONTAINERID", "c1")
            .env("CNI_NETNS", self.netns())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/opt/cni/bin")
            .env("CNI_ARGS", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart;K8S_POD_UID=u1")
            .envs(self.env.iter().cloned())
            .stdin(std::fs::File::open(stdin).unwrap())
            .output()
            .unwrap();
        Answer {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            log: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// True if the pod has rules.
    pub(crate) fn is_redirected(&self) -> bool {
        self.inside(|| has_rules_of_ours(&read().unwrap()))
    }

    /// Does something in the pod's network namespace.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        Netns::open(self.netns()).unwrap().enter(work).unwrap()
    }
}

impl Answer {
    /// It is a success.
    pub(crate) fn succeeds(&self) {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.log);
    }

    /// It is a failure with this code, and the runtime is told all of that.
    pub(crate) fn fails_with(&self, code: u64, said: &[&str]) {
        assert_eq!(self.code, Some(1), "{}{}", self.stdout, self.log);
        let error: Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(error["code"], code, "{error}");
        for part in said {
            let texts = [&error["msg"], &error["details"]].map(|text| text.as_str().unwrap_or_default());
            assert!(texts.concat().contains(part), "{part}: {error}");
        }
    }
}
