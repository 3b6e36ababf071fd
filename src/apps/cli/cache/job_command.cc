// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/cache/job_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/interrupt.h"
#include "apps/cli/command/progress.h"
#include "base/pluralize.h"
#include "base/text_table.h"
#include "base/units.h"
#include "config/paths.h"
#include "frontends/admin/codec_cluster.h"

namespace leat {
namespace {

// Polling interval, which grows: short jobs end at once, long ones cost nothing.
constexpr auto kPollIntervalMin = std::chrono::milliseconds(10);
constexpr auto kPollIntervalMax = std::chrono::milliseconds(250);

ProgressState progress_of(const JobView& job) {
  ProgressState state{.bytes_done = job.bytes_done,
                      .bytes_total = std::nullopt,
                      .files_done = job.files_done,
                      .files_total = std::nullopt};
  // The bytes that `free` drops are known only at its end.
  if (job.kind != "free") state.bytes_total = job.bytes_total;
  state.files_total = job.files_total;
  state.totals_grow = !job.planned;
  return state;
}

std::string with_rate(std::string text, const JobView& job) {
  text += fmt::format(" in {:.1f}s", job.seconds);
  if (job.bytes_fetched == 0) return text;
  const double rate = static_cast<double>(job.bytes_fetched) / std::max(job.seconds, 1e-3);
  return text + fmt::format(", {}/s", format_bytes(static_cast<uint64_t>(rate)));
}

std::string describe_copy(const JobView& job) {
  std::string text = fmt::format("copied {} ({} through the workers)",
                                 pluralize(job.files_done - job.files_present, "file"),
                                 format_bytes(job.bytes_fetched));
  if (job.files_present != 0) text += fmt::format(", {} there already", job.files_present);
  return with_rate(std::move(text), job);
}

}  // namespace

std::string describe_job(const JobView& job) {
  const std::string uncached = fmt::format("{}, {}", pluralize(job.files_uncached, "file"),
                                           format_bytes(job.bytes_uncached));
  if (job.files_uncached != 0 && job.files_total == 0) {
    return fmt::format(
        "nothing to load: {} are read where they are and not cached, since they lie "
        "on a disk of this host or are mounted with cache=never; the mount option "
        "cache=always would copy them",
        uncached);
  }
  if (job.kind == "verify") {
    return fmt::format("verified {}, {} in {:.1f}s", pluralize(job.files_done, "object"),
                       format_bytes(job.bytes_done), job.seconds);
  }
  if (job.kind == "snapshot") {
    return fmt::format("listed {}, {} in {:.1f}s", pluralize(job.files_done, "file"),
                       format_bytes(job.bytes_done), job.seconds);
  }
  if (job.kind == "refresh") {
    return fmt::format("{} added, {} removed, {} changed; checked {} in {:.1f}s", job.added,
                       job.removed, job.changed,
                       pluralize(job.files_done, "directory", "directories"), job.seconds);
  }
  if (job.kind == "copy") return describe_copy(job);
  std::string did = job.kind == "free" ? "freed" : "loaded";
  std::string text = fmt::format("{} {}, {}", did, pluralize(job.files_done, "file"),
                                 format_bytes(job.bytes_done));
  if (job.kind == "load") text += fmt::format(" ({} fetched)", format_bytes(job.bytes_fetched));
  text = with_rate(std::move(text), job);
  if (job.bytes_verified != 0) {
    text += fmt::format(", {} read back", format_bytes(job.bytes_verified));
  }
  if (job.files_uncached != 0) text += fmt::format("; {} are not cached by their mount", uncached);
  if (job.names_skipped != 0) {
    text += fmt::format("; skipped {} that cannot be names of files",
                        pluralize(job.names_skipped, "key"));
  }
  return text;
}

std::string describe_change(std::string_view kind, std::string_view path) {
  const char sign = kind == "added" ? '+' : kind == "removed" ? '-' : '~';
  return fmt::format("{} {}", sign, path);
}

// Prints the changes of a refresh, also of one that failed partly.
void print_changes(const JobView& job) {
  for (const ChangeView& change : job.changes) print(describe_change(change.kind, change.path));
  const uint64_t all = job.added + job.changed + job.removed;
  if (all > job.changes.size()) print(fmt::format("… and {} more", all - job.changes.size()));
}

// Names the keys that a load skipped, since no program can open them.
void note_skipped(const JobView& job) {
  uint64_t named = 0;
  for (const SkippedView& one : job.skipped) {
    named += one.names;
    const std::string example =
        one.example.empty() ? "" : fmt::format(", for example '{}'", one.example);
    note(printable(
        fmt::format("skipped {} in {}{}", pluralize(one.names, "key"), one.directory, example)));
  }
  if (job.names_skipped > named) {
    note(fmt::format("skipped {} in other directories",
                     pluralize(job.names_skipped - named, "more key", "more keys")));
  }
}

void JobCommand::declare(CLI::App& app) {
  if (request_.kind == "verify") {
    request_.path = "/";
  } else if (endpoints_.cluster) {
    app.add_option("PATH", request_.path, "In the cluster's namespace: /data/train")
        ->type_name("NAME")
        ->required();
  } else {
    app.add_option("PATH", request_.path, "Folder or file of a mount")
        ->type_name("PATH")
        ->required();
  }
  if (request_.kind == "copy") declare_copy(app);
  if (request_.kind != "verify" && request_.kind != "refresh") selection_.declare(app);
  if (request_.kind == "load") {
    app.add_flag("--verify", request_.verify,
                 "Verify all data after the load; fetch corrupt parts again");
    app.add_option("--bandwidth", bandwidth_, "Maximum bytes per second from the store")
        ->type_name("SIZE");
    app.add_option("--requests", request_.requests,
                   endpoints_.cluster ? "Maximum concurrent requests (16 per worker)"
                                      : "Maximum concurrent requests (16)")
        ->type_name("NUMBER")
        ->check(CLI::Range(1, 256).description(""));
    app.add_flag("--strict", strict_, "Fail if the tree has keys that cannot be names of files");
  }
  if (endpoints_.cluster && request_.kind != "free") {
    app.add_option("--every", every_, "Interval between starts of a recurring job: 12h")
        ->type_name("DURATION");
  }
  if (endpoints_.cluster && (request_.kind == "load" || request_.kind == "copy")) {
    app.add_flag("--on-change", on_change_, "Restart when a name below the path changes");
    app.add_flag("--on-mount", on_mount_, "Restart when a store is mounted there");
  }
  app.add_flag("--background", background_, "Print the job number and return immediately");
}

void JobCommand::declare_copy(CLI::App& app) {
  app.add_option("TO", request_.to, "Path in the namespace, or a store's URL")
      ->type_name("PATH")
      ->required();
  app.add_flag("-f,--force", force_, "Replace existing files");
  app.add_flag(
      "-u,--update", update_,
      "Replace existing files that differ; a file of the same size that is not older is skipped");
  app.add_option("--bandwidth", bandwidth_, "Maximum bytes per second")->type_name("SIZE");
  app.add_option("--requests", request_.requests, "Maximum concurrent files (8 per worker)")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 256).description(""));
}

