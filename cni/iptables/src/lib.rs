// SPDX-License-Identifier: Apache-2.0
//! Redirection from the command line: init container, validation, clean-up, and a tool that explains.
