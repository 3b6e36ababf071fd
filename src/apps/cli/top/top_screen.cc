// SPDX-License-Identifier: Apache-2.0
// Invariant: ncurses' own signal handlers never run, since their signals are blocked and read from
// a signalfd. So only this thread changes the terminal.
#include "apps/cli/top/top_screen.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <langinfo.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cwchar>

#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <term.h>
#undef lines
#undef columns

namespace leat {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : kSignals) sigaddset(&set, signal);
  return set;
}

// Returns the part that fits into `columns`; shows undecodable bytes as '?'.
std::wstring fitting(const std::string& text, int columns) {
  std::wstring fits;
  std::mbstate_t state{};
  int used = 0;
  for (size_t at = 0; at < text.size();) {
    wchar_t c = L'?';
    const size_t length = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
    if (length == 0 || length > text.size()) {
      state = {};
      c = L'?';
      ++at;
    } else {
      at += length;
    }
    int width = ::wcwidth(c);
    if (width < 0) {
      c = L'?';
      width = 1;
    }
    used += width;
    if (used > columns) break;
    fits += c;
  }
  return fits;
}

std::string terminal_type() {
  const char* type = std::getenv("TERM");
  return type == nullptr ? "" : type;
}

Failure cannot_draw() {
  const std::string type = terminal_type();
  return Status(StatusCode::kUnsupported,
                fmt::format("cannot draw on a terminal of {}: TERM=xterm names one that most "
                            "terminals are like, 'leat top --once' prints one look",
                            type.empty() ? "unknown type (TERM is not set)"
                                         : fmt::format("type '{}' (TERM)", type)));
}

}  // namespace

bool use_terminal_locale() {
  std::setlocale(LC_ALL, "");
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

TerminalSignals::TerminalSignals() {
  const sigset_t set = signal_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

TerminalSignals::~TerminalSignals() {
  if (descriptor_ >= 0) close(descriptor_);
  const sigset_t set = signal_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int TerminalSignals::take() {
  signalfd_siginfo info{};
  if (read(descriptor_, &info, sizeof info) != sizeof info) return 0;
  return static_cast<int>(info.ssi_signo);
}

void TerminalSignals::die_of(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  std::_Exit(128 + signal);
}

CommandResult<std::unique_ptr<TopScreen>> TopScreen::open(TerminalSignals& signals) {
  if (signals.descriptor() < 0) {
    return std::unexpected(Failure(status_from_errno(errno, "cannot wait for signals")));
  }
  SCREEN* terminal = newterm(nullptr, stdout, stdin);
  if (terminal == nullptr) return std::unexpected(cannot_draw());
  std::unique_ptr<TopScreen> made(new TopScreen(signals, terminal));
  if (cursor_address == nullptr || clear_screen == nullptr) {
    made.reset();
    return std::unexpected(cannot_draw());
  }
  return made;
}

TopScreen::TopScreen(TerminalSignals& signals, screen* terminal)
    : signals_(signals), terminal_(terminal), keys_(isatty(STDIN_FILENO) == 1) {
  cbreak();
  noecho();
  nodelay(stdscr, TRUE);
  keypad(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
}

TopScreen::~TopScreen() {
  endwin();
  delscreen(terminal_);
}

size_t TopScreen::columns() const {
  return static_cast<size_t>(std::max(getmaxx(stdscr), 1));
}

void TopScreen::draw(const std::vector<std::string>& lines, const std::string& last) {
  const int rows = getmaxy(stdscr), width = getmaxx(stdscr);
  werase(stdscr);
  auto put = [&](int row, const std::string& text, bool bold) {
    // Writing the last cell of the last row would scroll.
    const std::wstring fits = fitting(text, row == rows - 1 ? width - 1 : width);
    if (bold) wattron(stdscr, A_BOLD);
    mvwaddnwstr(stdscr, row, 0, fits.c_str(), static_cast<int>(fits.size()));
    if (bold) wattroff(stdscr, A_BOLD);
  };
  for (int row = 0; row < rows - 1 && row < static_cast<int>(lines.size()); ++row) {
    put(row, lines[static_cast<size_t>(row)], row == 0);
  }
  put(rows - 1, last, true);
  wrefresh(stdscr);
}

ScreenEvent TopScreen::wait_until(std::chrono::steady_clock::time_point when) {
  using Kind = ScreenEvent::Kind;
  for (;;) {
    // Keys that ncurses has read already do not wake poll().
    if (const int key = keys_ ? wgetch(stdscr) : ERR; key != ERR) {
      return {.kind = Kind::kKey, .value = key};
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(when - std::chrono::steady_clock::now());
    const int timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
    std::array<pollfd, 2> waits{
        {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
         {.fd = keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
    const int ready = poll(waits.data(), waits.size(), timeout);
    if (ready == 0) return {};
    if (ready < 0) continue;
    if (waits[0].revents != 0) {
      if (ScreenEvent event = on_signal(signals_.take()); event.kind != Kind::kTime) return event;
    }
    if ((waits[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return {.kind = Kind::kEnded};
  }
}

ScreenEvent TopScreen::on_signal(int signal) {
  using Kind = ScreenEvent::Kind;
  switch (signal) {
    case 0:
      return {};
    case SIGTSTP:
      suspend();
      return {.kind = Kind::kResized};
    case SIGCONT:
    case SIGWINCH:
      resume();
      return {.kind = Kind::kResized};
    default:
      return {.kind = Kind::kEnded, .value = signal};
  }
}

void TopScreen::suspend() {
  endwin();
  raise(SIGSTOP);
  resume();
}

// Redraws after another program used the terminal, or its size changed.
void TopScreen::resume() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
    resizeterm(size.ws_row, size.ws_col);
  }
  reset_prog_mode();
  clearok(curscr, TRUE);
  wrefresh(stdscr);
}

}  // namespace leat