CommandResult<Json> JobCommand::request_json() const {
  if (!endpoints_.cluster) return to_json(request_);
  ClusterJobRequest request{.job = request_,
                            .schedule = {.on_change = on_change_, .on_mount = on_mount_}};
  if (!every_.empty()) {
    LEAT_TRY(const auto every, parse_duration(every_));
    if (every < std::chrono::minutes(1)) {
      return failure(StatusCode::kInvalidArgument, "--every is a minute at least");
    }
    request.schedule.every_seconds =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(every).count());
  }
  return to_json(request);
}

CommandResult<> JobCommand::run() {
  if (endpoints_.cluster && !request_.path.starts_with('/')) {
    return failure(StatusCode::kInvalidArgument,
                   fmt::format("'{}' is no path of the cluster's namespace, which begin with '/'; "
                               "'leat cluster status' shows what is mounted in it",
                               request_.path));
  }
  if (strict_ && (background_ || is_recurring())) {
    return failure(StatusCode::kInvalidArgument,
                   "--strict decides how the command ends, and with --background, --every, "
                   "--on-change or --on-mount it does not wait for the job; leave it out and see "
                   "'names_skipped' of the job");
  }
  if (!endpoints_.cluster && request_.kind != "verify") {
    LEAT_TRY(request_.path, path_in_mounts(request_.kind, request_.path));
    LEAT_CHECK_OK(check_in_mounts(request_.path));
  }
  LEAT_TRY(request_.selection, selection_.selection());
  if (!bandwidth_.empty()) {
    LEAT_TRY(request_.bandwidth, parse_bytes(bandwidth_));
  }
  if (request_.kind == "copy")
    request_.overwrite = force_ ? "always" : update_ ? "if-different" : "never";
  LEAT_TRY(const Json body, request_json());
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer, client.post(endpoints_.route, body));
  LEAT_TRY(JobView job, job_of(endpoints_, answer));
  if (background_ || is_recurring()) {
    if (json) {
      print_json(to_json(job));
    } else if (is_recurring()) {
      print(fmt::format("job {} recurs; '{}' shows it, '{} cancel {}' ends it", job.id,
                        endpoints_.list_command, endpoints_.list_command, job.id));
    } else {
      print(fmt::format("job {}; '{}' shows it", job.id, endpoints_.list_command));
    }
    return {};
  }
  LEAT_TRY(JobView ended, wait_for_job(client, endpoints_, std::move(job)));
  CommandResult<> done = strict_ ? check_skipped(ended) : CommandResult<>();
  if (done) done = report_job(ended, json, quiet);
  if (done || endpoints_.cluster) return done;
  return std::unexpected(explain_missing(std::move(done).error(), ended.path));
}

