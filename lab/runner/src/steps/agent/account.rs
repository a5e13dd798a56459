// SPDX-License-Identifier: Apache-2.0
//! The credentials of the agent's account, replaced beneath it: its token, and the authorities that it trusts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{Issuer, KUBECONFIG};
use cucumber::{given, then, when};
use serde_json::Value;

use super::agent;
use crate::steps::files::files;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

/// Files of an account's volume.
const TOKEN: &str = "token";
const AUTHORITIES: &str = "ca.crt";

/// Until a real kubelet has brought what is new to a running pod: it looks about once a minute.
const BROUGHT: Duration = Duration::from_secs(60);

/// The second authority, made when a step speaks of it first.
async fn successor(world: &mut LabWorld) -> Result<Arc<dyn Issuer>, Stop> {
    if let Some(made) = &world.agent.successor {
        return Ok(Arc::clone(made));
    }
    let made = world.cluster().await?.issuer()?.successor()?;
    world.agent.successor = Some(Arc::clone(&made));
    Ok(made)
}

/// Publishes authorities, and waits until the agent's pod has them.
#[when(regex = "^pods are told to trust (both authorities|the second authority alone)$")]
async fn told(world: &mut LabWorld, whom: String) -> Step {
    let authorities = trusted(world, &whom).await?;
    let tier = world.cluster().await?;
    tier.machines()?.trust(&authorities).await?;
    if tier.kubelet().is_ok() {
        return Ok(());
    }
    brought(world, AUTHORITIES, |now| now == authorities).await
}

/// Expires early; the kubelet has not renewed it.
#[when("the node agent's token expires")]
async fn expires(world: &mut LabWorld) -> Step {
    let pod = agent(world).await?;
    Ok(world.cluster().await?.kubelet()?.expire_token(&pod).await?)
}

/// All watches end, and tokens that were issued before are refused. Kubelets renew theirs when most of their time is over.
#[when("the API server restarts with other signing keys")]
async fn rotated(world: &mut LabWorld) -> Step {
    world.cluster().await?.server()?.rotate_keys();
    Ok(())
}

/// Mounts a new token. With the lab's kubelet the old one is dead; a real one has forgotten it by a restart, and asks for another.
#[when("the kubelet renews the node agent's token")]
async fn renewed(world: &mut LabWorld) -> Step {
    let pod = agent(world).await?;
    let tier = world.cluster().await?;
    if let Ok(kubelet) = tier.kubelet() {
        return Ok(kubelet.renew_token(&pod).await?);
    }
    let machines = tier.machines()?;
    let former = token(world).await?;
    machines.restart_kubelet(tier.node()?.name()).await?;
    brought(world, TOKEN, |now| now != former).await
}

/// Waits until a real kubelet has replaced a file of the agent's account.
async fn brought(world: &mut LabWorld, file: &str, is_new: impl Fn(&str) -> bool) -> Step {
    let (node, path) = (files(world).await?, mounted(world, file).await?);
    let look = async || {
        expect(is_new(&node.text(&path).await?), || {
            format!("the kubelet has brought the agent's pod no other {file}")
        })
    };
    node.until(BROUGHT, &[&path], look).await.map_err(of_kubelet)
}

/// A kubelet's failure is inconclusive: it is not under test.
fn of_kubelet(stop: Stop) -> Stop {
    match stop {
        Stop::Wrong(why) => Stop::Harness(why),
        other => other,
    }
}

