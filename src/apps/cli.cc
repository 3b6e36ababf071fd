// SPDX-License-Identifier: Apache-2.0
// CLI11 throws; every exception ends in this file.
#include "apps/cli.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "apps/command_table.h"
#include "config/nearest.h"

namespace leat {
namespace {

constexpr std::string_view kIntroduction =
    "Leat shows object stores as folders and keeps what is read on local disks.\n"
    "\nUsage: leat COMMAND [ARGUMENTS]\n\nCommands:\n";

std::string overview() {
  std::string text(kIntroduction);
  for (const CommandEntry& entry : command_table()) {
    if (!entry.hidden) text += fmt::format("  {:<9} {}\n", entry.name, entry.summary);
  }
  text +=
      "\n'leat COMMAND --help' shows a command's flags and an example. Each takes --json.\n"
      "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 no daemon runs.";
  return text;
}

int report(const Failure& failure, bool json) {
  note(failure.status.to_string());
  if (json) {
    print_json(
        {{"error",
          {{"code", to_string(failure.status.code())}, {"message", failure.status.to_string()}}}});
  }
  return static_cast<int>(failure.code);
}

int wrong_usage(const std::string& what) {
  note(what);
  return static_cast<int>(ExitCode::kUsage);
}

int run_command(const CommandEntry& entry, int argc, const char* const* argv) {
  std::unique_ptr<Command> command = entry.make();
  CLI::App app(entry.summary, fmt::format("leat {}", entry.name));
  app.footer(fmt::format("\nExample:\n  {}", entry.example));
  command->declare(app);
  app.add_flag("--json", command->json, "Print JSON (docs/cli.md) instead of text");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return 0;
  } catch (const CLI::ParseError& wrong) {
    return wrong_usage(fmt::format("{}: {}; 'leat {} --help' shows what it takes", entry.name,
                                   wrong.what(), entry.name));
  }
  Attempt<> done = command->run();
  std::fflush(stdout);
  return done ? 0 : report(done.error(), command->json);
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  std::string_view name = argc > 1 ? argv[1] : "--help";
  if (name == "--help" || name == "-h" || name == "help") {
    print(overview());
    return argc > 1 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  if (name == "--version") name = "version";
  for (const CommandEntry& entry : command_table()) {
    if (entry.name == name) return run_command(entry, argc - 1, argv + 1);
  }
  return wrong_usage(fmt::format("there is no command '{}'{} 'leat --help' lists them", name,
                                 did_you_mean(name, command_names()) + ";"));
}

}  // namespace leat
