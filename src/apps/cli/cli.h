// SPDX-License-Identifier: Apache-2.0
// The command line: finds the subcommand, parses its flags, runs it, and reports its failure.
#pragma once

namespace leat {

// Returns the process's exit code (docs/cli.md). Writes output to standard output and failures to
// standard error.
int run_cli(int argc, const char* const* argv);

}  // namespace leat
