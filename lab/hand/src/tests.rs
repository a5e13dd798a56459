// SPDX-License-Identifier: Apache-2.0
//! The near side against a scripted far side.

use std::path::Path;

use cluster::hand::{Bytes, Change, Event};
use tokio::io::DuplexStream;

use super::*;

async fn next(lines: &mut Lines<BufReader<tokio::io::ReadHalf<DuplexStream>>>) -> Order {
    serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap()
}

async fn say(to: &mut (impl AsyncWrite + Unpin), id: u64, result: Result<Answer, Refusal>) {
    let text = serde_json::to_string(&Done { id, result }).unwrap() + "\n";
    to.write_all(text.as_bytes()).await.unwrap();
}

async fn connected<F: Future<Output = ()> + Send + 'static>(far: impl FnOnce(DuplexStream) -> F) -> Client {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let (from, to) = tokio::io::split(ours);
    theirs.write_all(b"ready hand\n").await.unwrap();
    tokio::spawn(far(theirs));
    Client::over("node-1", from, to, ()).await.unwrap()
}

#[tokio::test]
async fn an_answer_reaches_who_asked_whatever_the_order() {
    let hand = connected(async |theirs| {
        let (from, mut to) = tokio::io::split(theirs);
        let mut lines = BufReader::new(from).lines();
        let orders = [next(&mut lines).await, next(&mut lines).await];
        for order in orders.iter().rev() {
            let Work::Read { path } = &order.work else { panic!("{order:?}") };
            let content = Bytes(path.display().to_string().into_bytes());
            say(&mut to, order.id, Ok(Answer::Content(content))).await;
        }
    })
    .await;
    let (one, two) = tokio::join!(hand.read(Path::new("/one")), hand.read(Path::new("/two")));
    assert_eq!((one.unwrap(), two.unwrap()), (b"/one".to_vec(), b"/two".to_vec()));
    let gone = hand.read(Path::new("/three")).await.unwrap_err().to_string();
    assert_eq!(gone, "failed to use the hand on node node-1: it is gone");
}

#[tokio::test]
async fn a_refusal_names_the_path() {
    let hand = connected(async |theirs| {
        let (from, mut to) = tokio::io::split(theirs);
        let order = next(&mut BufReader::new(from).lines()).await;
        assert_eq!(order.work, Work::Read { path: "/etc/x".into() });
        let refusal = Refusal { errno: Some(2), why: "No such file or directory".to_owned() };
        say(&mut to, order.id, Err(refusal)).await;
    })
    .await;
    let error = hand.read(Path::new("/etc/x")).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read /etc/x: No such file or directory");
    assert!(error.is_absence());
}

#[tokio::test]
async fn a_path_that_leads_out_of_the_node_does_not_leave() {
    let hand = connected(async |theirs| drop(theirs)).await;
    let error = hand.read(Path::new("/etc/../../secret")).await.unwrap_err();
    assert!(matches!(error, HandError::Lab(LabError::Harness { .. })), "{error:?}");
    assert!(error.to_string().contains("`..` is in the path"), "{error}");
}

#[tokio::test]
async fn who_follows_hears_until_it_stops() {
    let hand = connected(async |theirs| {
        let (from, mut to) = tokio::io::split(theirs);
        let mut lines = BufReader::new(from).lines();
        let order = next(&mut lines).await;
        let change = |name: &str| {
            Answer::Change(Change { name: Some(name.to_owned()), event: Event::Came, found: None })
        };
        for answer in [Answer::Following, change("a"), change("b")] {
            say(&mut to, order.id, Ok(answer)).await;
        }
        assert_eq!(next(&mut lines).await.work, Work::Stop { order: order.id });
        say(&mut to, order.id, Ok(Answer::Done)).await;
    })
    .await;
    let mut changes = hand.watch(Path::new("/etc")).await.unwrap();
    assert_eq!(changes.next().await.unwrap().name.as_deref(), Some("a"));
    assert_eq!(changes.stop().await.unwrap().len(), 1);
}

#[tokio::test]
async fn where_nothing_may_be_changed_the_order_does_not_leave() {
    let hand = connected(async |theirs| drop(theirs)).await.that_only_looks("kubeconfig");
    let error = hand.remove(Path::new("/etc/x")).await.unwrap_err();
    assert_eq!(error.to_string(), "kubeconfig cannot remove /etc/x");
}

#[tokio::test]
async fn what_is_no_hand_is_told_apart() {
    let (mut theirs, ours) = tokio::io::duplex(64);
    theirs.write_all(b"bash: workload: not found\n").await.unwrap();
    let (from, to) = tokio::io::split(ours);
    let error = Client::over("node-1", from, to, ()).await.unwrap_err().to_string();
    assert!(error.contains("workload: not found"), "{error}");
}
