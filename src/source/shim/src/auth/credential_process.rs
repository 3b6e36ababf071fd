// SPDX-License-Identifier: Apache-2.0
//! Programs that credential providers run (`credential_process` of ~/.aws/config).
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqsign_core::{CommandExecute, CommandOutput, Error, Result};

/// Interval of the checks whether a program that closed its output has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for the program on a thread of its own, without a SIGCHLD handler: that belongs to the
/// program that links this library.
#[derive(Debug)]
pub struct ThreadedCommand;

impl CommandExecute for ThreadedCommand {
    async fn command_execute<'a>(
        &'a self,
        program: &'a str,
        arguments: &'a [&'a str],
    ) -> Result<CommandOutput> {
        let failed = |why: String| Error::unexpected(format!("cannot run {program}: {why}"));
        let mut command = Command::new(program);
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let running = Running(Arc::new(Mutex::new(child)));
        let child = running.0.clone();
        let ran = tokio::task::spawn_blocking(move || output_of(&child)).await;
        ran.map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))
    }
}

/// Kills the program when the last waiter is dropped.
struct Running(Arc<Mutex<Child>>);

impl Drop for Running {
    fn drop(&mut self) {
        // Does nothing if it has ended.
        let _ = self.0.lock().unwrap().kill();
    }
}

fn output_of(child: &Mutex<Child>) -> std::io::Result<CommandOutput> {
    let (stdout, stderr) = {
        let mut child = child.lock().unwrap();
        (child.stdout.take(), child.stderr.take())
    };
    let errors = std::thread::spawn(move || read_all(stderr));
    let stdout = read_all(stdout)?;
    let stderr = errors.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    // It has closed both, and most programs have ended then. A lock held during the wait would
    // prevent a caller that gives up from killing one that has not.
    let status = loop {
        if let Some(status) = child.lock().unwrap().try_wait()? {
            break status;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    Ok(CommandOutput {
        status: status.code().unwrap_or(-1),
        stdout,
        stderr,
    })
}

fn read_all(from: Option<impl Read>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        from.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
