// SPDX-License-Identifier: Apache-2.0
// CLI11 throws; every exception ends in this file.
#include "apps/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <span>
#include <string_view>

#include "apps/command_table.h"
#include "apps/daemon/dead_daemon.h"
#include "apps/paths.h"
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
      "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 no daemon runs,\n"
      "5 doctor found a problem.";
  return text;
}

int report(const Failure& failure, bool json) {
  note(failure.status.to_string());
  if (json) {
    Json document = failure.document;
    document["error"] = {{"code", to_string(failure.status.code())},
                         {"message", failure.status.to_string()}};
    print_json(document);
  }
  return static_cast<int>(failure.code);
}

// Of words that were not understood; whether --json was meant is all that can be said of them.
int wrong_usage(std::string what, std::span<const char* const> words) {
  bool json = std::ranges::any_of(words, [](std::string_view word) { return word == "--json"; });
  return report(Status(StatusCode::kInvalidArgument, std::move(what)), json);
}

// What was printed has to be where it should be: a full disk is found here at the latest.
int finish(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  note(status_from_errno(errno == 0 ? EIO : errno, "cannot write to standard output").to_string());
  return code == 0 ? static_cast<int>(ExitCode::kFailed) : code;
}

// A daemon that was killed and hangs keeps its folders and its socket from answering, so what a
// command would wait for goes first.
Attempt<> clear_the_way(const CommandEntry& entry) {
  const std::string_view name = entry.name;
  if (name == "version" || name == "doctor") return {};  // which does it itself and tells of it
  LEAT_CHECK_OK(
      clear_dead_daemon(runtime_directory(), [](const std::string& what) { note(what); }));
  return {};
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
                                   wrong.what(), entry.name),
                       {argv, static_cast<size_t>(argc)});
  }
  Attempt<> done = clear_the_way(entry);
  if (done) done = command->run();
  return done ? 0 : report(done.error(), command->json);
}

int run_words(int argc, const char* const* argv) {
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
                                 did_you_mean(name, command_names()) + ";"),
                     {argv, static_cast<size_t>(argc)});
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  return finish(run_words(argc, argv));
}

}  // namespace leat
