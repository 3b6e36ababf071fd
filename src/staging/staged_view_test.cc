// SPDX-License-Identifier: Apache-2.0
#include "staging/staged_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace leat {
namespace {

using Kind = StagedPlace::Kind;
using Names = std::map<std::string, std::string>;  // key -> content

// Writes of a random program to a bucket in memory, which gets them later. A version names a
// content.
class StagedStore {
 public:
  explicit StagedStore(uint64_t seed) : random_(seed) {
    view.apply({.log = log, .term = 1, .is_whole = true}).value();
    for (const char* key : {"a/x", "a/y", "b/x", "z"}) store[key] = truth[key] = next_content();
  }

  const Id128 log = Id128::random();
  StagedView view;
  Names truth, store;

  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }

  void step() {
    const size_t what = below(10);
    if (what < 4) {
      save(any_file());
    } else if (what < 5 && !truth.empty()) {
      remove(any_present());
    } else if (what < 6 && !truth.empty()) {
      rename_file(any_present(), any_file());
    } else if (what < 7) {
      rename_directory(any_directory(), any_directory());
    } else {
      send();
    }
  }
  void drain() {
    while (!view.pending().empty()) send();
  }

  void save(const std::string& key) {
    if (!can_be_file(key)) return;
    const std::string content = next_content();
    truth[key] = content;
    make_ancestors(key);
    const uint64_t number = append({.key = key, .size = content.size()});
    contents_[number] = content;
  }
  void remove(const std::string& key) {
    truth.erase(key);
    append({.kind = StagedKind::kRemove, .key = key});
  }
  void rename_file(const std::string& from, const std::string& to) {
    if (from == to || !can_be_file(to)) return;
    truth[to] = truth[from];
    truth.erase(from);
    make_ancestors(to);
    append({.kind = StagedKind::kRename, .key = to, .from = from});
  }
  void rename_directory(const std::string& from, const std::string& to) {
    if (from.starts_with(to) || to.starts_with(from)) return;
    if (has_below(truth, to) || !has_below(truth, from)) return;
    move(truth, from, to);
    make_ancestors(to);
    std::erase_if(gone_, [&](const std::string& name) { return name.starts_with(to); });
    gone_.insert(from);
    append({.kind = StagedKind::kRename, .key = to, .from = from});
  }

  // The store gets the next change, or the next of several saves.
  void send() {
    const auto pending = view.pending();
    if (pending.empty()) return;
    std::vector<uint64_t> startable;
    std::set<std::string> keys;
    for (const auto& [number, change] : pending) {
      const bool is_save = change->kind == StagedKind::kSave;
      if (!is_save && !startable.empty()) break;
      if (keys.insert(change->key).second) startable.push_back(number);
      if (!is_save) break;
    }
    const uint64_t number = startable[below(startable.size())];
    const StagedChange& change = *pending.at(number);
    Version version;
    switch (change.kind) {
      case StagedKind::kSave:
        store[change.key] = contents_[number];
        version = Version::etag(contents_[number]);
        break;
      case StagedKind::kRemove:
        store.erase(change.key);
        break;
      case StagedKind::kMakeDirectory:
        break;
      case StagedKind::kRename:
        send_rename(number, change);
        if (!change.key.ends_with('/')) version = Version::etag(store[change.key]);
        break;
    }
    event({.kind = StagedEvent::Kind::kDone, .number = number, .version = version});
  }

  // Compares the view with what the program wrote.
  void check(const StagedView& seen, const Names& answers, const StagedView::Mark& mark) {
    check_contents(seen, answers, mark);
    check_names(seen, answers, mark);
  }
  // The store answers as it was at the mark, or later.
  void check_names(const StagedView& seen, const Names& answers, const StagedView::Mark& mark) {
    for (const std::string& directory : {"", "a/", "b/", "c/", "a/s/", "b/s/", "c/s/"}) {
      std::set<std::string> names = level_of(seen, answers, directory, mark);
      const std::set<std::string> expected = names_in(truth, directory);
      // An empty directory may stay, as where the program leaves a marker.
      std::erase_if(names, [&](const std::string& name) {
        return name.ends_with('/') && !expected.contains(name) && !gone_.contains(name);
      });
      EXPECT_EQ(names, expected) << directory;
    }
  }
  void check_contents(const StagedView& seen, const Names& answers, const StagedView::Mark& mark) {
    for (const std::string& key : all_files()) {
      const StagedPlace place = seen.find(key, mark);
      const auto expected = truth.find(key);
      const std::string content = content_of(place, answers);
      EXPECT_EQ(content, expected == truth.end() ? "" : expected->second) << key;
    }
  }

  uint64_t position = 0;
  std::string history;  // kind of event and change, keys

