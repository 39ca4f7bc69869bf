// A group whose kernel writes its values to mapped memory, and the number that says up to which step it has.
#pragma once

#include <cstdint>
#include <string>

#include "mapped_memory.h"
#include "wait_style.h"

namespace fdprof {

// On a cache line of its own, so that the kernel's write disturbs the reader of no other word.
struct alignas(64) SequenceWord {
  volatile int64_t published_steps;
};

class Publication {
 public:
  // Throws Failure for WaitStyle::Blocking: there is no event on which a thread could sleep.
  Publication(const std::string& group, const SequenceWord* word, WaitStyle wait);

  // Returns once the values of `step` are there; after that the thread sees them.
  void poll(int64_t step, int64_t timeout_ns) const;

  int64_t published_steps() const { return word_->published_steps; }

 private:
  std::string what_;
  const SequenceWord* word_;
  bool yields_;
};

}  // namespace fdprof
