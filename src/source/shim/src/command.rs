// SPDX-License-Identifier: Apache-2.0
//! Programs that credential providers run (`credential_process` of ~/.aws/config).
use std::process::{Command, Stdio};

use reqsign_core::{CommandExecute, CommandOutput, Error, Result};

/// Waited for on a thread of its own kind: it needs no handler of SIGCHLD, which belongs to the
/// program that we are linked into.
#[derive(Debug)]
pub struct ThreadedCommand;

impl CommandExecute for ThreadedCommand {
    async fn command_execute<'a>(
        &'a self,
        program: &'a str,
        arguments: &'a [&'a str],
    ) -> Result<CommandOutput> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let ran = tokio::task::spawn_blocking(move || command.output()).await;
        let failed = |why: String| Error::unexpected(format!("cannot run {program}: {why}"));
        let output = ran
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))?;
        Ok(CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}
