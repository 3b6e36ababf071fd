// SPDX-License-Identifier: Apache-2.0
// The calling thread walks the tree and fills a bounded queue; worker threads take from it.
#include "apps/cli/data/tree_copy.h"

#include <fmt/format.h>

#include <set>
#include <thread>

#include "apps/cli/command/interrupt.h"
#include "base/pluralize.h"
#include "base/text_table.h"

namespace leat {
namespace {

constexpr size_t kQueueMax = 1000;

bool interrupted() {
  return InterruptWatch::signal_received() != 0;
}

Result<> check_interrupted() {
  if (!interrupted()) return {};
  return error(StatusCode::kCancelled, "the copy was interrupted");
}

}  // namespace

CopyReport TreeCopy::run(auto plan_all) {
  InterruptWatch watch;
  const std::jthread clock([this](const std::stop_token& ended) { refresh_progress(ended); });
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < options_.files_max; ++i) workers.emplace_back([this] { work(); });
  plan_all();
  {
    std::lock_guard lock(mutex_);
    planned_ = true;
  }
  changed_.notify_all();
  workers.clear();
  report_.signal = InterruptWatch::signal_received();
  return std::move(report_);
}

CopyReport TreeCopy::copy_file(const EntryView& entry, const std::string& from,
                               const std::string& to) {
  return run([&] { plan({entry, from, to}); });
}

CopyReport TreeCopy::copy_directory(const std::string& from, const std::string& to) {
  return run([&] { walk(from, to, ""); });
}

void TreeCopy::walk(const std::string& from, const std::string& to, const std::string& below) {
  std::vector<EntryView> entries;
  std::set<std::string> directories;
  EntryCallback each = [&](const EntryView& entry) -> CommandResult<> {
    if (entry.kind == FileKind::kDirectory) directories.insert(entry.name);
    entries.push_back(entry);
    LEAT_CHECK_OK(check_interrupted());
    return {};
  };
  CommandResult<uint64_t> listed = from_.list(from, false, each);
  if (!listed) return record_failure(from, listed.error());
  if (*listed != 0)
    skip_unsupported(*listed,
                     fmt::format("{} in {} cannot be files", pluralize(*listed, "name"), from));
  if (entries.empty() && *listed == 0) record_empty(from);
  // With a filter, a directory is created only for files in it.
  if (options_.filter.everything() && !options_.dry_run) {
    if (CommandResult<> made = to_.make_directory(to); !made)
      return record_failure(to, made.error());
  }
  for (const EntryView& entry : entries) {
    if (interrupted()) return;
    const std::string name = below.empty() ? entry.name : below + "/" + entry.name;
    const std::string source = child_path(from, entry.name);
    if (entry.kind == FileKind::kDirectory) {
      if (entry.name.empty() || entry.name == "." || entry.name == "..") {
        skip_unsupported(1, fmt::format("'{}' in {} is no name for a folder", entry.name, from));
      } else if (options_.filter.may_hold(name)) {
        walk(source, to_.child(to, entry.name), name);
      }
      continue;
    }
    if (!options_.filter.matches(name)) continue;
    // As in the namespace: if an object and a prefix have one name, the prefix wins.
    if (directories.contains(entry.name)) {
      skip_unsupported(
          1, fmt::format("the object {} is left out: a prefix has the same name", source));
      continue;
    }
    if (!options_.filter.everything() && !options_.dry_run) {
      if (CommandResult<> made = to_.make_directory(to); !made)
        return record_failure(to, made.error());
    }
    plan({entry, source, to_.child(to, entry.name)});
  }
}

void TreeCopy::record_empty(const std::string& directory) {
  if (!options_.filter.everything() || to_.has_directories()) return;
  std::lock_guard lock(mutex_);
  if (report_.empty_directories++ == 0) report_.empty_directory = directory;
}

void TreeCopy::plan(Work work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < kQueueMax || interrupted(); });
  ++files_found_;
  bytes_found_ += work.entry.size;
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void TreeCopy::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    // A signal does not notify the condition variable.
    while (queue_.empty() && !planned_) changed_.wait_for(lock, std::chrono::milliseconds(200));
    if (queue_.empty() || interrupted()) return;
    Work next = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    lock.unlock();
    copy(next);
    lock.lock();
  }
}

