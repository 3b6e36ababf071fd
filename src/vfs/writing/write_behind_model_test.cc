// SPDX-License-Identifier: Apache-2.0
// Random changes of a folder with write=back, beside a model: with uploads in between, restarts,
// and answers of the store that are lost.
#include <fcntl.h>

#include <random>

#include "catalog/mount_table.h"
#include "model/mount_entry.h"
#include "vfs/writing/write_behind_test.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNames[] = {"a", "b", "c", "d"};

int seeds() {
  const char* given = std::getenv("LEAT_TORTURE_SEEDS");
  return given == nullptr ? 20 : std::stoi(given);
}

class WriteBehindModel : public WriteBehind, public ::testing::WithParamInterface<int> {
 protected:
  // With few names, files and directories often have the name of another one before them.
  WriteBehindModel()
      : chance_(static_cast<unsigned>(GetParam())), names_(GetParam() % 3 == 0 ? 2 : 4) {}

  size_t below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(chance_);
  }

  // A path of one to three names.
  std::string some_path() {
    std::string path;
    const size_t depth = 1 + below(3);
    for (size_t level = 0; level < depth; ++level) path.append("/").append(kNames[below(names_)]);
    return path;
  }
  bool is_directory(const std::string& path) const {
    if (path == "/") return true;
    const auto found = model_.find(path);
    return found != model_.end() && !found->second;
  }
  bool is_parent(const std::string& path) const {
    return is_directory(std::string(parent_path(path)));
  }
  bool has_names(const std::string& path) const {
    return model_.upper_bound(path + "/") != model_.lower_bound(path + "0");
  }
  void TearDown() override {
    rig.reset();  // its uploads use the rest
    if (HasFailure()) std::printf("%s\n", history_.c_str());
  }
  template <class... Words>
  void note(fmt::format_string<Words...> words, Words&&... values) {
    std::lock_guard lock(history_mutex_);
    history_ += fmt::format(words, std::forward<Words>(values)...) + "\n";
  }

  // Looks a name up, and holds its node until forget_all(). 0: it is not there.
  NodeId hold(NodeId parent, const std::string& name) {
    const Result<NodeAttributes> found = rig->lookup(parent, name);
    if (!found) return 0;
    held_.push_back(found->node);
    return found->node;
  }
  void forget_all() {
    for (const NodeId node : held_) rig->files->forget(node, 1);
    held_.clear();
  }
  // 0: it is not there.
  NodeId find(std::string_view path) {
    NodeId at = kRootNode;
    while (path.size() > 1) {
      path.remove_prefix(1);
      const std::string_view name = path.substr(0, path.find('/'));
      path.remove_prefix(name.size());
      at = hold(at, std::string(name));
      if (at == 0) return 0;
    }
    return at;
  }
  NodeId parent_of(const std::string& path) { return find(parent_path(path)); }
  static std::string name_of(const std::string& path) { return std::string(last_component(path)); }

  void write(const std::string& path) {
    if (!is_parent(path) || is_directory(path)) return;
    const std::string text = fmt::format("{} {}", path, ++number_);
    note("write {}", path);
    put(name_of(path), text, parent_of(path));
    model_[path] = text;
  }
  void make(const std::string& path) {
    if (!is_parent(path) || model_.contains(path)) return;
    note("make {}", path);
    const Result<NodeAttributes> made = rig->make_directory(parent_of(path), name_of(path));
    ASSERT_TRUE(made) << made.error().to_string();
    held_.push_back(made->node);
    model_[path] = std::nullopt;
  }
  void remove(const std::string& path) {
    if (!model_.contains(path)) return;
    const bool directory = is_directory(path);
    if (directory && has_names(path)) return;
    note("remove {}", path);
    const std::string done = directory ? rig->remove_directory(parent_of(path), name_of(path))
                                       : rig->remove_file(parent_of(path), name_of(path));
    ASSERT_EQ(done, "ok") << path;
    model_.erase(path);
  }
  void rename(const std::string& from, const std::string& to) {
    if (!model_.contains(from) || !is_parent(to) || from == to) return;
    if (is_at_or_below(to, from)) return;
    if (model_.contains(to)) {
      if (is_directory(to) != is_directory(from)) return;
      if (is_directory(to) && has_names(to)) return;
    }
    note("rename {} to {}", from, to);
    ASSERT_EQ(rig->rename(parent_of(from), name_of(from), parent_of(to), name_of(to)), "ok")
        << from << " to " << to;
    std::map<std::string, std::optional<std::string>> moved;
    for (const auto& [path, text] : model_) {
      if (is_at_or_below(path, from)) moved[to + path.substr(from.size())] = text;
    }
    std::erase_if(model_, [&](const auto& one) { return is_at_or_below(one.first, from); });
    for (auto& [path, text] : moved) model_[path] = std::move(text);
  }
  void change() {
    const std::string path = some_path();
    switch (below(8)) {
      case 0:
      case 1:
        return write(path);
      case 2:
        return make(path);
      case 3:
        return remove(path);
      default:
        return rename(path, some_path());
    }
  }
  // The folder, by listings from the root.
  std::map<std::string, std::optional<std::string>> shown() {
    std::map<std::string, std::optional<std::string>> all;
    std::vector<std::pair<std::string, NodeId>> left{{"", kRootNode}};
    while (!left.empty()) {
      const auto [path, node] = left.back();
      left.pop_back();
      const auto opened = rig->open_directory(node);
      if (!opened) all[path] = opened.error().to_string();
      if (!opened) continue;
      for (Listing::Cursor cursor = (*opened)->from(0); cursor.next();) {
        const FileInfo info = cursor.entry().info;
        const std::string below = path + "/" + info.name;
        if (info.kind == FileKind::kDirectory) {
          const Result<NodeAttributes> found = rig->lookup(node, info.name);
          if (found) held_.push_back(found->node);
          all[below] = found ? std::nullopt : std::optional(found.error().to_string());
          if (found) left.emplace_back(below, found->node);
        } else {
          all[below] = rig->content(node, info.name);
          EXPECT_EQ(info.size, all[below]->size()) << below;
        }
      }
    }
    forget_all();
    return all;
  }
  std::map<std::string, std::optional<std::string>> files() const {
    std::map<std::string, std::optional<std::string>> all = model_;
    std::erase_if(all, [](const auto& one) { return !one.second; });
    return all;
  }
  // The files of the store.
  std::map<std::string, std::optional<std::string>> stored() {
    std::map<std::string, std::optional<std::string>> all;
    std::istringstream keys(rig->keys());
    for (std::string key; keys >> key;) {
      if (!key.ends_with('/')) all["/" + key] = rig->stored(key);
    }
    return all;
  }

  std::mt19937 chance_;
  const size_t names_;
  std::map<std::string, std::optional<std::string>> model_;  // path -> content; none: a directory
  int number_ = 0;
  std::atomic<unsigned> lost_ = 0;
  std::mutex history_mutex_;
  std::string history_;  // since the store had everything
  std::vector<NodeId> held_;
};

