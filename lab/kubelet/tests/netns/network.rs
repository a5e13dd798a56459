// SPDX-License-Identifier: Apache-2.0
//! The network between nodes, and addresses of services.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use cluster::condition::TRANSLATED;
use cluster::{Answer, Cluster as _, Configuration, Installed, Machines as _, Transport};
use kubelet::netns;
use kubelet::options::{SERVICE, SERVICE_V6};
use serde_json::json;

use crate::lab::{Lab, SOON, one, to};

const NODES: [&str; 2] = ["node-1", "node-2"];

/// True if somebody answers there. Nobody there may have the address.
async fn reaches(namespace: &Path, service: SocketAddr) -> bool {
    let ask = move || {
        let own = TcpListener::bind(SocketAddr::new(service.ip(), 0));
        assert_eq!(own.unwrap_err().kind(), ErrorKind::AddrNotAvailable, "{service} is an own address");
        TcpStream::connect_timeout(&service, SOON).is_ok()
    };
    netns::inside(namespace, ask).await.unwrap()
}

pub(crate) async fn the_api_server_has_a_service_whose_address_nobody_has() {
    let lab = Lab::with(&NODES, |options| options.node.installed = Installed::ByAgent).await;
    let pod = lab.running("client", one("pause")).await.netns().unwrap();
    let nodes = NODES.map(|node| lab.directory.join(node).join("node.netns"));
    for address in [SERVICE.0, SERVICE_V6] {
        let service = SocketAddr::new(address.parse().unwrap(), SERVICE.1);
        for namespace in nodes.iter().map(AsRef::as_ref).chain([Path::new(&pod)]) {
            assert!(reaches(namespace, service).await, "{service} from {}", namespace.display());
        }
    }
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_node_translates_again_after_a_boot_that_took_what_it_translated() {
    let lab = Lab::with(&NODES, |options| options.node.installed = Installed::ByAgent).await;
    let node = lab.directory.join("node-1/node.netns");
    lab.cluster.reboot("node-1", Configuration::Stays).await.unwrap();
    for address in [SERVICE.0, SERVICE_V6] {
        let service = SocketAddr::new(address.parse().unwrap(), SERVICE.1);
        let back = async { while !reaches(&node, service).await {} };
        tokio::time::timeout(SOON, back).await.unwrap();
    }
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_service_leads_to_a_pod_of_another_node() {
    let lab = Lab::with_nodes(&NODES).await;
    let mut server = one("app --listen tcp:8080");
    server["nodeName"] = json!("node-2");
    let metadata = json!({ "name": "server", "namespace": "default", "labels": { "app": "server" } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": server });
    lab.cluster.apply(pod).await.unwrap();
    let mut client = one("pause");
    client["nodeName"] = json!("node-1");
    let client = lab.running("client", client).await;
    let service: IpAddr = "10.96.0.7".parse().unwrap();
    let spec = json!({ "clusterIP": service, "selector": { "app": "server" }, "ports": [{ "port": 80, "targetPort": 8080 }] });
    let metadata = json!({ "name": "server", "namespace": "default" });
    let object = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec });
    lab.cluster.apply(object).await.unwrap();
    let translated = lab.cluster.api().unwrap().until(|api| {
        let kind = apiserver::kinds::Kind::find("", "v1", "services")?;
        let key = apiserver::store::Key { kind, namespace: "default".into(), name: "server".into() };
        let conditions = api.object(&key)?["status"]["conditions"].clone();
        conditions.as_array()?.iter().any(|one| one["type"] == TRANSLATED).then_some(())
    });
    tokio::time::timeout(SOON, translated).await.unwrap();
    let answer = client.send(&to(Transport::Tcp, service, 80)).await.unwrap();
    let Answer::App { port, peer, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(port, 8080);
    assert!(client.addresses().contains(&peer.parse::<SocketAddr>().unwrap().ip()), "seen as {peer}");
    lab.cluster.stop().await.unwrap();
}
