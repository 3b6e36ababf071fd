// SPDX-License-Identifier: Apache-2.0
//! Files that a store depends on, and whether its service caches their content.
use std::path::PathBuf;

use crate::backends::options::Options;

/// Files that the store's options depend on.
pub fn files_of(options: &Options<'_>) -> Vec<PathBuf> {
    let given = |name: &str| Some(options.text(name).to_string()).filter(|path| !path.is_empty());
    let variable = |name: &str| std::env::var(name).ok().filter(|path| !path.is_empty());
    let mut files: Vec<String> = Vec::new();
    files.extend(given("sse_customer_key_file"));
    match options.text("scheme") {
        // `auth` reads its credentials again.
        "s3" => {}
        "gs" => match given("credentials") {
            Some(file) => files.push(file),
            None => {
                files.extend(variable("GOOGLE_APPLICATION_CREDENTIALS"));
                let folder = variable("XDG_CONFIG_HOME")
                    .or_else(|| variable("HOME").map(|home| format!("{home}/.config")));
                files.extend(
                    folder.map(|at| format!("{at}/gcloud/application_default_credentials.json")),
                );
            }
        },
        "az" | "abfs" => match given("credentials") {
            Some(file) => files.push(file),
            None => files.extend(variable("AZURE_CLIENT_CERTIFICATE_PATH")),
        },
        _ => files.extend(given("credentials")),
    }
    files.into_iter().map(PathBuf::from).collect()
}

/// Whether the store's service caches a credential that it read long ago, so that a rejection is a
/// reason to open it again.
pub fn caches_credentials(options: &Options<'_>) -> bool {
    !options.is_on("anonymous")
        && matches!(
            options.text("scheme"),
            "gs" | "az" | "abfs" | "oss" | "cos" | "obs" | "b2" | "webhdfs"
        )
}
