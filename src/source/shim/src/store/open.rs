// SPDX-License-Identifier: Apache-2.0
//! Store: one opened store. Its operations are in the other files of this layer.
use std::collections::HashMap;
use std::sync::Arc;

use opendal::{Executor, OperationContext, Operator};

use crate::attempt::executor::ExchangeExecutor;
use crate::attempt::transport::http_transport;
use crate::auth::sign::Signer;
use crate::backends::build::build;
use crate::backends::credential_files::{caches_credentials, files_of};
use crate::backends::namespace::Namespace;
use crate::backends::options::Options;
use crate::backends::parts::{StoreParts, WriteMode};
use crate::core::kinds::{Dialect, ListStyle, VersionKind};
use crate::core::swap_cell::SwapCell;
use crate::net::stock_client;
use crate::store::list::Listings;
use crate::store::reload::Reload;
use crate::store::template::Template;

pub struct Store {
    pub operator: SwapCell<Operator>,
    /// For reads; leaves signing to `signer` where there is one.
    pub reader: SwapCell<Operator>,
    pub signer: SwapCell<Option<Arc<Signer>>>,
    pub template: SwapCell<Option<Arc<Template>>>,
    pub reload: Reload<StoreParts>,
    /// The transport fills the targets of reads.
    pub over_http: bool,
    pub dialect: Dialect,
    pub writes: WriteMode,
    pub lists_from_any_key: bool,
    pub real_directories: bool,
    /// Reads beyond the end fail with an unspecific error.
    pub has_sizes_only: bool,
    pub listings: Listings,
    /// For stores that OpenDAL only reads, or does not support.
    pub namespace: Option<Arc<dyn Namespace>>,
}

impl Store {
    pub fn open(options: &HashMap<String, String>) -> Result<Self, String> {
        let parts = build(options)?;
        let page_entries = match options.get("page_entries") {
            None => 1000,
            Some(value) => value
                .parse()
                .map_err(|_| format!("page_entries={value} is not a number"))?,
        };
        let template = template_of(&parts);
        let operator = SwapCell::new(with_our_transport(parts.operator));
        let again = options.clone();
        let named = Options(options);
        let reload = Reload::new(files_of(&named), caches_credentials(&named), move || {
            build(&again)
        });
        let style = parts.style;
        Ok(Self {
            listings: Listings::new(
                operator.clone(),
                style,
                parts.dialect,
                page_entries,
                parts.namespace.clone(),
            ),
            namespace: parts.namespace,
            operator,
            reader: SwapCell::new(with_our_transport(parts.reader)),
            template: SwapCell::new(template),
            signer: SwapCell::new(parts.signer),
            reload,
            over_http: parts.over_http,
            dialect: parts.dialect,
            writes: parts.writes,
            has_sizes_only: style == ListStyle::Directories,
            lists_from_any_key: style == ListStyle::StartAfter,
            real_directories: matches!(style, ListStyle::Directories | ListStyle::Index),
        })
    }

    /// The kind of version that reads can demand.
    pub fn conditional_read(&self) -> VersionKind {
        let capability = self.operator.load().info().capability();
        match self.dialect.version {
            VersionKind::Etag if capability.read_with_if_match => VersionKind::Etag,
            VersionKind::Generation if capability.read_with_if_version_match => {
                VersionKind::Generation
            }
            _ => VersionKind::None,
        }
    }

    pub fn version_kind(&self) -> VersionKind {
        self.dialect.version
    }

    pub fn lists_from_any_key(&self) -> bool {
        self.lists_from_any_key
    }

    pub fn has_real_directories(&self) -> bool {
        self.real_directories
    }

    /// Uses `parts` from now on; requests in flight keep those that they have.
    pub fn reopen(&self, parts: StoreParts) {
        self.template.store(template_of(&parts));
        self.operator.store(with_our_transport(parts.operator));
        self.reader.store(with_our_transport(parts.reader));
        self.signer.store(parts.signer);
        self.reload.opened();
    }
}

fn template_of(parts: &StoreParts) -> Option<Arc<Template>> {
    let is_uniform = parts.uniform_reads && !stock_client::is_forced();
    is_uniform
        .then(|| Template::of(&parts.reader))
        .flatten()
        .map(Arc::new)
}

fn with_our_transport(operator: Operator) -> Operator {
    let context = OperationContext::new()
        .with_http_transport(http_transport())
        .with_executor(Executor::with(ExchangeExecutor));
    operator.with_context(context)
}