CommandResult<> check_skipped(const JobView& job) {
  if (job.state != "done" || job.names_skipped == 0) return {};
  note_skipped(job);
  Failure incomplete(
      Status(StatusCode::kUnsupported,
             fmt::format("{} of {} is not complete: {}", job.kind, job.path, describe_job(job))));
  incomplete.document = to_json(job);
  return std::unexpected(std::move(incomplete));
}

JobEndpoints cluster_job_endpoints() {
  return {.route = "/v1/cluster/jobs", .list_command = "leat cluster jobs", .cluster = true};
}

CommandResult<JobView> job_of(const JobEndpoints& endpoints, const Json& answer) {
  if (!endpoints.cluster) {
    LEAT_TRY(JobView job, from_json<JobView>(answer));
    return job;
  }
  LEAT_TRY(ClusterJobView job, from_json<ClusterJobView>(answer));
  return std::move(job.job);
}

// The job continues in the daemon without the command.
Failure interrupted_error(const JobEndpoints& endpoints, const JobView& job, int signal) {
  Failure why(Status(StatusCode::kCancelled,
                     fmt::format("interrupted; job {0} continues: '{1} wait {0}' waits for it, "
                                 "'{1} cancel {0}' ends it",
                                 job.id, endpoints.list_command)),
              exit_code_of_signal(signal));
  why.document = to_json(job);
  return why;
}

// A daemon that took over continues only loads.
Failure lost_job_error(Failure why, const JobEndpoints& endpoints, const JobView& job) {
  if (endpoints.cluster || why.status.code() != StatusCode::kNotFound) return why;
  return {Status(StatusCode::kUnavailable,
                 fmt::format("the daemon ended before the {} of {} was done, and the next one does "
                             "not continue it; run the command again",
                             job.kind, job.path)),
          ExitCode::kFailed};
}

CommandResult<JobView> wait_for_job(DaemonClient& client, const JobEndpoints& endpoints,
                                    JobView job) {
  Progress progress(std::chrono::milliseconds(500));
  std::chrono::milliseconds pause = kPollIntervalMin;
  std::string path = fmt::format("{}/{}", endpoints.route, job.id);
  const InterruptWatch watch;
  while (!job.ended()) {
    if (const int signal = InterruptWatch::signal_received(); signal != 0) {
      return std::unexpected(interrupted_error(endpoints, job, signal));
    }
    if (job.state == "waiting") {
      progress.show("waiting for the cluster's leader to begin");
    } else {
      progress.show(progress_of(job));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kPollIntervalMax);
    CommandResult<Json> answer = client.get(path);
    if (!answer) return std::unexpected(lost_job_error(std::move(answer).error(), endpoints, job));
    LEAT_TRY(job, job_of(endpoints, *answer));
  }
  return job;
}

CommandResult<> report_job(const JobView& job, bool json, bool quiet) {
  if (!json && !quiet) {
    print_changes(job);
    note_skipped(job);
  }
  if (job.state == "done") {
    if (quiet) return {};
    if (json) {
      print_json(to_json(job));
    } else {
      print(describe_job(job));
    }
    return {};
  }
  for (const std::string& error : job.errors) note(error);
  const std::string of = job.kind == "verify" ? "what is cached" : job.path;
  std::string how = job.state == "cancelled" ? "was cancelled" : "is not complete";
  if (job.kind == "verify" && job.code == StatusCode::kCorrupt) how = "found damage";
  Failure incomplete(Status(job.code.value_or(StatusCode::kInternal),
                            fmt::format("{} of {} {}: {}, {}", job.kind, of, how, describe_job(job),
                                        pluralize(job.errors_total, "error"))));
  incomplete.document = to_json(job);
  return std::unexpected(std::move(incomplete));
}

}  // namespace leat
