// SPDX-License-Identifier: Apache-2.0
//! stub
use crate::exit::Exit;
use crate::world::World;
use std::ffi::OsString;
/// stub
pub fn run(_world: &mut World<'_>, _arguments: impl IntoIterator<Item = OsString>) -> Exit {
    Exit::Usage
}
