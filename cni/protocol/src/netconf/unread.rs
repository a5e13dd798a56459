// SPDX-License-Identifier: Apache-2.0
//! Keys whose values the plugin does not use. Their types are checked all the same, as Go's decoder does.

use crate::json::{Fields, JsonError, boolean, string};
use crate::result::decode;

/// Keys of the CNI specification.
pub(super) fn check_specified(fields: &mut Fields) -> Result<(), JsonError> {
    fields.string("type")?;
    for value in fields.object("capabilities")?.unwrap_or_default().rest().into_values() {
        boolean("capabilities", value)?;
    }
    fields.object("ipam")?.unwrap_or_default().string("type")?;
    decode::dns(fields)?;
    fields.objects("cni.dev/valid-attachments", |mut attachment| {
        attachment.string("containerID")?;
        attachment.string("ifname")
    })?;
    Ok(())
}

/// `enablement_selectors`: which pods are ambient. Only that mode uses them.
pub(super) fn check_selectors(fields: &mut Fields) -> Result<(), JsonError> {
    fields.objects("enablement_selectors", |mut selector| {
        labels(selector.object("podSelector")?.unwrap_or_default())?;
        labels(selector.object("namespaceSelector")?.unwrap_or_default())
    })?;
    Ok(())
}

fn labels(mut fields: Fields) -> Result<(), JsonError> {
    for value in fields.object("matchLabels")?.unwrap_or_default().rest().into_values() {
        string("matchLabels", value)?;
    }
    fields.objects("matchExpressions", |mut requirement| {
        requirement.string("key")?;
        requirement.string("operator")?;
        requirement.strings("values")
    })?;
    Ok(())
}
