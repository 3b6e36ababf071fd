// SPDX-License-Identifier: Apache-2.0
//! Condition: what must be true of an object when a write replaces it.
use crate::core::failure::{Code, Failure};

/// The condition of a write.
#[derive(Clone)]
pub enum Condition {
    None,
    Absent,
    Version(String),
}

impl Condition {
    /// Some stores report both conditions as failed preconditions, some as an existing object.
    pub fn explain(&self, failure: Failure) -> Failure {
        let code = match (self, failure.code) {
            (Condition::Absent, Code::Changed) => Code::Exists,
            (Condition::Version(_), Code::Exists | Code::NotFound) => Code::Changed,
            _ => return failure,
        };
        Failure { code, ..failure }
    }
}
