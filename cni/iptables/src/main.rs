// SPDX-License-Identifier: Apache-2.0
//! `istio-iptables`.

fn main() {}
