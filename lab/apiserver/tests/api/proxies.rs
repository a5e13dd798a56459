// SPDX-License-Identifier: Apache-2.0
//! Requests passed on to pods.

use std::sync::Arc;

use kube::client::Body;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::common::{Loopback, World, pod, soon};

/// Asks a port of pod `cart` for a path: the code, and the body.
async fn ask(world: &World, port: u16, path: &str) -> (u16, String) {
    let url = format!("/api/v1/namespaces/shop/pods/cart:{port}/proxy{path}");
    let request = http::Request::get(url).body(Body::empty()).unwrap();
    let answer = soon(world.server.client().send(request)).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn what_a_pod_answers_is_passed_on_as_it_is() {
    let world = World::new();
    world.server.set_network(Arc::new(Loopback));
    let mut cart = pod("cart");
    cart["status"] = json!({ "podIP": "127.0.0.1" });
    world.server.upsert(cart).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let length = stream.read(&mut head).await.unwrap();
        stream.write_all(b"HTTP/1.1 418 I'm a teapot\r\ncontent-length: 5\r\n\r\nno tea").await.unwrap();
        String::from_utf8(head[..length].to_vec()).unwrap()
    });
    assert_eq!(ask(&world, port, "/tea?milk=1").await, (418, "no te".to_owned()));
    assert!(soon(served).await.unwrap().starts_with("GET /tea?milk=1 HTTP/1.1"));
    let (code, why) = ask(&world, port, "/").await;
    assert_eq!(code, 503);
    assert!(why.contains("error trying to reach service: dial tcp 127.0.0.1:"), "{why}");
    assert!(why.contains("connect: connection refused\""), "{why}");
}
