// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command/command.h"

#include <fmt/format.h>

#include <cstdio>

namespace leat {
namespace {

ExitCode exit_code_of(StatusCode code) {
  if (code == StatusCode::kNotFound) return ExitCode::kNotFound;
  if (code == StatusCode::kInvalidArgument) return ExitCode::kUsage;
  return ExitCode::kFailed;
}

}  // namespace

Failure::Failure(Status why) : status(std::move(why)), code(exit_code_of(status.code())) {}

void declare_all(Command& command, CLI::App& app) {
  command.declare(app);
  app.add_flag("--json", command.json, "Print JSON instead of text");
}

CommandResult<std::map<std::string, std::string>> parse_options(
    const std::vector<std::string>& words) {
  std::map<std::string, std::string> options;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return failure(StatusCode::kInvalidArgument,
                     fmt::format("option {} is not of the form name=value", word));
    }
    options[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return options;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

void print_json(const Json& json) {
  print(dump_json(json, 2));
}

void note(const std::string& text) {
  std::fprintf(stderr, "leat: %s\n", text.c_str());
}

}  // namespace leat