TEST_P(WriteBehindModel, FolderAndStoreAreAsTheModel) {
  const bool loses = GetParam() % 2 == 1;
  writing.bucket->changed.renames = GetParam() % 4 < 2;
  writing.bucket->after = [this, loses](std::string_view operation,
                                        const std::string& key) -> Result<> {
    if (operation == "stat") return {};
    const bool is_lost = loses && ++lost_ % 7 == 0;
    note("  in the store: {} {}{}", operation, key, is_lost ? ", answer lost" : "");
    if (!is_lost) return {};
    return error(StatusCode::kUnavailable, "the answer is lost");
  };
  auto drained = [&] {
    Result<> done = rig->drain();
    for (int attempt = 0; attempt < 100 && !done; ++attempt) done = rig->drain();
    return done;
  };
  for (int round = 0; round < 12; ++round) {
    forget_all();
    note("start");
    start(round % 3 == 0 ? 0ms : round % 3 == 1 ? 5ms : Clock::duration(1h));
    for (int number = 0; number < 40; ++number) {
      change();
      if (HasFatalFailure()) return;
      if (below(3) == 0) forget_all();
      if (below(10) == 0) ASSERT_EQ(shown(), model_);
    }
    ASSERT_EQ(shown(), model_);
    if (below(2) == 0) {
      note("drain");
      const Result<> done = drained();
      ASSERT_TRUE(done) << done.error().to_string();
      ASSERT_EQ(stored(), files());
      ASSERT_EQ(shown(), model_);
      history_.clear();
    }
  }
  const Result<> done = drained();
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(stored(), files());
  forget_all();
  start();
  EXPECT_EQ(shown(), model_);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WriteBehindModel, ::testing::Range(0, seeds()));

}  // namespace
}  // namespace leat::testing
