// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "apps/cli/command/command_table.h"
#include "apps/cli/doctor/inspect_daemon.h"
#include "base/program_version.h"
#include "base/text_table.h"
#include "config/paths.h"
#include "doctor/checkup.h"
#include "doctor/host_fixes.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

class DoctorCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SOURCE", sources_, "URLs of stores to test with your credentials")
        ->type_name("PATH");
    app.add_option("-o,--option", options_, "Option of these stores, name=value")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false);
    app.add_flag("--no-speed", no_speed_, "Skip the disk speed test");
    app.add_flag("--fix", fix_, "Apply the one-time settings that need root, and print them");
    app.add_option("--config", run_.config, "Configuration file of the daemon")->type_name("FILE");
    app.add_option("--cache-dir", directories_, "Cache directory of the daemon; may be repeated")
        ->type_name("DIR")
        ->allow_extra_args(false);
    app.add_option("--cache-size", cache_size_, "Capacity of each cache directory of the daemon")
        ->type_name("SIZE");
  }

  CommandResult<> run() override;

 private:
  static HostPaths paths();
  static std::string fixes_text(const std::vector<HostFix>& fixes);
  CommandResult<std::vector<StoreUrl>> sources() const;
  CommandResult<> outcome(const Checkup& checkup, const std::vector<HostFix>& fixes,
                          Json document) const;

  bool fix_ = false, no_speed_ = false;
  std::vector<std::string> sources_, options_;
  std::vector<std::string> directories_;
  std::string cache_size_;
  DaemonRun run_;
};

HostPaths DoctorCommand::paths() {
  HostPaths paths;
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  paths.search_path = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  return paths;
}

std::string DoctorCommand::fixes_text(const std::vector<HostFix>& fixes) {
  if (fixes.empty()) return "nothing to fix\n";
  TextTable table("ll");
  for (const HostFix& fix : fixes) {
    table.add({fix.done ? "fixed" : "not fixed", fix.what});
    if (!fix.action.empty()) table.add({"", "  to do: " + fix.action});
  }
  return table.to_string() + "\n";
}

CommandResult<std::vector<StoreUrl>> DoctorCommand::sources() const {
  LEAT_TRY(OptionValues options, parse_options(options_));
  std::vector<StoreUrl> urls;
  for (const std::string& source : sources_) {
    if (!is_store_url(source)) {
      return failure(StatusCode::kInvalidArgument,
                     fmt::format("{} is no store's URL, such as s3://my-bucket/train", source));
    }
    LEAT_TRY(StoreUrl url, StoreUrl::parse(source));
    for (const auto& [name, value] : options) url.options[name] = value;
    urls.push_back(std::move(url));
  }
  return urls;
}

CommandResult<> DoctorCommand::run() {
  LEAT_TRY(std::vector<StoreUrl> urls, sources());
  run_.runtime = runtime_directory();
  for (std::string& directory : directories_) directory = absolute_path(directory);
  if (!directories_.empty()) {
    run_.settings["cache.directory"] = fmt::format("{}", fmt::join(directories_, ","));
  }
  if (!cache_size_.empty()) run_.settings["cache.size"] = cache_size_;
  std::vector<HostFix> fixes;
  if (fix_) fixes = fix_host(paths());
  const Checkup checkup = check_host(paths(), {.run = run_,
                                               .daemon = inspect_daemon(run_.runtime),
                                               .sources = std::move(urls),
                                               .speed = !no_speed_});
  Json document = {{"findings", Json::array()},
                   {"fixes", Json::array()},
                   {"kernel", checkup.kernel},
                   {"notes", count(checkup.findings, Level::kNote)},
                   {"problems", count(checkup.findings, Level::kProblem)},
                   {"version", program_version()}};
  for (const Finding& finding : checkup.findings) document["findings"].push_back(to_json(finding));
  for (const HostFix& fix : fixes) document["fixes"].push_back(to_json(fix));
  if (!json) {
    if (fix_) print(fixes_text(fixes));
    print(to_text(checkup.findings));
  }
  CommandResult<> done = outcome(checkup, fixes, document);
  if (json && done) print_json(document);
  return done;
}

CommandResult<> DoctorCommand::outcome(const Checkup& checkup, const std::vector<HostFix>& fixes,
                                       Json document) const {
  for (const HostFix& fix : fixes) {
    if (fix.done) continue;
    Failure failed(Status(StatusCode::kPermissionDenied,
                          fmt::format("not everything could be set: {}; 'sudo leat doctor --fix', "
                                      "or by hand: {}",
                                      fix.what, fix.action)));
    failed.document = std::move(document);
    return std::unexpected(std::move(failed));
  }
  const std::string problems = problems_in_words(checkup.findings);
  if (problems.empty()) return {};
  Failure found(Status(StatusCode::kUnsupported, problems), ExitCode::kProblem);
  found.document = std::move(document);
  return std::unexpected(std::move(found));
}

}  // namespace

std::unique_ptr<Command> make_doctor_command() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace leat
