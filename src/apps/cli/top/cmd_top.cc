// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "apps/cli/command/command_table.h"
#include "apps/cli/top/top_feed.h"
#include "apps/cli/top/top_layout.h"
#include "apps/cli/top/top_screen.h"
#include "base/units.h"
#include "config/paths.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock::time_point;

constexpr std::chrono::nanoseconds kIntervalMin = 100ms;
constexpr std::chrono::nanoseconds kIntervalMax = 1h;
// Intervals that + and - select.
constexpr std::array<std::chrono::nanoseconds, 10> kIntervals = {100ms, 200ms, 500ms, 1s,  2s,
                                                                 5s,    10s,   30s,   60s, 5min};
// A hanging daemon blocks the screen's keys for at most this time.
constexpr auto kTimeout = 1s;
// Polling interval while no daemon responds.
constexpr std::chrono::nanoseconds kRetryInterval = 250ms;
// Restarts of the daemon before --once gives up.
constexpr int kDaemonsMax = 5;

const std::vector<std::string> kHelp = {
    "leat top",
    "",
    "q        quit",
    "p, space pause, and go on",
    "+ -      a longer or a shorter interval",
    "s, tab   the next view: overview, mounts, slow operations",
    "? h      this page, and back",
    "",
    "'to programs' counts reads that the daemon answered. The kernel reads complete cached",
    "files by itself (passed through) and answers from its page cache; it counts neither.",
    "'loaded' counts bytes from stores: for readers, prefetch and load jobs.",
};

class TopShow {
 public:
  TopShow(DaemonClient& client, std::chrono::nanoseconds interval, bool utf8)
      : feed_(client), runtime_(client.runtime()), interval_(interval), utf8_(utf8) {}

  // Runs until the user or a signal ends it. Returns the signal; 0: none.
  int run(TopScreen& screen, TopSnapshot first) {
    last_ = std::move(first);
    if (auto kept = feed_.history(kTimeout)) {
      history_.begin_with(*kept, std::chrono::steady_clock::now());
    }
    for (Time next = last_->at + interval_;;) {
      draw(screen);
      const ScreenEvent event = screen.wait_until(paused_ ? Time::max() - 24h : next);
      switch (event.kind) {
        case ScreenEvent::Kind::kEnded:
          return event.value;
        case ScreenEvent::Kind::kResized:
          break;
        case ScreenEvent::Kind::kKey:
          if (event.value == 'q' || event.value == 'Q') return 0;
          if (on_key(event.value)) next = std::chrono::steady_clock::now() + interval_;
          break;
        case ScreenEvent::Kind::kTime:
          if (!paused_) {
            update();
            next = std::chrono::steady_clock::now() + (away_ ? kRetryInterval : interval_);
          }
      }
    }
  }

 private:
  void update() {
    std::optional<TopSnapshot> now = feed_.try_fetch(kTimeout);
    away_ = !now;
    if (!now) return;
    if (auto sample = sample_between(*last_, *now)) {
      history_.add(now->at, sample->seconds, sample->bytes_per_second);
      sample_ = std::move(sample);
      note_.clear();
    } else if (now->at > last_->at) {
      note_ = fmt::format("the daemon with pid {} is new", now->status.pid);
    }
    last_ = std::move(now);
  }

  // Returns whether the key changes the time of the next sample.
  bool on_key(int key) {
    switch (key) {
      case 'p':
      case ' ':
        paused_ = !paused_;
        return true;
      case '+':
        change_interval(true);
        return true;
      case '-':
        change_interval(false);
        return true;
      case 's':
      case '\t':
        view_ = static_cast<TopView>((static_cast<int>(view_) + 1) % 3);
        help_ = false;
        return false;
      case '?':
      case 'h':
        help_ = !help_;
        return false;
      default:
        return false;
    }
  }

  void change_interval(bool longer) {
    if (longer) {
      auto next = std::ranges::upper_bound(kIntervals, interval_);
      if (next != kIntervals.end()) interval_ = *next;
    } else {
      auto same = std::ranges::lower_bound(kIntervals, interval_);
      if (same != kIntervals.begin()) interval_ = *(same - 1);
    }
  }

