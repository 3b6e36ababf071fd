// SPDX-License-Identifier: Apache-2.0
#include "apps/command.h"

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
