// SPDX-License-Identifier: Apache-2.0
// The completion script of a shell, and the command that it calls.
#include <fmt/format.h>

#include <algorithm>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/help/command_description.h"
#include "apps/cli/help/completion.h"
#include "base/text_table.h"
#include "config/paths.h"
#include "frontends/admin/codec_cluster.h"

namespace leat {
namespace {

// The user waits for the key press to take effect.
constexpr auto kTimeout = std::chrono::milliseconds(300);

class CompletionCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    one_of(app.add_option("SHELL", shell_, "Shell to complete for"), {"bash", "zsh", "fish"})
        ->required();
  }

  CommandResult<> run() override {
    const std::string script = completion_script(shell_).value_or("");
    if (json) {
      print_json({{"shell", shell_}, {"script", script}});
    } else {
      std::fputs(script.c_str(), stdout);
    }
    return {};
  }

 private:
  std::string shell_;
};

std::vector<Candidate> live_names(std::string_view kind) {
  DaemonClient client(runtime_directory());
  std::vector<Candidate> names;
  auto each = [&](const char* path, const char* list, auto add) {
    const std::optional<Json> answer = client.try_get(path, kTimeout);
    if (!answer) return;
    for (const Json& item : answer->value(list, Json::array())) add(item);
  };
  if (kind == value_name::kMount) {
    each("/v1/mounts", "mounts", [&](const Json& item) {
      auto mount = from_json<MountView>(item);
      if (mount) names.push_back({mount->path, mount->source});
    });
  } else if (kind == value_name::kJob) {
    each("/v1/jobs", "jobs", [&](const Json& item) {
      auto job = from_json<JobView>(item);
      if (!job || job->ended()) return;
      names.push_back({std::to_string(job->id), fmt::format("{} {}", job->kind, job->path)});
    });
  } else if (kind == value_name::kClusterMount) {
    each("/v1/cluster", "mounts", [&](const Json& item) {
      auto mount = from_json<ClusterMountView>(item);
      if (mount) names.push_back({mount->path, mount->source});
    });
  } else if (kind == value_name::kClusterJob) {
    each("/v1/cluster/jobs", "jobs", [&](const Json& item) {
      auto job = from_json<ClusterJobView>(item);
      // A recurring job can be cancelled between its runs, too.
      const bool stands = job && job->schedule != ClusterJobSchedule();
      if (!job || (job->job.ended() && (!stands || job->job.state == "cancelled"))) return;
      names.push_back(
          {std::to_string(job->job.id), fmt::format("{} {}", job->job.kind, job->job.path)});
    });
  } else if (kind == value_name::kSnapshot) {
    each("/v1/snapshots", "snapshots", [&](const Json& item) {
      auto snapshot = from_json<SnapshotView>(item);
      if (snapshot) names.push_back({snapshot->name, snapshot->source});
    });
  }
  return names;
}

class CompleteCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--line", line_, "Whole line as typed, with the program's name")
        ->type_name("LINE");
    app.add_option("WORD", words_, "Words typed after the program's name")->type_name("WORD");
  }

  CommandResult<> run() override {
    if (!line_.empty()) {
      words_ = split_line(line_);
      words_.erase(words_.begin());
    }
    if (words_.empty()) words_.emplace_back();
    const Completion found = complete(words_, live_names);
    const char* files = found.files == Completion::Files::kAll           ? "files"
                        : found.files == Completion::Files::kDirectories ? "directories"
                                                                         : "none";
    if (json) {
      Json candidates = Json::array();
      for (const Candidate& one : found.candidates) {
        candidates.push_back({{"word", one.word}, {"help", one.help}});
      }
      print_json({{"candidates", candidates}, {"files", files}, {"continues", found.continues}});
      return {};
    }
    print(fmt::format("{}\t{}\t{}", files, found.continues ? "yes" : "no", words_.back()));
    for (const Candidate& one : found.candidates) {
      print(fmt::format("{}\t{}", printable(one.word), printable(one.help)));
    }
    return {};
  }

 private:
  std::string line_;
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() {
  return std::make_unique<CompletionCommand>();
}

std::unique_ptr<Command> make_complete_command() {
  return std::make_unique<CompleteCommand>();
}

}  // namespace leat
