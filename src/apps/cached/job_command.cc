// SPDX-License-Identifier: Apache-2.0
#include "apps/cached/job_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "apps/client/daemon_client.h"
#include "apps/client/mount_paths.h"
#include "apps/interrupt.h"
#include "apps/paths.h"
#include "apps/progress.h"
#include "apps/text_table.h"
#include "base/counted.h"
#include "base/units.h"
#include "doors/admin/codec_cluster.h"

namespace leat {
namespace {

// Polling interval, which grows: short jobs end at once, long ones cost nothing.
constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(250);

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
                                 counted(job.files_done - job.files_there, "file"),
                                 format_bytes(job.bytes_fetched));
  if (job.files_there != 0) text += fmt::format(", {} there already", job.files_there);
  return with_rate(std::move(text), job);
}

}  // namespace

std::string describe_job(const JobView& job) {
  const std::string uncached =
      fmt::format("{}, {}", counted(job.files_uncached, "file"), format_bytes(job.bytes_uncached));
  if (job.files_uncached != 0 && job.files_total == 0) {
    return fmt::format(
        "nothing to load: {} are read where they are and not cached, since they lie "
        "on a disk of this host or are mounted with cache=never; the mount option "
        "cache=always would copy them",
        uncached);
  }
  if (job.kind == "verify") {
    return fmt::format("verified {}, {} in {:.1f}s", counted(job.files_done, "object"),
                       format_bytes(job.bytes_done), job.seconds);
  }
  if (job.kind == "snapshot") {
    return fmt::format("listed {}, {} in {:.1f}s", counted(job.files_done, "file"),
                       format_bytes(job.bytes_done), job.seconds);
  }
  if (job.kind == "refresh") {
    return fmt::format("{} added, {} removed, {} changed; asked about {} in {:.1f}s", job.added,
                       job.gone, job.changed, counted(job.files_done, "directory", "directories"),
                       job.seconds);
  }
  if (job.kind == "copy") return describe_copy(job);
  std::string did = job.kind == "free" ? "freed" : "loaded";
  std::string text =
      fmt::format("{} {}, {}", did, counted(job.files_done, "file"), format_bytes(job.bytes_done));
  if (job.kind == "load") text += fmt::format(" ({} fetched)", format_bytes(job.bytes_fetched));
  text = with_rate(std::move(text), job);
  if (job.bytes_verified != 0) {
    text += fmt::format(", {} read back", format_bytes(job.bytes_verified));
  }
  if (job.files_uncached != 0) text += fmt::format("; {} are not cached by their mount", uncached);
  if (job.names_skipped != 0) {
    text += fmt::format("; skipped {} that cannot be names of files",
                        counted(job.names_skipped, "key"));
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
  const uint64_t all = job.added + job.changed + job.gone;
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
        fmt::format("skipped {} in {}{}", counted(one.names, "key"), one.directory, example)));
  }
  if (job.names_skipped > named) {
    note(fmt::format("skipped {} in other directories",
                     counted(job.names_skipped - named, "more key", "more keys")));
  }
}

void JobCommand::declare(CLI::App& app) {
  if (request_.kind == "verify") {
    request_.path = "/";
  } else if (board_.cluster) {
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
                 "Read everything back when it is there, and fetch again what does not pass");
    app.add_option("--bandwidth", bandwidth_, "At most so many bytes a second of the store")
        ->type_name("SIZE");
    app.add_option("--requests", request_.requests,
                   board_.cluster ? "At most so many requests at once (16 for each worker)"
                                  : "At most so many requests at once (16)")
        ->type_name("NUMBER")
        ->check(CLI::Range(1, 256).description(""));
    app.add_flag("--strict", strict_, "Fail where the tree has keys that cannot be names of files");
  }
  if (board_.cluster && request_.kind != "free") {
    app.add_option("--every", every_, "Again and again, from beginning to beginning: 12h")
        ->type_name("DURATION");
  }
  if (board_.cluster && (request_.kind == "load" || request_.kind == "copy")) {
    app.add_flag("--on-change", on_change_, "Again when a name in it is found changed");
    app.add_flag("--on-mount", on_mount_, "Again when something is mounted there");
  }
  app.add_flag("--background", background_, "Print the job's number and return at once");
}

void JobCommand::declare_copy(CLI::App& app) {
  app.add_option("TO", request_.to, "A place in the namespace, or a store's URL")
      ->type_name("PATH")
      ->required();
  app.add_flag("-f,--force", force_, "Replace what is there");
  app.add_flag("-u,--update", update_,
               "Replace what is there and is another; what has the same size and is not older is "
               "left in any case");
  app.add_option("--bandwidth", bandwidth_, "At most so many bytes a second")->type_name("SIZE");
  app.add_option("--requests", request_.requests,
                 "At most so many files at once (8 for each worker)")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 256).description(""));
}

Attempt<Json> JobCommand::order() const {
  if (!board_.cluster) return to_json(request_);
  ClusterJobRequest request{.job = request_,
                            .repeat = {.on_change = on_change_, .on_mount = on_mount_}};
  if (!every_.empty()) {
    LEAT_TRY(const auto every, parse_duration(every_));
    if (every < std::chrono::minutes(1)) {
      return failure(StatusCode::kInvalidArgument, "--every is a minute at least");
    }
    request.repeat.every_seconds =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(every).count());
  }
  return to_json(request);
}

