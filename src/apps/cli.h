// SPDX-License-Identifier: Apache-2.0
// The command line as a whole: finds the subcommand, parses its flags, runs it, reports its
// failure.
#pragma once

namespace leat {

// The process's exit code (docs/cli.md). Writes what a command prints to standard output and
// failures to standard error.
int run_cli(int argc, const char* const* argv);

}  // namespace leat
