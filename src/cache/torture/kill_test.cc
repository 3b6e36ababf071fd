// SPDX-License-Identifier: Apache-2.0
// kill -9 at any moment: a child process fills, reads, evicts, drops and flushes a store. It is
// killed while it starts, verifies, works or closes, and restarted on the same directory. Each
// start compares every byte of every object by every read path. It finds what was flushed, does not
// find what was dropped, and stays within its disk limit.
//
// LEAT_TORTURE_KILLS: rounds. LEAT_TORTURE_SEED: repeats a run.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/read_file.h"
#include "cache/superblock.h"
#include "cache/torture/load_test.h"

namespace leat {
namespace {

using std::chrono::microseconds;

constexpr size_t kObjects = 240;
// The whole working set in both versions has 45 MiB.
constexpr uint64_t kAmpleBytes = 200 * kMiB, kScarceBytes = 64 * kMiB / 3;
constexpr uint64_t kRoundsOfADirectory = 12;

// Input and output of the killed process.
constexpr const char* kDirectory = "LEAT_TORTURE_LIFE";
constexpr const char* kSeed = "LEAT_TORTURE_LIFE_SEED";
constexpr const char* kWorkMs = "LEAT_TORTURE_LIFE_MS";
constexpr const char* kScarce = "LEAT_TORTURE_LIFE_SCARCE";
constexpr const char* kAfterClose = "LEAT_TORTURE_LIFE_AFTER_CLOSE";
enum class Stage : char {
  kStarting = 's',
  kOpen = 'o',
  kChecked = 'v',
  kClosing = 'c',
  kEnd = 'e'
};
constexpr int kStageFd = 9;

void tell(Stage stage) {
  const char letter = static_cast<char>(stage);
  if (::write(kStageFd, &letter, 1) != 1) std::abort();
}

PageStoreOptions options_of(const std::string& directory, bool scarce) {
  PageStoreOptions options = TestStore::options(directory + "/cache");
  options.capacity_bytes = scarce ? kScarceBytes : kAmpleBytes;
  options.compact_interval = std::chrono::milliseconds(2);
  return options;
}

// Compaction moves and removes concurrently: compares two values between which nothing changed.
void expect_all_is_charged(TestStore& store, const std::string& directory) {
  uint64_t charged, on_disk;
  do {
    charged = store->stats().used_bytes;
    on_disk = disk_bytes(directory);
  } while (store->stats().used_bytes != charged);
  EXPECT_LE(on_disk, charged);
}

void live(const std::string& directory) {
  const bool scarce = from_environment(kScarce, 0) != 0;
  Chance chance(from_environment(kSeed, 0));
  const WorkingSet set(kObjects);
  Ledger ledger(set, directory + "/ledger");
  if (scarce) ledger.may_be_evicted();
  const PageStoreOptions options = options_of(directory, scarce);
  TestStore store(options);
  ASSERT_TRUE(store.ok()) << store.failure().to_string();
  tell(Stage::kOpen);
  expect_only_pairs(options.directory);
  expect_all_is_charged(store, options.directory);
  if (from_environment(kAfterClose, 0) != 0) {
    // A clean stop: every complete file is sound, and the kernel may have it once it was read.
    for (size_t number = 0; number < set.size(); ++number) {
      const FileRefPtr& ref = set.at(number);
      const bool complete = !store->packed(*ref) && store->cached_bytes(*ref) == ref->size;
      if (!complete) continue;
      EXPECT_TRUE(store.holds(ref)) << ref->key;
      EXPECT_NE(store->backing(*ref), nullptr) << ref->key;
    }
  }
  expect_ledger_state(store, set, ledger);
  if (testing::Test::HasFailure()) return;
  tell(Stage::kChecked);
  {
    Load load(store, set, ledger, {.seed = chance.seed(), .without_eviction = !scarce});
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(from_environment(kWorkMs, 0));
    while (std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(microseconds(500));
  }
  tell(Stage::kClosing);
  store.close();
  EXPECT_LE(disk_bytes(options.directory), options.capacity_bytes);
  tell(Stage::kEnd);
}

// The child process of the rounds; does nothing without a directory in the environment.
TEST(Kill, Life) {
  const char* directory = std::getenv(kDirectory);  // NOLINT(concurrency-mt-unsafe)
  if (directory != nullptr) live(directory);
}

// When to end a life: this long after it reported the stage.
struct Plan {
  std::optional<Stage> stage;  // none: it ends by itself
  microseconds after{0};
  uint64_t work_ms = 0;

  static Plan draw(Chance& chance) {
    Plan plan;
    plan.work_ms = 20 + chance.below(400);
    uint64_t window_us = 0;
    switch (chance.below(10)) {
      case 0:
        return plan;
      case 1:
      case 2:
        plan.stage = Stage::kStarting;
        window_us = 120'000;
        break;
      case 3:
        plan.stage = Stage::kOpen;
        window_us = 200'000;
        break;
      case 4:
      case 5:
        plan.stage = Stage::kClosing;
        window_us = 20'000;
        break;
      default:
        plan.stage = Stage::kChecked;
        window_us = plan.work_ms * 1000;
    }
    plan.after = microseconds(chance.below(window_us));
    return plan;
  }
};

class Rounds {
 public:
  explicit Rounds(uint64_t seed) : chance_(seed) {}

  void run(uint64_t rounds) {
    for (uint64_t round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
      SCOPED_TRACE(testing::Message() << "round " << round);
      if (round % kRoundsOfADirectory == 0) begin_directory(round / kRoundsOfADirectory);
      one();
    }
    end_directory();
    fmt::print("kills: {} rounds, {} killed, {} ended in order, {} starts compared {} objects\n",
               rounds, killed_, ended_, starts_, checked_);
  }

 private:
  void begin_directory(uint64_t number) {
    end_directory();
    directory_ = std::make_unique<TempDirectory>();
    scarce_ = number % 2 == 1;
    in_order_ = false;
  }
  void end_directory() {
    if (directory_ == nullptr) return;
    Ledger ledger(WorkingSet(kObjects), directory_->path() + "/ledger");
    checked_ += ledger.checked();
    starts_ += ledger.starts();
    directory_.reset();
  }

  void one() {
    const Plan plan = Plan::draw(chance_);
    // The log of the previous life is kept: it may explain a failure of this one.
    const std::string log = fmt::format("{}/log.{}", directory_->path(), (killed_ + ended_) % 2);
    std::array<int, 2> pipe;
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    const std::vector<std::string> environment = {
        fmt::format("{}={}", kDirectory, directory_->path()),
        fmt::format("{}={}", kSeed, chance_.seed()), fmt::format("{}={}", kWorkMs, plan.work_ms),
        fmt::format("{}={}", kScarce, scarce_ ? 1 : 0),
        fmt::format("{}={}", kAfterClose, in_order_ ? 1 : 0)};
    const pid_t life = start(environment, log, pipe[1]);
    ASSERT_GT(life, 0);
    ::close(pipe[1]);
    const bool reached = end_at(plan, life, pipe[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(life, &status, 0), life);
    ::close(pipe[0]);
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    killed_ += was_killed ? 1 : 0;
    ended_ += ended ? 1 : 0;
    const std::string said = *read_file(log);
    const bool complained = said.find(": Failure") != std::string::npos ||
                            said.find("Sanitizer") != std::string::npos ||
                            said.find("runtime error") != std::string::npos;
    EXPECT_TRUE((was_killed && plan.stage) || ended) << "it ended by itself with " << status;
    EXPECT_FALSE(complained);
    if (testing::Test::HasFailure()) keep(said);
    static_cast<void>(reached);
    const std::string cache = options_of(directory_->path(), scarce_).directory;
    if (std::filesystem::exists(cache)) {
      EXPECT_LE(disk_bytes(cache), options_of(directory_->path(), scarce_).capacity_bytes);
    }
    in_order_ = ended;
    if (ended) expect_marked_as_in_order(cache);
  }

  void keep(const std::string& said) {
    const std::string kept = testing::TempDir() + "/leat_killed_" + Id128::random().to_hex();
    std::filesystem::copy(directory_->path(), kept, std::filesystem::copy_options::recursive);
    ADD_FAILURE() << "what it left is in " << kept << "\n" << said.substr(0, 20'000);
  }

  static void expect_marked_as_in_order(const std::string& cache) {
    const std::string bytes = *read_file(cache + "/superblock");
    auto block = Superblock::decode(std::as_bytes(std::span(bytes)), cache);
    ASSERT_TRUE(block);
    EXPECT_TRUE(block->clean);
  }

  static pid_t start(const std::vector<std::string>& given, const std::string& log, int stages) {
    std::vector<std::string> words = {"life", "--gtest_filter=Kill.Life", "--gtest_color=no"};
    std::vector<std::string> environment = given;
    for (char** item = environ; *item != nullptr; ++item) {
      // The result file of the test runner is the parent's.
      if (std::string_view(*item).starts_with("GTEST_")) continue;
      environment.emplace_back(*item);
    }
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& item : environment) envp.push_back(item.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::dup2(stages, kStageFd);
      ::execve("/proc/self/exe", argv.data(), envp.data());
      ::_exit(127);
    }
    ::close(out);
    return pid;
  }

  // Returns true if the stage was reached; the exit status shows a life that ended before.
  static bool end_at(const Plan& plan, pid_t life, int stages) {
    char now = static_cast<char>(Stage::kStarting);
    while (!plan.stage || now != static_cast<char>(*plan.stage)) {
      if (::read(stages, &now, 1) != 1) return false;
    }
    std::this_thread::sleep_for(plan.after);
    ::kill(life, SIGKILL);
    return true;
  }

  Chance chance_;
  std::unique_ptr<TempDirectory> directory_;
  bool scarce_ = false, in_order_ = false;
  uint64_t killed_ = 0, ended_ = 0, starts_ = 0, checked_ = 0;
};

TEST(Kill, AtAnyMomentAndWhatIsLeftIsRight) {
  const uint64_t seed = torture_seed();
  SCOPED_TRACE(testing::Message() << "LEAT_TORTURE_SEED=" << seed);
  Rounds(seed).run(from_environment("LEAT_TORTURE_KILLS", 14));
}

}  // namespace
}  // namespace leat
