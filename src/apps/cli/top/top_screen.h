// SPDX-License-Identifier: Apache-2.0
// TopScreen: a full-screen terminal with ncurses: lines out, keys and signals in. One per process
// at a time. Restores the terminal however it ends.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "apps/cli/command/command.h"

struct screen;  // of ncurses

namespace leat {

// Blocks the signals of a terminal program from its creation, so create it before any thread. They
// become events of the screen and never interrupt a line.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;

  int descriptor() const { return descriptor_; }
  // Returns the next signal, 0 if none has arrived.
  int take();
  // Ends the process with the default action of `signal`.
  [[noreturn]] static void die_of(int signal);

 private:
  int descriptor_ = -1;
};

struct ScreenEvent {
  enum class Kind : uint8_t { kTime, kKey, kResized, kEnded } kind = Kind::kTime;
  int value = 0;  // kKey: the character; kEnded: the signal, 0: the terminal is closed
};

class TopScreen {
 public:
  // kUnsupported if the terminal's type is unknown, or cannot be drawn on.
  static CommandResult<std::unique_ptr<TopScreen>> open(TerminalSignals& signals);
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;

  size_t columns() const;
  // Highlights the first and the last line. Cuts what does not fit.
  void draw(const std::vector<std::string>& lines, const std::string& last);
  ScreenEvent wait_until(std::chrono::steady_clock::time_point when);

 private:
  TopScreen(TerminalSignals& signals, screen* terminal);
  ScreenEvent on_signal(int signal);
  void suspend();
  void resume();

  TerminalSignals& signals_;
  screen* const terminal_;
  const bool keys_;  // standard input is a terminal
};

// Sets the process's locale to the user's. Returns whether it shows characters beyond ASCII.
bool use_terminal_locale();

}  // namespace leat
