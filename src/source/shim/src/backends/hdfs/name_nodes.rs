// SPDX-License-Identifier: Apache-2.0
//! The name nodes of HDFS. OpenDAL takes their addresses but no service name for several nodes. So
//! the addresses are read here, from the files of Hadoop's own client.
use std::collections::HashMap;
use std::path::PathBuf;

/// Returns host and port of each. `endpoint`: "hdfs://HOST:PORT", several of them separated by
/// commas, or "hdfs://NAMESERVICE".
pub fn of(endpoint: &str) -> Result<Vec<String>, String> {
    let service = endpoint.strip_prefix("hdfs://").unwrap_or(endpoint);
    let service = service.trim_end_matches('/');
    let found = match service.contains([':', ',']) {
        true => None,
        false => name_nodes(service, &configuration()?),
    };
    Ok(found.unwrap_or_else(|| service.split(',').map(str::to_string).collect()))
}

fn name_nodes(service: &str, configuration: &HashMap<String, String>) -> Option<Vec<String>> {
    let names = configuration.get(&format!("dfs.ha.namenodes.{service}"))?;
    let address = |name: &str| {
        let key = format!("dfs.namenode.rpc-address.{service}.{}", name.trim());
        configuration.get(&key).cloned()
    };
    let found: Vec<String> = names.split(',').filter_map(address).collect();
    (!found.is_empty()).then_some(found)
}

/// The settings of hdfs-site.xml in the directory that the environment names; empty if there is
/// none.
fn configuration() -> Result<HashMap<String, String>, String> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let folder = named("HADOOP_CONF_DIR")
        .map(PathBuf::from)
        .or_else(|| named("HADOOP_HOME").map(|home| PathBuf::from(home).join("etc/hadoop")));
    let Some(file) = folder.map(|folder| folder.join("hdfs-site.xml")) else {
        return Ok(HashMap::new());
    };
    let Ok(text) = std::fs::read_to_string(&file) else {
        return Ok(HashMap::new());
    };
    let document = roxmltree::Document::parse(&text)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let properties = document
        .descendants()
        .filter(|node| node.has_tag_name("property"));
    let text_of = |property: roxmltree::Node<'_, '_>, tag: &str| {
        let child = property.children().find(|node| node.has_tag_name(tag))?;
        Some(child.text()?.trim().to_string())
    };
    let pairs = properties
        .filter_map(|property| Some((text_of(property, "name")?, text_of(property, "value")?)));
    Ok(pairs.collect())
}