  void draw(TopScreen& screen) const {
    const std::string last =
        fmt::format("{}, every {}{}   q quit  p pause  + - interval  s next view  ? help",
                    to_string(view_), format_duration(interval_), paused_ ? ", paused" : "");
    if (help_) {
      screen.draw(kHelp, last);
      return;
    }
    const TopStyle style{.utf8 = utf8_, .columns = screen.columns()};
    std::vector<std::string> lines;
    if (sample_) {
      const Time now = std::chrono::steady_clock::now();
      lines = top_lines(*sample_, view_, style, history_.by_second(paused_ ? last_->at : now));
    } else {
      lines.push_back(fmt::format("leat {}, pid {}; figures come after one interval",
                                  last_->status.version, last_->status.pid));
    }
    if (away_) {
      lines[0] = fmt::format("no daemon answers at {}: waiting for the next one", runtime_);
    } else if (!note_.empty()) {
      lines[0] += "; " + note_;
    }
    screen.draw(lines, last);
  }

  TopFeed feed_;
  const std::string runtime_;
  std::chrono::nanoseconds interval_;
  const bool utf8_;
  TopView view_ = TopView::kOverview;
  bool paused_ = false, help_ = false, away_ = false;
  std::string note_;
  std::optional<TopSnapshot> last_;
  std::optional<TopSample> sample_;
  TopHistory history_;
};

class TopCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--interval", interval_, "Refresh interval, 100ms to 1h (1s)")
        ->type_name("DURATION");
    app.add_flag("--once", once_,
                 "Print one sample after one interval; the default without a terminal");
  }

  CommandResult<> run() override {
    LEAT_TRY(auto interval, parse_duration(interval_));
    if (interval < kIntervalMin || interval > kIntervalMax) {
      return failure(StatusCode::kInvalidArgument,
                     fmt::format("--interval {} is not from 100ms to 1h", interval_));
    }
    const bool utf8 = use_terminal_locale();
    if (once_ || json || isatty(STDOUT_FILENO) != 1) return show_once(interval, utf8);
    // Another client waits for a daemon that is starting, while signals still end the command. The
    // client for the screen creates its threads when signals are blocked.
    LEAT_TRY(TopSnapshot first, first_snapshot());
    LEAT_TRY(int ended_by, show(interval, utf8, std::move(first)));
    if (ended_by != 0) TerminalSignals::die_of(ended_by);
    return {};
  }

 private:
  CommandResult<> show_once(std::chrono::nanoseconds interval, bool utf8) {
    DaemonClient client(runtime_directory());
    TopFeed feed(client);
    LEAT_TRY(TopSnapshot before, feed.fetch());
    for (int i = 0; i < kDaemonsMax; ++i) {
      std::this_thread::sleep_for(interval);
      LEAT_TRY(TopSnapshot after, feed.fetch());
      if (auto sample = sample_between(before, after)) {
        print_sample(*sample, utf8);
        return {};
      }
      before = std::move(after);
    }
    return failure(StatusCode::kUnavailable,
                   "no daemon lived from one sample to the next: 'leat "
                   "logs' says why they end");
  }

  void print_sample(const TopSample& sample, bool utf8) const {
    if (json) {
      print_json(to_json(sample));
      return;
    }
    for (const std::string& line : top_lines(sample, TopView::kOverview, {.utf8 = utf8}, {})) {
      print(line);
    }
  }

  static CommandResult<TopSnapshot> first_snapshot() {
    DaemonClient client(runtime_directory());
    return TopFeed(client).fetch();
  }

  // Returns the signal that ended it, or 0.
  static CommandResult<int> show(std::chrono::nanoseconds interval, bool utf8, TopSnapshot first) {
    TerminalSignals signals;
    DaemonClient client(runtime_directory());
    LEAT_TRY(std::unique_ptr<TopScreen> screen, TopScreen::open(signals));
    try {
      return TopShow(client, interval, utf8).run(*screen, std::move(first));
    } catch (const std::exception& thrown) {
      screen.reset();
      return failure(StatusCode::kInternal, thrown.what());
    }
  }

  std::string interval_ = "1s";
  bool once_ = false;
};

}  // namespace

std::unique_ptr<Command> make_top_command() {
  return std::make_unique<TopCommand>();
}

}  // namespace leat