// Decides whether to copy the file at all.
CommandResult<bool> TreeCopy::should_copy(const Work& work, bool& replace) {
  replace = options_.force;
  if (!options_.update) return true;
  LEAT_TRY(std::optional<EntryView> there, to_.find(work.to));
  if (!there) return true;
  if (there->kind == FileKind::kDirectory) {
    return failure(StatusCode::kIsDirectory, to_.name_of(work.to) + " is a directory");
  }
  if (to_.same(work.entry, *there)) return false;
  replace = true;
  return true;
}

void TreeCopy::copy(const Work& work) {
  bool replace = false;
  CommandResult<bool> copies = should_copy(work, replace);
  CommandResult<> done;
  if (!copies) {
    done = std::unexpected(copies.error());
  } else if (*copies && options_.dry_run) {
    std::lock_guard lock(mutex_);
    progress_.clear();
    print(printable(fmt::format("{} -> {}", work.from, to_.name_of(work.to))));
  } else if (*copies) {
    done = transfer(work, replace);
  }
  if (!done) {
    record_failure(work.from, done.error());
    std::lock_guard lock(mutex_);
    bytes_found_ -= work.entry.size;
    return;
  }
  std::lock_guard lock(mutex_);
  ++state_.files_done;
  if (*copies) {
    ++report_.files;
    report_.bytes += work.entry.size;
  } else {
    ++report_.skipped;
    bytes_found_ -= work.entry.size;
  }
  show_progress();
}

void TreeCopy::show_progress() {
  state_.files_total = files_found_;
  state_.bytes_total = bytes_found_;
  state_.totals_grow = !planned_;
  progress_.show(state_);
}

// Updates the line even while no byte arrives, or a store copies by itself.
void TreeCopy::refresh_progress(const std::stop_token& ended) {
  std::unique_lock lock(mutex_);
  while (!ended.stop_requested()) {
    show_progress();
    ticks_.wait_for(lock, ended, std::chrono::milliseconds(200), [] { return false; });
  }
}

CommandResult<> TreeCopy::transfer(const Work& work, bool replace) {
  uint64_t received = 0;
  Incoming file{.entry = work.entry, .read = {}, .object = from_.object_at(work.from)};
  file.read = [&](const ByteSink& sink) {
    ByteSink counted = [&](std::span<const std::byte> data) -> Result<> {
      LEAT_CHECK_OK(check_interrupted());
      LEAT_CHECK_OK(wait_for_bandwidth(data.size()));
      LEAT_CHECK_OK(sink(data));
      received += data.size();
      std::lock_guard lock(mutex_);
      state_.bytes_done += data.size();
      show_progress();
      return {};
    };
    return from_.read(work.from, 0, UINT64_MAX, counted);
  };
  CommandResult<> written = to_.write(file, work.to, replace);
  {
    std::lock_guard lock(mutex_);
    state_.bytes_done -= received;
    // Includes files that a store copied itself, without bytes here.
    if (written) state_.bytes_done += work.entry.size;
  }
  if (written) return {};
  if (written.error().status.code() != StatusCode::kExists) return written;
  return failure(StatusCode::kExists,
                 fmt::format("cannot copy {} to {}: that exists already; --force overwrites it, "
                             "--update where it is another",
                             work.from, to_.name_of(work.to)));
}

// Returns when this piece and those before it have passed at the limited rate.
Result<> TreeCopy::wait_for_bandwidth(uint64_t bytes) {
  if (!limiter_.limited()) return {};
  const Clock::time_point through = limiter_.reserve(bytes).ends;
  while (Clock::now() < through) {
    LEAT_CHECK_OK(check_interrupted());
    std::this_thread::sleep_until(std::min(through, Clock::now() + std::chrono::milliseconds(200)));
  }
  return {};
}

void TreeCopy::record_failure(const std::string& what, const Failure& why) {
  if (interrupted() && why.status.code() == StatusCode::kCancelled) return;
  std::string text = why.status.to_string();
  if (!text.contains(what)) text = fmt::format("cannot copy {}: {}", what, text);
  std::lock_guard lock(mutex_);
  progress_.clear();
  note(printable(text));
  if (report_.failed++ == 0) report_.code = why.status.code();
  if (report_.errors.size() < kErrorsMax) report_.errors.push_back(std::move(text));
}

void TreeCopy::skip_unsupported(uint64_t count, const std::string& why) {
  std::lock_guard lock(mutex_);
  report_.unsupported += count;
  progress_.clear();
  note(printable(why));
}

}  // namespace leat
