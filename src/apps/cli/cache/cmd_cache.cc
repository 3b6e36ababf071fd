// SPDX-License-Identifier: Apache-2.0
// Operator commands on the cache: through the daemon that uses it or, with --cache-dir, on a
// directory that no daemon uses.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <utility>

#include "apps/cli/cache/job_command.h"
#include "apps/cli/cache/offline_cache.h"
#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/command/command_table.h"
#include "apps/cli/command/progress.h"
#include "base/pluralize.h"
#include "base/units.h"
#include "cache/directory/directory_move.h"
#include "config/paths.h"

namespace leat {
namespace {

std::string object_line(const CachedObjectView& object) {
  const std::string cached =
      object.cached_bytes == object.size
          ? format_bytes(object.size)
          : fmt::format("{} of {}", format_bytes(object.cached_bytes), format_bytes(object.size));
  return fmt::format("{:>24}  {}  {}", cached, object.mount.empty() ? "-" : object.mount,
                     object.key);
}

// Prints one JSON document piece by piece, without holding all of it.
class ObjectPrinter {
 public:
  explicit ObjectPrinter(bool json) : json_(json) {}
  void show(const CachedObjectView& object) {
    if (!json_) {
      print(object_line(object));
      return;
    }
    std::fputs(std::exchange(first_, false) ? kBegin : ",", stdout);
    std::fputs(dump_json(to_json(object)).c_str(), stdout);
  }
  void end() {
    if (json_) std::fputs(fmt::format("{}]}}\n", first_ ? kBegin : "").c_str(), stdout);
  }

 private:
  // Printed only with the first result: a failure is a document of its own.
  static constexpr const char* kBegin = "{\"objects\":[";

  const bool json_;
  bool first_ = true;
};

class CacheCommand : public Command {
 public:
  void declare(CLI::App& app) override;
  CommandResult<> run() override { return action_(); }

 private:
  CommandResult<> list();
  CommandResult<> verify();
  CommandResult<> evict();
  CommandResult<> move();
  CommandResult<> format();

  CommandResult<> verify_offline();
  CommandResult<uint64_t> evict_offline(const EvictRequest& request);
  CommandResult<std::string> wanted_mount(const std::string& part) const {
    if (mount_.empty()) return std::string();
    return path_in_mounts("cache " + part + " --mount", mount_);
  }

