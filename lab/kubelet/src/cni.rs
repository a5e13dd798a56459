// SPDX-License-Identifier: Apache-2.0
//! The container runtime's side of CNI: which configuration is used, how its plugins are called, what is remembered.
//!
//! | module | noun |
//! |---|---|
//! | [`conflist`] | the configuration directory, and what each plugin of a list is given |
//! | [`loaded`] | the configuration that the runtime has read |
//! | [`watch`] | changes of directories |
//! | [`call`] | one call of one plugin |
//! | [`chain`] | a whole list, as a runtime calls it |
//! | [`cache`] | results of earlier calls |
//! | [`result`] | addresses in the result of an ADD |
//! | [`logged`] | failures that runtimes only log |
//! | [`multus`] | a plugin that is a runtime for others, and what it did |

mod attachment;
pub mod cache;
pub mod call;
pub mod chain;
pub mod conflist;
pub mod loaded;
pub mod logged;
pub mod multus;
pub mod result;
pub mod watch;
