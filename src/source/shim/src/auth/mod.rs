// SPDX-License-Identifier: Apache-2.0
//! Layer 4, authentication: credentials, roles and signatures. Uses `attempt` and below.
pub mod credential_process;
pub mod credentials;
pub mod env_file;
pub mod role;
pub mod sign;
