// SPDX-License-Identifier: Apache-2.0
// StagedView: the names of a mount's store with its staged changes applied. Each worker of a
// cluster builds the same view from the events of the mount's log.
//
// A reader of the store takes a mark before its request and applies the view to the answer. Changes
// that were done after the mark still count, since the answer may be from before. Only a rename
// that was done meanwhile makes the answer useless: the reader asks again. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/context.h"
#include "source/source.h"
#include "wire/staging_messages.h"

namespace leat {

using StagedChangePtr = std::shared_ptr<const StagedChange>;

// Where a name is.
struct StagedPlace {
  enum class Kind : uint8_t {
    kStore,      // the store has it, under `key`
    kContent,    // a pending save; a holder has its content
    kDirectory,  // a directory that the store may lack; it may have it under `key`
    kMissing,    // removed or renamed
  };
  Kind kind = Kind::kStore;
  std::string key{};
  StagedChangePtr change{};  // of kContent, and of kDirectory if it was made
  uint64_t number = 0;       // of that change
  // For kStore: the store's version `stored` is shown as `shown`. Not known: as it is.
  Version shown{}, stored{};

  // Returns the object of a name that the store need not be asked for. `key` is the name.
  SourceObject object(std::string name, const Id128& log) const;
};

class StagedView {
 public:
  // When the reader of a store's answer asked.
  struct Mark {
    uint64_t position = 0;
    uint64_t renames = 0;
  };

  // Applies events in their order. kOutOfRange if some are missing between.
  Result<> apply(const StagedEvents& events, Clock::time_point now = Clock::now());

  Id128 log() const;
  uint64_t term() const;
  uint64_t position() const;
  Mark mark() const;
  // Returns whether no rename was done since then.
  bool holds(const Mark& mark) const;
  // Returns whether names of the store may differ from those of the view.
  bool is_quiet() const;
  // Returns whether names of the store may move under a reader.
  bool has_renames() const;

  StagedPlace find(std::string_view key, const Mark& mark) const;
  // Returns the object that the store has under `key`, as the view shows it at that place.
  static SourceObject shown(SourceObject object, std::string name, const StagedPlace& place);

  // A directory, without the store's names.
  struct Level {
    bool exists = false;                  // whatever the store says
    std::optional<std::string> stored{};  // where the store has names of it; nothing: nowhere
  };
  Level level(std::string_view directory, const Mark& mark) const;
  // Applies the view to names of a store's level: those after `after`, up to `last` (empty: all).
  // Their keys are below Level::stored; the result's are below `directory`, sorted.
  std::vector<SourceObject> merge(std::string_view directory, std::string_view stored,
                                  std::vector<SourceObject> objects, std::string_view after,
                                  std::string_view last, const Mark& mark) const;

  // A version of this log: its change, and the version in the store if that is known.
  struct Save {
    StagedChangePtr change{};
    bool is_done = false;
    Version stored{};
  };
  std::optional<Save> save(uint64_t number) const;

  // Returns the pending changes by their numbers.
  std::map<uint64_t, StagedChangePtr> pending() const;
  bool is_pending(uint64_t number) const;
  // Returns whether a rename's copies are complete.
  bool is_copied(uint64_t number) const;
  // Returns the number of pending changes at and below `key` up to `number`, renames of its
  // directories among them. An empty key: of all.
  uint64_t pending_below(std::string_view key, uint64_t number) const;
  struct Totals {
    uint64_t changes = 0, bytes = 0;
    WallTime oldest{};
  };
  Totals totals() const;
  // Returns the events that build this view.
  StagedEvents whole() const;

 private:
  // One place after another of an object or a directory: it moves to the next as soon as the change
  // with that number is done.
  struct Step {
    uint64_t number = 0;  // 0: the store has it
    std::string key{};
  };
  using Steps = std::vector<Step>;
  struct Entry {
    enum class Kind : uint8_t { kObject, kDirectory, kMissing };
    Kind kind = Kind::kObject;
    uint64_t number = 0;  // the last change of this name
    uint64_t save = 0;    // of kObject: the change that wrote it; 0: not of this log
    uint64_t done = 0;    // position of that event; 0: pending
    Clock::time_point done_at{};
    Steps steps{};  // of kObject
    Version stored{};
    StagedChangePtr change{};  // of kDirectory
  };
  struct Tree {
    uint64_t number = 0;
    Steps steps{};  // none: nothing is there
  };
  struct Change {
    StagedChangePtr change{};
    bool is_done = false, is_copied = false;
    Version stored{};
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  // The caller holds the mutex, in all of these.
  void append(uint64_t number, StagedChangePtr change);
  void move_file(uint64_t number, const StagedChange& change);
  void move_directory(uint64_t number, const StagedChange& change);
  void make_ancestors(uint64_t number, std::string_view key);
  void done(const StagedEvent& event, Clock::time_point now);
  void finish(Entries::iterator at, const StagedEvent& event, Clock::time_point now);
  void forget(Clock::time_point now);
  void clear();
  bool counts(const Entry& entry, const Mark& mark) const;
  bool is_at(const Step& step) const;
  const std::string& place_of(const Steps& steps) const;
  std::optional<Steps> steps_to(std::string_view key) const;
  StagedPlace place_of(const Entry& entry) const;
  std::optional<std::string> stored_key(std::string_view key) const;
  StagedPlace find_locked(std::string_view key, const Mark& mark) const;
  bool has_names_below(std::string_view directory, const Mark& mark) const;

  mutable std::mutex mutex_;  // leaf
  Id128 log_{};
  uint64_t term_ = 0, position_ = 0, renames_done_ = 0;
  Entries entries_;
  std::map<std::string, Tree, std::less<>> trees_;
  std::map<uint64_t, Change> changes_;  // pending ones, and saves that readers may know
  std::map<uint64_t, StagedChangePtr> pending_;
  uint64_t pending_bytes_ = 0, pending_renames_ = 0;
  std::deque<uint64_t> known_saves_;                                  // done, the oldest first
  std::deque<std::pair<Clock::time_point, std::string>> done_names_;  // that leave the view
};

}  // namespace leat
