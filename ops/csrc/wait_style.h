// How the host thread waits at a fence.
#pragma once

#include <stdexcept>
#include <string>

namespace fdprof {

enum class WaitStyle {
  Spin,      // in the driver
  Blocking,  // the thread sleeps
  Poll,      // query, again and again
  Yield,     // query, and give the core to others between two queries
};

inline WaitStyle wait_style_named(const std::string& name, const char* call) {
  if (name == "spin") return WaitStyle::Spin;
  if (name == "blocking") return WaitStyle::Blocking;
  if (name == "poll") return WaitStyle::Poll;
  if (name == "yield") return WaitStyle::Yield;
  throw std::invalid_argument(std::string(call) + ": wait must be 'spin', 'blocking', 'poll' or 'yield', got '" +
                              name + "'");
}

}  // namespace fdprof
