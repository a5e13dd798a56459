// SPDX-License-Identifier: Apache-2.0
//! The newest known node, of two sources: the watch, and responses to the agent's own requests. Pure: the time is an argument.
//!
//! A response is newer than a watch that has reported nothing since its request. Once the watch reports something, the larger
//! `resourceVersion` is newer; where versions cannot be compared, the report is.

use std::time::Duration;

use super::model::Node;

/// Lag of a watch behind a response. A report of an older version after that is from an etcd that was restored.
const LAG: Duration = Duration::from_secs(10);

/// Last report of the watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// `None` before the first report, and where the node does not exist.
    pub(super) node: Option<Node>,
    /// Number of reports so far.
    pub(super) number: u64,
}

impl Report {
    /// Records the next report.
    pub(super) fn report(&mut self, node: Option<Node>) {
        *self = Self { node, number: self.number + 1 };
    }
}

/// Response to the agent's last request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Response(Option<Held>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    node: Node,
    /// When it was received.
    at: Duration,
    /// Number of the last report that the request was decided on.
    asked_after: u64,
}

impl Response {
    /// Holds a response that was received at `at`, to a request that was decided on the report `asked_after`.
    pub(super) fn hold(&mut self, node: Node, asked_after: u64, at: Duration) {
        self.0 = Some(Held { node, at, asked_after });
    }

    /// The newest node. A response that is not the newest is dropped for good.
    pub(super) fn newest(&mut self, report: &Report, now: Duration) -> Option<Node> {
        self.0 = self.0.take().filter(|held| held.is_newer_than(report, now));
        self.0.as_ref().map(|held| &held.node).or(report.node.as_ref()).cloned()
    }

    /// When the response stops being the newest although the watch reports nothing more.
    pub(super) fn until(&self, report: &Report) -> Option<Duration> {
        self.0.as_ref().filter(|held| held.asked_after != report.number).map(|held| held.at + LAG)
    }
}

impl Held {
    fn is_newer_than(&self, report: &Report, now: Duration) -> bool {
        if self.asked_after == report.number {
            return true;
        }
        let reported = report.node.as_ref().and_then(|node| node.version);
        let is_larger =
            reported.zip(self.node.version).is_some_and(|(reported, answered)| reported < answered);
        is_larger && now < self.at + LAG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(100);

    fn node(version: Option<u64>) -> Node {
        Node { version, ..Node::default() }
    }

    /// True if a response of `version` is newer than the report that `reports` reports later has `reported`.
    fn is_newest(version: Option<u64>, reports: u64, reported: Option<Option<u64>>, after: Duration) -> bool {
        let mut response = Response::default();
        response.hold(Node { name: "response".to_owned(), ..node(version) }, 3, AT);
        let report = Report { node: reported.map(node), number: 3 + reports };
        response.newest(&report, AT + after).is_some_and(|node| node.name == "response")
    }

    #[test]
    fn a_response_is_the_newest_until_the_watch_reports_something_that_is_not_older() {
        let (soon, late) = (Duration::from_secs(1), LAG);
        for (version, reports, reported, after, want) in [
            // No report since the request.
            (Some(7), 0, Some(Some(6)), soon, true),
            (Some(7), 0, Some(Some(6)), late, true),
            (None, 0, Some(None), late, true),
            (Some(7), 0, None, soon, true),
            // A report of an earlier version, which a slow watch brings.
            (Some(7), 1, Some(Some(6)), soon, true),
            (Some(7), 9, Some(Some(6)), soon, true),
            // A restored etcd.
            (Some(7), 1, Some(Some(6)), late, false),
            // The agent's own change, and changes after it.
            (Some(7), 1, Some(Some(7)), soon, false),
            (Some(7), 1, Some(Some(8)), soon, false),
            // Versions that cannot be compared.
            (None, 1, Some(Some(8)), soon, false),
            (Some(7), 1, Some(None), soon, false),
            (None, 1, Some(None), soon, false),
            // The node is gone.
            (Some(7), 1, None, soon, false),
        ] {
            let case = format!("{version:?} {reports} {reported:?} {after:?}");
            assert_eq!(is_newest(version, reports, reported, after), want, "{case}");
        }
    }

    #[test]
    fn a_response_that_was_dropped_does_not_come_back() {
        let mut response = Response::default();
        response.hold(node(Some(7)), 1, AT);
        let report = |version, number| Report { node: Some(node(Some(version))), number };
        assert_eq!(response.newest(&report(6, 1), AT), Some(node(Some(7))));
        assert_eq!(response.until(&report(6, 1)), None);
        assert_eq!(response.until(&report(6, 2)), Some(AT + LAG));
        assert_eq!(response.newest(&report(8, 2), AT), Some(node(Some(8))));
        assert_eq!(response.newest(&report(6, 3), AT), Some(node(Some(6))));
        assert_eq!(response.until(&report(6, 3)), None);
    }

    #[test]
    fn reports_are_numbered() {
        let mut report = Report::default();
        report.report(Some(node(Some(1))));
        report.report(None);
        assert_eq!(report, Report { node: None, number: 2 });
    }
}
