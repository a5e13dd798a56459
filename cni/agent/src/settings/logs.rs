// SPDX-License-Identifier: Apache-2.0
//! Logging.

use manifests::table;

use super::build::Reader;
use super::kind;
use crate::log::{Format, Levels};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// `--log_output_level`
    pub levels: Levels,
    /// `--log_as_json`
    pub format: Format,
}

impl Reader<'_> {
    pub(super) fn logs(&mut self) -> LogSettings {
        LogSettings {
            levels: self.read(&table::LOG_OUTPUT_LEVEL, kind::levels, Levels::default()),
            format: if self.boolean(&table::LOG_AS_JSON) { Format::Json } else { Format::Text },
        }
    }
}