  std::function<CommandResult<>()> action_;
  std::string directory_, mount_, size_, from_, to_;
  bool all_ = false, yes_ = false;
};

void CacheCommand::declare(CLI::App& app) {
  app.require_subcommand(1);
  app.fallthrough();
  auto add = [&](const char* name, const char* help, CommandResult<> (CacheCommand::*action)()) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([this, action] { action_ = [this, action] { return (this->*action)(); }; });
    return sub;
  };
  CLI::App* list = add("ls", "List cached objects", &CacheCommand::list);
  CLI::App* verify =
      add("verify", "Verify all cached data against its checksums", &CacheCommand::verify);
  CLI::App* evict =
      add("evict", "Evict cached bytes, the least useful first", &CacheCommand::evict);
  for (CLI::App* sub : {list, verify, evict}) {
    sub->add_option("--cache-dir", directory_, "A cache directory that no daemon uses")
        ->type_name("DIR");
  }
  for (CLI::App* sub : {list, evict})
    sub->add_option("--mount", mount_, "Only of this mount")->type_name("MOUNT");
  evict->add_option("--size", size_, "Minimum number of bytes")->type_name("SIZE");
  evict->add_flag("--all", all_, "Everything (without --mount: but what is pinned)");
  CLI::App* move = add("move", "Move a cache directory that no daemon uses", &CacheCommand::move);
  move->add_option("FROM", from_, "The cache directory")->type_name("DIR")->required();
  move->add_option("TO", to_, "New directory; must be empty or missing")
      ->type_name("DIR")
      ->required();
  CLI::App* format = add("format", "Create an empty cache directory", &CacheCommand::format);
  format->add_option("DIR", directory_, "New, empty, or a cache directory that no daemon uses")
      ->type_name("DIR")
      ->required();
  format->add_flag("--yes", yes_, "Format even if the directory has cached data");
}

CommandResult<> CacheCommand::list() {
  LEAT_TRY(const std::string mount, wanted_mount("ls"));
  ObjectPrinter printer(json);
  auto show = [&](const CachedObjectView& object) {
    const bool wanted =
        mount.empty() || object.pool == pool_of_mount(mount) || object.pool == pool_of_path(mount);
    if (wanted) printer.show(object);
  };
  std::string next;
  if (!directory_.empty()) {
    LEAT_TRY(auto cache, OfflineCache::open(absolute_path(directory_)));
    do {
      LEAT_TRY(ObjectPage page, cache->objects(next));
      for (const CachedObject& object : page.objects) {
        show(view_of(object, cache->name_of(object.ref.pool)));
      }
      next = page.next;
    } while (!next.empty());
  } else {
    DaemonClient client(runtime_directory());
    do {
      LEAT_TRY(auto page, client.get_as<CachedListView>("/v1/cache/objects", {{"after", next}}));
      for (const CachedObjectView& object : page.objects) show(object);
      next = page.next;
    } while (!next.empty());
  }
  printer.end();
  return {};
}

CommandResult<> CacheCommand::verify() {
  if (!directory_.empty()) return verify_offline();
  JobCommand job(JobRequest{"verify", "/"});
  job.json = json;
  return job.run();
}

CommandResult<> CacheCommand::verify_offline() {
  LEAT_TRY(auto cache, OfflineCache::open(absolute_path(directory_)));
  Progress progress;
  const PageStoreStats stats = cache->stats();
  ProgressState state{.bytes_total = stats.used_bytes,
                      .files_total = stats.files + stats.packed_objects};
  uint64_t corrupt = 0;
  LEAT_CHECK_OK(cache->verify([&](const VerifyStep& step) {
    state.bytes_done += step.bytes;
    state.files_done += step.objects;
    corrupt += step.corrupt_blocks;
    progress.show(state);
  }));
  const Json document = {
      {"objects", state.files_done}, {"bytes", state.bytes_done}, {"corrupt_blocks", corrupt}};
  if (corrupt > 0) {
    Failure wrong(Status(StatusCode::kCorrupt,
                         fmt::format("{} of the cache did not pass and will be fetched again",
                                     pluralize(corrupt, "block"))));
    wrong.document = document;
    return std::unexpected(std::move(wrong));
  }
  if (json) {
    print_json(document);
  } else {
    print(fmt::format("verified {}, {}", pluralize(state.files_done, "object"),
                      format_bytes(state.bytes_done)));
  }
  return {};
}

CommandResult<> CacheCommand::evict() {
  EvictRequest request;
  LEAT_TRY(request.mount, wanted_mount("evict"));
  if (all_ == !size_.empty()) {
    return failure(StatusCode::kInvalidArgument,
                   "cache evict: how much? Write --size 10GiB, or --all");
  }
  if (!size_.empty()) {
    LEAT_TRY(request.bytes, parse_bytes(size_));
  }
  uint64_t bytes = 0;
  if (!directory_.empty()) {
    LEAT_TRY(bytes, evict_offline(request));
  } else {
    DaemonClient client(runtime_directory());
    LEAT_TRY(Json answer, client.post("/v1/cache/evict", to_json(request)));
    LEAT_TRY(EvictView view, from_json<EvictView>(answer));
    bytes = view.bytes;
  }
  if (json) {
    print_json(to_json(EvictView{bytes}));
  } else {
    print(fmt::format("evicted {}", format_bytes(bytes)));
  }
  return {};
}

CommandResult<uint64_t> CacheCommand::evict_offline(const EvictRequest& request) {
  LEAT_TRY(auto cache, OfflineCache::open(absolute_path(directory_)));
  std::optional<PoolId> pool;
  if (!request.mount.empty()) pool = pool_of_mount(request.mount);
  return cache->evict(pool, request.bytes.value_or(UINT64_MAX));
}

CommandResult<> CacheCommand::move() {
  Executor executor({.threads = 1, .blocking_threads = 1});
  const std::string from = absolute_path(from_), to = absolute_path(to_);
  MoveProgress done;
  {
    Progress progress;
    auto listener = [&](const MoveProgress& now) {
      progress.show({.bytes_done = now.bytes_done,
                     .bytes_total = now.bytes_total,
                     .files_done = now.files_done,
                     .files_total = now.files_total});
    };
    LEAT_TRY(done, move_cache_directory(*make_disk(executor), from, to, listener));
  }
  if (json) {
    print_json(
        {{"from", from}, {"to", to}, {"files", done.files_done}, {"bytes", done.bytes_done}});
  } else {
    print(fmt::format("moved {} in {} to {}; name it with --cache-dir or cache.directory",
                      format_bytes(done.bytes_done), pluralize(done.files_done, "file"), to));
  }
  return {};
}

CommandResult<> CacheCommand::format() {
  Executor executor({.threads = 1, .blocking_threads = 1});
  const std::string directory = absolute_path(directory_);
  std::shared_ptr<Disk> disk = make_disk(executor);
  LEAT_TRY(MoveProgress held, measure_cache_directory(*disk, directory));
  if (held.files_total > 0 && !yes_) {
    return failure(StatusCode::kInvalidArgument,
                   fmt::format("{} holds {} of cached data, which would have to be fetched again; "
                               "add --yes if that is what you want",
                               directory, format_bytes(held.bytes_total)));
  }
  LEAT_CHECK_OK(clear_cache_directory(*disk, directory));
  {
    LEAT_TRY(auto cache, OfflineCache::open(directory));
  }
  if (json) {
    print_json({{"directory", directory}, {"removed_bytes", held.bytes_total}});
  } else {
    print(fmt::format("{} is an empty cache directory", directory));
  }
  return {};
}

}  // namespace

std::unique_ptr<Command> make_cache_command() {
  return std::make_unique<CacheCommand>();
}

}  // namespace leat
