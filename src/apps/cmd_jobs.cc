// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/client/daemon_client.h"
#include "apps/command_table.h"
#include "apps/paths.h"
#include "apps/text_table.h"

namespace leat {
namespace {

class JobsCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("ACTION", action_, "cancel; nothing: list")
        ->check(CLI::IsMember({"list", "cancel"}));
    app.add_option("ID", id_, "The job to cancel");
  }

  Attempt<> run() override {
    DaemonClient client(runtime_directory());
    if (action_ == "cancel") return cancel(client);
    LEAT_TRY(Json answer, client.get("/v1/jobs"));
    if (json) {
      print_json(answer);
      return {};
    }
    TextTable table("rllrrl");
    for (const Json& item : answer["jobs"]) {
      LEAT_TRY(JobView job, from_json<JobView>(item));
      table.add({std::to_string(job.id), job.kind, job.state,
                 fmt::format("{}/{} files", job.files_done, job.files_total),
                 format_bytes(job.bytes_done), job.path});
    }
    if (std::string text = table.to_string(); !text.empty()) print(text);
    return {};
  }

 private:
  Attempt<> cancel(DaemonClient& client) {
    if (id_ == 0) {
      return failure(StatusCode::kInvalidArgument,
                     "jobs cancel: which? Write 'leat jobs cancel 3'");
    }
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

  std::string action_ = "list";
  uint64_t id_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_jobs_command() {
  return std::make_unique<JobsCommand>();
}

}  // namespace leat
