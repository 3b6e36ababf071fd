// SPDX-License-Identifier: Apache-2.0
//! Folders: stores with our own stat and listing, since OpenDAL lacks them or is not used.
use crate::attempt::explain::Failure;
use crate::backends::huggingface::hub::Hub;
use crate::backends::web::server::Web;
use crate::core::entry::Entry;
use crate::store::list::Page;

pub enum Folders {
    Web(Web),
    Hub(Hub),
}

impl Folders {
    pub async fn stat(&self, key: &str) -> Result<Entry, Failure> {
        match self {
            Self::Web(web) => web.stat(key).await,
            Self::Hub(hub) => hub.stat(key).await,
        }
    }

    /// A directory, in the order of its keys.
    pub async fn level(&self, prefix: &str) -> Result<Page, Failure> {
        match self {
            Self::Web(web) => web.level(prefix).await,
            Self::Hub(hub) => hub.level(prefix).await,
        }
    }

    /// Returns the hub if this one reads by itself.
    pub fn hub(&self) -> Option<&Hub> {
        match self {
            Self::Web(_) => None,
            Self::Hub(hub) => Some(hub),
        }
    }
}
