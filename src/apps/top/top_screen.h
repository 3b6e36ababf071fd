// SPDX-License-Identifier: Apache-2.0
// TopScreen: a full-screen terminal by ncurses: lines out, keys and signals in. One at a time in a
// process. Whatever ends it, the terminal is as it was before.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "apps/command.h"

struct screen;  // ncurses' own

namespace leat {

// Signals of a terminal's program, held back from the moment it is made, so it stands before any
// thread is started: they come as events of the screen and never between two lines.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;

  int descriptor() const { return descriptor_; }
  // The next one, 0 when none has come.
  int take();
  // Ends the process as `signal` does by itself.
  [[noreturn]] static void die_of(int signal);

 private:
  int descriptor_ = -1;
};

struct ScreenEvent {
  enum class Kind : uint8_t { kTime, kKey, kResized, kEnded } kind = Kind::kTime;
  int value = 0;  // kKey: the character; kEnded: the signal, 0: the terminal is gone
};

class TopScreen {
 public:
  // kUnsupported where the terminal's type is not known, or cannot be drawn on.
  static Attempt<std::unique_ptr<TopScreen>> open(TerminalSignals& signals);
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;

  size_t columns() const;
  // The first and the last line stand out. What does not fit is cut.
  void draw(const std::vector<std::string>& lines, const std::string& last);
  ScreenEvent wait_until(std::chrono::steady_clock::time_point when);

 private:
  TopScreen(TerminalSignals& signals, screen* terminal);
  ScreenEvent on_signal(int signal);
  void suspend();
  void come_back();

  TerminalSignals& signals_;
  screen* const terminal_;
  const bool keys_;  // standard input is a terminal
};

// Whether the locale shows what ASCII has not. Sets the process's locale to the user's.
bool use_terminal_locale();

}  // namespace leat
