// The one exception of the native code.  The bindings turn it into fdprof.errors.ScenarioFailed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace fdprof {

// what() says what failed and where, got against expected; hint says what to do next and may be empty.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& message, std::string hint = "")
      : std::runtime_error(message), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

inline std::string seconds_text(int64_t duration_ns) {
  char text[48];
  std::snprintf(text, sizeof text, "%g s", static_cast<double>(duration_ns) * 1e-9);
  return text;
}

}  // namespace fdprof
