// SPDX-License-Identifier: Apache-2.0
//! Probes for restricted machines: a workaround is configured only where its probe fails.

use std::fs;
use std::path::Path;

use crate::{cgroups, tools};

/// Score of this process, from -1000 to 1000 (proc(5)).
const SCORE: &str = "/proc/self/oom_score_adj";

/// True if a process may lower its out-of-memory score (`CAP_SYS_RESOURCE`), as a kubelet does with its own and a runtime with pods'.
#[must_use]
pub fn lowers_oom_score() -> bool {
    let Some(now) = fs::read_to_string(SCORE).ok().and_then(|text| text.trim().parse::<i32>().ok()) else {
        return false;
    };
    // At the lowest there is nothing to be refused.
    let lowered = now == -1000 || fs::write(SCORE, (now - 1).to_string()).is_ok();
    lowered && fs::write(SCORE, now.to_string()).is_ok()
}

/// True if limits of huge pages can be set: CRI-O asks for them wherever the kernel has them.
#[must_use]
pub fn limits_huge_pages() -> bool {
    cgroups::controls(Path::new(cgroups::MOUNTS), "hugetlb")
}

/// True if a port of a node can be led to a pod: CRI-O does not start without a program for it, unless it leaves that.
#[must_use]
pub fn maps_host_ports() -> bool {
    ["iptables", "nft"].into_iter().any(|program| tools::find(program).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_leaves_the_score_as_it_was() {
        let before = fs::read_to_string(SCORE).unwrap();
        let _either = lowers_oom_score();
        assert_eq!(fs::read_to_string(SCORE).unwrap(), before);
    }
}