 private:
  static std::vector<std::string> all_files() {
    std::vector<std::string> files;
    for (const char* directory : {"", "a/", "b/", "c/", "a/s/", "b/s/", "c/s/"}) {
      for (const char* name : {"x", "y", "z"}) files.push_back(std::string(directory) + name);
    }
    return files;
  }
  std::string any_file() {
    const auto files = all_files();
    return files[below(files.size())];
  }
  std::string any_present() { return std::next(truth.begin(), below(truth.size()))->first; }
  std::string any_directory() {
    const std::vector<std::string> all = {"a/", "b/", "c/", "a/s/", "b/s/", "c/s/"};
    return all[below(all.size())];
  }
  bool can_be_file(const std::string& key) const { return !has_below(truth, key + "/"); }
  static bool has_below(const Names& names, const std::string& directory) {
    const auto at = names.lower_bound(directory);
    return at != names.end() && at->first.starts_with(directory);
  }
  static void move(Names& names, const std::string& from, const std::string& to) {
    Names moved;
    for (const auto& [key, content] : names) {
      moved[key.starts_with(from) ? to + key.substr(from.size()) : key] = content;
    }
    names = moved;
  }
  void make_ancestors(const std::string& key) {
    std::erase_if(gone_, [&](const std::string& name) { return key.starts_with(name); });
  }
  std::string next_content() { return fmt::format("content {}", ++contents_made_); }

  uint64_t append(StagedChange change) {
    event({.position = 0, .change = std::move(change)});
    return position;
  }
  void event(StagedEvent event) {
    event.position = ++position;
    history += fmt::format("\n{}: {} {} {} -> {} (of {})", event.position,
                           static_cast<int>(event.kind), static_cast<int>(event.change.kind),
                           event.change.from, event.change.key, event.number);
    if (event.kind == StagedEvent::Kind::kAppend) event.number = position;
    view.apply({.log = log, .term = 1, .position = position, .events = {event}}).value();
  }
  // Half of the renames are copies and removals.
  void send_rename(uint64_t number, const StagedChange& change) {
    Names after = store;
    if (change.key.ends_with('/')) {
      move(after, change.from, change.key);
    } else {
      after[change.key] = after[change.from];
      after.erase(change.from);
    }
    if (below(2) == 0) {
      store.insert(after.begin(), after.end());
      for (const auto& [key, content] : after) store[key] = content;
      event({.kind = StagedEvent::Kind::kCopied, .number = number});
      check(view, store, view.mark());
    }
    store = after;
  }
  std::string content_of(const StagedPlace& place, const Names& answers) {
    if (place.kind == Kind::kContent) return contents_[place.number];
    if (place.kind != Kind::kStore) return "";
    const auto found = answers.find(place.key);
    return found == answers.end() ? "" : found->second;
  }
  static std::set<std::string> names_in(const Names& names, const std::string& directory) {
    std::set<std::string> found;
    for (const auto& [key, content] : names) {
      if (!key.starts_with(directory)) continue;
      const size_t slash = key.find('/', directory.size());
      found.insert(slash == key.npos ? key : key.substr(0, slash + 1));
    }
    return found;
  }
  static std::set<std::string> level_of(const StagedView& seen, const Names& answers,
                                        const std::string& directory,
                                        const StagedView::Mark& mark) {
    const StagedView::Level level = seen.level(directory, mark);
    std::vector<SourceObject> listed;
    if (level.stored) {
      for (const std::string& name : names_in(answers, *level.stored)) {
        SourceObject object;
        object.key = name;
        listed.push_back(object);
      }
    }
    std::set<std::string> names;
    for (const SourceObject& object :
         seen.merge(directory, level.stored.value_or(directory), listed, "", "", mark)) {
      names.insert(object.key);
    }
    return names;
  }

  std::mt19937_64 random_;
  uint64_t contents_made_ = 0;
  std::map<uint64_t, std::string> contents_;
  std::set<std::string> gone_;  // directories that were renamed
};

class StagedViewModel : public ::testing::TestWithParam<uint64_t> {};

TEST_P(StagedViewModel, ShowsWhatTheProgramWrote) {
  StagedStore model(GetParam());
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("step {}", i));
    model.step();
    SCOPED_TRACE(model.history);
    model.check(model.view, model.store, model.view.mark());
    if (i % 5 != 0) continue;
    // Another worker, which begins now.
    StagedView late;
    SCOPED_TRACE("late");
    ASSERT_TRUE(late.apply(model.view.whole()));
    model.check(late, model.store, late.mark());
    EXPECT_EQ(late.position(), model.view.position());
  }
  model.drain();
  EXPECT_EQ(model.store, model.truth);
  model.check(model.view, model.store, model.view.mark());
}