/// Path of a file of the agent's account on a real node.
async fn mounted(world: &mut LabWorld, file: &str) -> Result<PathBuf, Stop> {
    let name = agent(world).await?;
    let pod = world.cluster().await?.pod(&name).await?.unwrap_or_default();
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let mut names = volumes.filter_map(|volume| volume["name"].as_str());
    let volume = names.find(|name| name.starts_with("kube-api-access-"));
    let volume = volume.ok_or_else(|| Stop::harness("the agent's pod has no volume of its account"))?;
    Ok(format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~projected/{volume}/{file}").into())
}

/// The token that the agent finds.
async fn token(world: &mut LabWorld) -> Result<String, Stop> {
    let pod = agent(world).await?;
    match world.cluster().await?.kubelet() {
        Ok(kubelet) => Ok(kubelet.token(&pod).await?),
        Err(_) => {
            let path = mounted(world, TOKEN).await?;
            files(world).await?.text(&path).await.map_err(of_kubelet)
        }
    }
}

/// Authorities by their name in steps, as PEM.
async fn trusted(world: &mut LabWorld, whom: &str) -> Result<String, Stop> {
    let second = successor(world).await?.ca();
    match whom {
        "both authorities" => Ok(format!("{}{second}", world.cluster().await?.issuer()?.ca())),
        _ => Ok(second),
    }
}

/// Connections of before are closed, as by a server that is restarted.
#[when("the API server's certificate is one of the second authority")]
async fn certified(world: &mut LabWorld) -> Step {
    let successor = successor(world).await?;
    Ok(world.cluster().await?.front()?.certify(&*successor, None).await?)
}

/// The server shows the intermediate authority's certificate, too; its authority is the cluster's, whose keys are RSA as its own.
#[given("the API server's certificate is one of an intermediate authority")]
async fn below(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    let intermediate = tier.issuer()?.intermediate()?;
    Ok(tier.front()?.certify(&*intermediate, None).await?)
}

/// A certificate of a machine whose clock is that much ahead, made just now.
#[when(regex = r"^the API server has a certificate of a clock that is (\d+) s ahead$")]
async fn ahead(world: &mut LabWorld, seconds: u64) -> Step {
    let tier = world.cluster().await?;
    let made = SystemTime::now() + Duration::from_secs(seconds);
    Ok(tier.front()?.certify(tier.issuer()?, Some(made)).await?)
}

/// The plugin's kubeconfig has them and no others.
#[then(regex = r"^the kubeconfig trusts (both authorities|the second authority alone) within (\d+) ms$")]
async fn trusts(world: &mut LabWorld, whom: String, millis: u64) -> Step {
    let authorities = STANDARD.encode(trusted(world, &whom).await?);
    kubeconfig(world, "/clusters/0/cluster/certificate-authority-data", &authorities, millis).await
}

/// The plugin's kubeconfig has the current token.
#[then(regex = r"^the kubeconfig holds the node agent's token within (\d+) ms$")]
async fn holds(world: &mut LabWorld, millis: u64) -> Step {
    let token = token(world).await?;
    kubeconfig(world, "/users/0/user/token", &token, millis).await
}

/// One cluster, one user and one context, and the server's certificate is verified.
fn trusts_nobody_else(kubeconfig: &Value) -> Step {
    for list in ["clusters", "users", "contexts"] {
        let count = kubeconfig[list].as_array().map_or(0, Vec::len);
        expect(count == 1, || format!("the kubeconfig has {count} {list}, not 1"))?;
    }
    let insecure = &kubeconfig["clusters"][0]["cluster"]["insecure-skip-tls-verify"];
    expect(insecure.is_null() || *insecure == false, || {
        format!("the kubeconfig has insecure-skip-tls-verify: {insecure}")
    })
}

/// Waits for a value of the plugin's kubeconfig, at this pointer.
async fn kubeconfig(world: &mut LabWorld, place: &str, wanted: &str, millis: u64) -> Step {
    let node = files(world).await?;
    let path = node.paths.run_dir.join(KUBECONFIG);
    node.until(Duration::from_millis(millis), &[&path], async || {
        let text = node.text(&path).await?;
        let all: Value = serde_saphyr::from_str(&text).map_err(|error| Stop::wrong(error.to_string()))?;
        trusts_nobody_else(&all)?;
        let entry = node.hand.look(&path).await?.ok_or_else(|| Stop::wrong("there is no kubeconfig"))?;
        expect_eq("mode and owner of the kubeconfig", &(entry.mode, entry.owner), &(0o600, (0, 0)))?;
        match all.pointer(place).and_then(Value::as_str) {
            Some(found) if found == wanted => Ok(()),
            Some(_) => Err(Stop::wrong(format!("{place} of the kubeconfig is another one"))),
            None => Err(Stop::wrong(format!("{place} of the kubeconfig is missing"))),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kubeconfig_that_trusts_anybody_else_is_wrong() {
        let one = |cluster: Value| {
            let (users, contexts) = (json!([{ "name": "u" }]), json!([{ "name": "c" }]));
            json!({ "clusters": [{ "cluster": cluster }], "users": users, "contexts": contexts })
        };
        let trusted = json!({ "certificate-authority-data": "Q0E=" });
        assert!(trusts_nobody_else(&one(trusted.clone())).is_ok());
        let insecure = json!({ "certificate-authority-data": "Q0E=", "insecure-skip-tls-verify": true });
        assert!(trusts_nobody_else(&one(insecure)).is_err());
        for list in ["clusters", "users", "contexts"] {
            let mut two = one(trusted.clone());
            two[list] = json!([two[list][0], two[list][0]]);
            assert!(trusts_nobody_else(&two).is_err(), "{list}");
        }
    }
}
