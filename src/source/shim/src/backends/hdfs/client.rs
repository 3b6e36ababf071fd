// SPDX-License-Identifier: Apache-2.0
//! Changes of HDFS by its own client: OpenDAL's rename removes the old file before the new one
//! exists, and its removal deletes whole directories.
use std::collections::HashMap;
use std::sync::Arc;

use hdfs_native::client::WriteOptions;
use hdfs_native::file::FileWriter;
use hdfs_native::{Client, ClientBuilder, HdfsError};

use crate::attempt::hdfs_errors::explain_hdfs;
use crate::core::entry::check_kind;
use crate::core::failure::Failure;

/// Common name of several name nodes.
const SERVICE: &str = "leat";
/// Mode of directories that are created implicitly.
const DIRECTORY_MODE: u32 = 0o755;

pub struct HdfsClient {
    client: Client,
}

impl HdfsClient {
    /// `nodes`: host and port of each name node.
    pub fn open(nodes: &[String]) -> Result<Arc<Self>, String> {
        let built = match nodes {
            [node] => ClientBuilder::new().with_url(format!("hdfs://{node}")),
            _ => ClientBuilder::new()
                .with_url(format!("hdfs://{SERVICE}"))
                .with_config(configuration(nodes)),
        };
        let client = built.build().map_err(|error| error.to_string())?;
        Ok(Arc::new(Self { client }))
    }

    pub async fn create(&self, key: &str) -> Result<FileWriter, Failure> {
        let options = WriteOptions::default();
        self.client
            .create(&path_of(key), options)
            .await
            .map_err(explain_hdfs)
    }

    pub async fn create_directory(&self, key: &str) -> Result<(), Failure> {
        let made = self
            .client
            .mkdirs(&path_of(key), DIRECTORY_MODE, true)
            .await;
        made.map_err(explain_hdfs)
    }

    /// Renames atomically; `replace` is for files only.
    pub async fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), Failure> {
        if let Some((parent, _)) = to.trim_end_matches('/').rsplit_once('/') {
            self.create_directory(parent).await?;
        }
        self.client
            .rename(&path_of(from), &path_of(to), replace)
            .await
            .map_err(explain_hdfs)
    }

    /// Removes a file or an empty directory. A missing one is no failure.
    pub async fn remove(&self, key: &str) -> Result<(), Failure> {
        let path = path_of(key);
        match self.client.get_file_info(&path).await {
            Err(HdfsError::FileNotFound(_)) => return Ok(()),
            found => check_kind(key, found.map_err(explain_hdfs)?.isdir)?,
        }
        self.client
            .delete(&path, false)
            .await
            .map_err(explain_hdfs)?;
        Ok(())
    }
}

/// The settings as in hdfs-site.xml.
fn configuration(nodes: &[String]) -> HashMap<String, String> {
    let name = |index: usize| format!("nn{index}");
    let addresses = nodes.iter().enumerate().map(|(index, node)| {
        let key = format!("dfs.namenode.rpc-address.{SERVICE}.{}", name(index));
        (key, node.clone())
    });
    let names: Vec<String> = (0..nodes.len()).map(name).collect();
    let list = (format!("dfs.ha.namenodes.{SERVICE}"), names.join(","));
    addresses.chain([list]).collect()
}

fn path_of(key: &str) -> String {
    format!("/{}", key.trim_end_matches('/'))
}
