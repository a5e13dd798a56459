// SPDX-License-Identifier: Apache-2.0
//! A hint at rules of the legacy back end, which nf_tables cannot see.
