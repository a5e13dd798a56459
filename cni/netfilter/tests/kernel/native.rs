// SPDX-License-Identifier: Apache-2.0
//! To come.

use crate::Case;

pub(crate) const CASES: &[Case] = &[];
