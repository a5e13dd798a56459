// SPDX-License-Identifier: Apache-2.0
//! Sidecar injection as istiod does it, for clusters that have no istiod.