Attempt<> JobCommand::run() {
  if (board_.cluster && !request_.path.starts_with('/')) {
    return failure(StatusCode::kInvalidArgument,
                   fmt::format("'{}' is no path of the cluster's namespace, which begin with '/'; "
                               "'leat cluster status' shows what is mounted in it",
                               request_.path));
  }
  if (strict_ && (background_ || stands())) {
    return failure(StatusCode::kInvalidArgument,
                   "--strict decides how the command ends, and with --background, --every, "
                   "--on-change or --on-mount it does not wait for the job; leave it out and see "
                   "'names_skipped' of the job");
  }
  if (!board_.cluster && request_.kind != "verify") {
    LEAT_TRY(request_.path, path_in_mounts(request_.kind, request_.path));
    LEAT_CHECK_OK(check_in_mounts(request_.path));
  }
  LEAT_TRY(request_.selection, selection_.selection());
  if (!bandwidth_.empty()) {
    LEAT_TRY(request_.bandwidth, parse_bytes(bandwidth_));
  }
  if (request_.kind == "copy") request_.over = force_ ? "all" : update_ ? "other" : "nothing";
  LEAT_TRY(const Json ordered, order());
  DaemonClient client(runtime_directory());
  LEAT_TRY(Json answer, client.post(board_.route, ordered));
  LEAT_TRY(JobView job, job_of(board_, answer));
  if (background_ || stands()) {
    if (json) {
      print_json(to_json(job));
    } else if (stands()) {
      print(fmt::format("job {} stands; '{}' shows it, '{} cancel {}' ends it", job.id, board_.jobs,
                        board_.jobs, job.id));
    } else {
      print(fmt::format("job {}; '{}' shows it", job.id, board_.jobs));
    }
    return {};
  }
  LEAT_TRY(JobView ended, wait_for_job(client, board_, std::move(job)));
  Attempt<> done = strict_ ? check_skipped(ended) : Attempt<>();
  if (done) done = report_job(ended, json, quiet);
  if (done || board_.cluster) return done;
  return std::unexpected(explain_missing(std::move(done).error(), ended.path));
}

Attempt<> check_skipped(const JobView& job) {
  if (job.state != "done" || job.names_skipped == 0) return {};
  note_skipped(job);
  Failure incomplete(
      Status(StatusCode::kUnsupported,
             fmt::format("{} of {} is not complete: {}", job.kind, job.path, describe_job(job))));
  incomplete.document = to_json(job);
  return std::unexpected(std::move(incomplete));
}

JobBoard cluster_jobs() {
  return {.route = "/v1/cluster/jobs", .jobs = "leat cluster jobs", .cluster = true};
}

Attempt<JobView> job_of(const JobBoard& board, const Json& answer) {
  if (!board.cluster) {
    LEAT_TRY(JobView job, from_json<JobView>(answer));
    return job;
  }
  LEAT_TRY(ClusterJobView job, from_json<ClusterJobView>(answer));
  return std::move(job.job);
}

// The job continues in the daemon without the command.
Failure left_alone(const JobBoard& board, const JobView& job, int signal) {
  Failure why(Status(StatusCode::kCancelled,
                     fmt::format("interrupted; job {0} goes on: '{1} wait {0}' waits for it, "
                                 "'{1} cancel {0}' ends it",
                                 job.id, board.jobs)),
              exit_code_of_signal(signal));
  why.document = to_json(job);
  return why;
}

// A daemon that took over continues only loads.
Failure lost(Failure why, const JobBoard& board, const JobView& job) {
  if (board.cluster || why.status.code() != StatusCode::kNotFound) return why;
  return {Status(StatusCode::kUnavailable,
                 fmt::format("the daemon ended before the {} of {} was done, and the next one does "
                             "not go on with it; run the command again",
                             job.kind, job.path)),
          ExitCode::kFailed};
}

Attempt<JobView> wait_for_job(DaemonClient& client, const JobBoard& board, JobView job) {
  Progress progress(std::chrono::milliseconds(500));
  std::chrono::milliseconds pause = kFirstPause;
  std::string path = fmt::format("{}/{}", board.route, job.id);
  const InterruptWatch watch;
  while (!job.ended()) {
    if (const int signal = InterruptWatch::noted(); signal != 0) {
      return std::unexpected(left_alone(board, job, signal));
    }
    if (job.state == "waiting") {
      progress.show("waiting for the cluster's leader to begin");
    } else {
      progress.show(progress_of(job));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
    Attempt<Json> answer = client.get(path);
    if (!answer) return std::unexpected(lost(std::move(answer).error(), board, job));
    LEAT_TRY(job, job_of(board, *answer));
  }
  return job;
}

Attempt<> report_job(const JobView& job, bool json, bool quiet) {
  if (!json && !quiet) {
    print_changes(job);
    note_skipped(job);
  }
  if (job.state == "done" && job.files_failed == 0) {
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
                            fmt::format("{} of {} {}: {}, {} failed", job.kind, of, how,
                                        describe_job(job), job.files_failed)));
  incomplete.document = to_json(job);
  return std::unexpected(std::move(incomplete));
}

}  // namespace leat
