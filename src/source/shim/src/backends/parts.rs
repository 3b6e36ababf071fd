// SPDX-License-Identifier: Apache-2.0
//! StoreParts: what a backend makes of its options.
use std::sync::Arc;

use opendal::Operator;

use crate::auth::sign::Signer;
use crate::backends::hdfs::client::HdfsClient;
use crate::backends::namespace::Namespace;
use crate::core::kinds::{Dialect, IDENTITY, ListStyle, VersionKind};

/// How a store accepts writes.
pub enum WriteMode {
    /// Rejects all changes.
    ReadOnly,
    /// An object appears with its last byte.
    Atomic,
    /// A growing file is visible, so it is renamed to its key when it is complete.
    StagedRename,
    /// The same, by HDFS's own client.
    HdfsRename(Arc<HdfsClient>),
}

/// The parts from which a store is opened.
pub struct StoreParts {
    pub operator: Operator,
    pub reader: Operator,
    pub signer: Option<Arc<Signer>>,
    /// `reader` sends the same request for all objects, without authentication.
    pub uniform_reads: bool,
    pub over_http: bool,
    pub style: ListStyle,
    pub dialect: Dialect,
    /// For stores that OpenDAL only reads, or does not support.
    pub namespace: Option<Arc<dyn Namespace>>,
    pub writes: WriteMode,
}

impl StoreParts {
    /// A store that needs no signature, or is signed for by its service.
    pub fn new(operator: Operator, style: ListStyle, version: VersionKind) -> Self {
        Self {
            reader: operator.clone(),
            operator,
            signer: None,
            uniform_reads: false,
            over_http: true,
            style,
            namespace: None,
            dialect: Dialect {
                version,
                exact_times: false,
                turns_backslash: false,
                accepts: IDENTITY,
                whole_max: 0,
            },
            writes: WriteMode::Atomic,
        }
    }
}
