// SPDX-License-Identifier: Apache-2.0
//! Parameters of a request, once it is known who asks for what.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::access::Identity;
use crate::route::{Query, Verb};
use crate::table::Form;

/// Parameters of a request.
pub(crate) struct Call {
    pub(crate) who: Identity,
    pub(crate) verb: Verb,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) warnings: Warnings,
    pub(crate) form: Form,
}

/// Texts of `Warning` headers.
pub(crate) type Warnings = Arc<Mutex<Vec<String>>>;
