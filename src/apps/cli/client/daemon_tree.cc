// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/client/daemon_client.h"
#include "apps/cli/client/mount_paths.h"
#include "apps/cli/client/path_tree.h"
#include "config/paths.h"
#include "model/mount_entry.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

Task<Result<>> pass_to_sink(const ByteSink* sink, Bytes piece) {
  for (const Slice& slice : piece.slices()) {
    Result<> taken = (*sink)(slice.span());
    if (!taken) co_return taken;
  }
  co_return Result<>();
}

class DaemonTree : public PathTree {
 public:
  CommandResult<StatView> stat(const std::string& path, bool) override {
    auto found = client_.get_as<StatView>("/v1/stat", {{"path", path}});
    return with_mount_error(std::move(found), path);
  }

  CommandResult<uint64_t> list(const std::string& path, bool cached,
                               const EntryCallback& each) override {
    Query query = {{"path", path}};
    if (cached) query["cached"] = "1";
    while (true) {
      auto response = client_.get_as<ListView>("/v1/ls", query);
      LEAT_TRY(ListView page, with_mount_error(std::move(response), path));
      for (const EntryView& entry : page.entries) LEAT_CHECK_OK(each(entry));
      if (page.next.empty()) return page.skipped;
      query["after"] = page.next;
    }
  }

  CommandResult<> read(const std::string& path, uint64_t offset, uint64_t size,
                       const ByteSink& sink) override {
    Query query = {
        {"path", path}, {"offset", std::to_string(offset)}, {"size", std::to_string(size)}};
    auto done = client_.stream(
        "/v1/cat", query, [&sink](Bytes piece) { return pass_to_sink(&sink, std::move(piece)); });
    return with_mount_error(std::move(done), path);
  }

 private:
  template <class T>
  CommandResult<T> with_mount_error(CommandResult<T> answer, const std::string& path) {
    if (answer) return answer;
    return std::unexpected(explain_missing(std::move(answer).error(), path));
  }

  DaemonClient client_{runtime_directory()};
};

}  // namespace

std::unique_ptr<PathTree> make_daemon_tree() {
  return std::make_unique<DaemonTree>();
}

CommandResult<Target> open_target(const std::string& argument) {
  if (!is_store_url(argument)) return Target{make_daemon_tree(), absolute_path(argument)};
  LEAT_TRY(StoreUrl url, StoreUrl::parse(argument));
  LEAT_TRY(std::unique_ptr<PathTree> tree, make_store_tree(url));
  std::string path = "/" + url.prefix;
  if (path.size() > 1) path.pop_back();
  return Target{std::move(tree), std::move(path)};
}

bool is_in_namespace(const std::string& path) {
  DaemonClient client(runtime_directory());
  const std::optional<Json> answer = client.try_get("/v1/mounts", std::chrono::seconds(10));
  if (!answer) return false;
  for (const Json& item : answer->value("mounts", Json::array())) {
    auto mount = from_json<MountView>(item);
    if (mount && is_at_or_below(path, mount->path)) return true;
  }
  return false;
}

std::string child_path(const std::string& parent, const std::string& name) {
  return parent.ends_with('/') ? parent + name : parent + "/" + name;
}

}  // namespace leat