TEST_P(StagedViewModel, OldAnswersOfTheStoreAreRepaired) {
  StagedStore model(GetParam());
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("step {}{}", i, model.history));
    for (int more = 0; more < 3; ++more) model.step();
    const StagedView::Mark mark = model.view.mark();
    const Names before = model.store;
    for (int more = 0; more < 3; ++more) model.send();
    if (!model.view.holds(mark)) continue;
    model.check_names(model.view, before, mark);
    model.check(model.view, model.store, mark);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StagedViewModel, ::testing::Range<uint64_t>(0, 20));

class StagedNames : public ::testing::Test {
 protected:
  StagedNames() { view.apply({.log = log, .term = 1, .is_whole = true}).value(); }

  uint64_t append(StagedChange change) {
    ++position;
    StagedEvent event{.position = position, .number = position, .change = std::move(change)};
    view.apply({.log = log, .term = 1, .position = position, .events = {event}}).value();
    return position;
  }
  void done(uint64_t number, const Version& version = {}) {
    StagedEvent event{.kind = StagedEvent::Kind::kDone,
                      .position = ++position,
                      .number = number,
                      .version = version};
    view.apply({.log = log, .term = 1, .position = position, .events = {event}}).value();
  }
  StagedPlace find(std::string_view key) { return view.find(key, view.mark()); }

  const Id128 log = Id128::random();
  StagedView view;
  uint64_t position = 0;
};

TEST_F(StagedNames, VersionOutlivesTheUpload) {
  const uint64_t number = append({.key = "a", .size = 3});
  EXPECT_EQ(find("a").object("a", log).version, staged_version(log, number));
  done(number, Version::etag("\"real\""));
  SourceObject stored;
  stored.key = "a";
  stored.version = Version::etag("\"real\"");
  EXPECT_EQ(StagedView::shown(stored, "a", find("a")).version, staged_version(log, number));
  // Somebody else wrote it in the store.
  stored.version = Version::etag("\"other\"");
  EXPECT_EQ(StagedView::shown(stored, "a", find("a")).version, stored.version);
  EXPECT_TRUE(view.save(number)->is_done);
}

TEST_F(StagedNames, RenamedSaveKeepsItsVersion) {
  const uint64_t number = append({.key = "tmp", .size = 3});
  const uint64_t rename = append({.kind = StagedKind::kRename, .key = "final", .from = "tmp"});
  EXPECT_EQ(find("final").object("final", log).version, staged_version(log, number));
  EXPECT_EQ(find("tmp").kind, Kind::kMissing);
  done(number, Version::etag("\"1\""));
  EXPECT_EQ(find("final").key, "tmp");
  EXPECT_EQ(find("final").shown, staged_version(log, number));
  done(rename, Version::etag("\"2\""));
  EXPECT_EQ(find("final").key, "final");
  EXPECT_EQ(find("final").stored, Version::etag("\"2\""));
  EXPECT_EQ(find("final").shown, staged_version(log, number));
}

TEST_F(StagedNames, RemovedDirectoryIsGoneUntilItHasNames) {
  const uint64_t removal = append({.kind = StagedKind::kRemove, .key = "d/"});
  EXPECT_EQ(find("d/").kind, Kind::kMissing);
  EXPECT_FALSE(view.level("d/", view.mark()).exists);
  append({.key = "d/x"});
  EXPECT_EQ(find("d/").kind, Kind::kDirectory);
  done(removal);
  EXPECT_TRUE(view.level("d/", view.mark()).exists);
}

TEST_F(StagedNames, MissingEventsAreNoticed) {
  append({.key = "a"});
  const StagedEvents late{.log = log, .term = 1, .position = 9, .events = {{.position = 9}}};
  EXPECT_EQ(view.apply(late).error().code(), StatusCode::kOutOfRange);
  const StagedEvents other{.log = Id128::random(), .term = 1, .position = 2};
  EXPECT_EQ(view.apply(other).error().code(), StatusCode::kOutOfRange);
}

TEST_F(StagedNames, PendingBelowCountsRenamesOfParents) {
  append({.key = "a/x"});
  append({.key = "b"});
  append({.kind = StagedKind::kRename, .key = "c/", .from = "a/"});
  EXPECT_EQ(view.pending_below("", 0), 3);
  EXPECT_EQ(view.pending_below("a", 0), 2);
  EXPECT_EQ(view.pending_below("a", 1), 1);
  EXPECT_EQ(view.pending_below("b", 0), 1);
  EXPECT_EQ(view.pending_below("c/x", 0), 1);
  EXPECT_EQ(view.pending_below("d", 0), 0);
}

}  // namespace
}  // namespace leat
