// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <functional>

#include "apps/cached/job_command.h"
#include "apps/client/daemon_client.h"
#include "apps/command_table.h"
#include "apps/paths.h"
#include "apps/text_table.h"
#include "base/counted.h"

namespace leat {
namespace {

class JobsCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.require_subcommand(0, 1);
    app.fallthrough();
    auto add = [&](const char* name, const char* help, Attempt<> (JobsCommand::*action)()) {
      CLI::App* sub = app.add_subcommand(name, help);
      sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
      return sub;
    };
    add("ls", "Those that run and those that ended (also without a word)", &JobsCommand::list)
        ->alias("list");
    CLI::App* show = add("show", "One of them, with its errors", &JobsCommand::show);
    CLI::App* wait = add("wait", "Until it has ended, with progress", &JobsCommand::wait);
    CLI::App* cancel = add("cancel", "Ask one to end; what it did stays", &JobsCommand::cancel);
    for (CLI::App* sub : {show, wait, cancel}) {
      sub->add_option("JOB", id_, "Its number")->type_name("JOB")->required();
    }
  }

  Attempt<> run() override { return action_(); }

 private:
  Attempt<> list() {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get("/v1/jobs"));
    if (json) {
      print_json(answer);
      return {};
    }
    TextTable table("rllrrl");
    for (const Json& item : answer["jobs"]) {
      LEAT_TRY(JobView job, from_json<JobView>(item));
      table.add({std::to_string(job.id), job.kind, job.state,
                 fmt::format("{}/{}", job.files_done, counted(job.files_total, "file")),
                 format_bytes(job.bytes_done), job.path});
    }
    if (std::string text = table.to_string(); !text.empty()) print(text);
    return {};
  }

  Attempt<> show() {
    LEAT_TRY(Json answer, DaemonClient(runtime_directory()).get(fmt::format("/v1/jobs/{}", id_)));
    if (json) {
      print_json(answer);
      return {};
    }
    LEAT_TRY(JobView job, from_json<JobView>(answer));
    print(fmt::format("job {}: {} of {}, {}", job.id, job.kind, printable(job.path), job.state));
    print(describe_job(job));
    for (const std::string& error : job.errors) print("  " + printable(error));
    if (job.files_failed > job.errors.size()) {
      print(fmt::format("  … and {} more", job.files_failed - job.errors.size()));
    }
    return {};
  }

  Attempt<> wait() {
    DaemonClient client(runtime_directory());
    LEAT_TRY(JobView job, client.get_as<JobView>(fmt::format("/v1/jobs/{}", id_)));
    LEAT_TRY(JobView ended, wait_for_job(client, std::move(job)));
    return report_job(ended, json);
  }

  Attempt<> cancel() {
    DaemonClient client(runtime_directory());
    LEAT_TRY(Json answer, client.remove(fmt::format("/v1/jobs/{}", id_)));
    LEAT_TRY(JobView job, from_json<JobView>(answer));
    if (json) {
      print_json(answer);
    } else if (job.ended()) {
      print(fmt::format("job {} had ended already: {}", id_, job.state));
    } else {
      print(fmt::format("cancelled job {}", id_));
    }
    return {};
  }

  std::function<Attempt<>()> action_ = [this] { return list(); };
  uint64_t id_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_jobs_command() {
  return std::make_unique<JobsCommand>();
}

}  // namespace leat
