// SPDX-License-Identifier: Apache-2.0
// Command: one subcommand. Failure: an error with its exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <expected>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "frontends/admin/codec.h"

namespace leat {

// Documented in docs/cli.md; scripts depend on it.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotFound = 3,
  kNoDaemon = 4,
  kProblem = 5,  // `doctor` found one
  // After a signal: 128 and its number, exit_code_of_signal().
};

struct Failure {
  // The exit code follows from the status: kNotFound and kInvalidArgument have their own.
  Failure(Status why);  // NOLINT(google-explicit-constructor): failures pass through
  Failure(Status why, ExitCode exit) : status(std::move(why)), code(exit) {}

  Status status;
  ExitCode code;
  Json document = Json::object();  // with --json, beside "error": the work that was done
};

template <class T = void>
using CommandResult = std::expected<T, Failure>;

inline std::unexpected<Failure> failure(StatusCode code, std::string message) {
  return std::unexpected(Failure(Status(code, std::move(message))));
}

class Command {
 public:
  virtual ~Command() = default;
  // Declares its flags and positionals, bound to members.
  virtual void declare(CLI::App& app) = 0;
  virtual CommandResult<> run() = 0;

  bool json = false;  // --json, which every command has
};

// Declares the arguments of the command, and those that every command has.
void declare_all(Command& command, CLI::App& app);

// Parses "name=value" words.
CommandResult<std::map<std::string, std::string>> parse_options(
    const std::vector<std::string>& words);

// Writes to standard output, with a newline. Text is written unchanged.
void print(const std::string& text);
void print_json(const Json& json);
// Writes a line to standard error.
void note(const std::string& text);

}  // namespace leat
