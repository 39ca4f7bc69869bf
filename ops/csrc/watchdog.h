// Bounds every wait without a query loop: one thread watches deadlines, and at a deadline sets the abort word, on
// which our kernels end, so that the blocking CUDA call itself returns.  If it has not returned a grace time later
// (a kernel that is not ours hangs), the process ends with exit code 4.
//
// A blocked CUDA call cannot be cancelled from outside, and a loop of cudaEventQuery would be another wait than the
// one that is measured; hence this detour.
#pragma once

#include <cstdint>

namespace fdprof {

// Starts a watch of this thread; watches nest.  Costs one clock read and one atomic store.
void watch_begin(int64_t timeout_ns);

// Ends the innermost watch of this thread; true if its deadline had passed.  Clears the abort word for later use.
bool watch_end() noexcept;

// True if the innermost watch of this thread has fired.
bool watch_fired();

// How long after the abort the process is ended; 10 s unless changed.
void set_watch_grace(int64_t grace_ns);

// A watch over one blocking call.  finish() throws if it fired; the destructor only ends the watch.
class Watch {
 public:
  Watch(const char* what, int64_t timeout_ns) : what_(what), timeout_ns_(timeout_ns) { watch_begin(timeout_ns); }
  ~Watch() {
    if (open_) {
      watch_end();
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  void finish();

 private:
  const char* what_;
  int64_t timeout_ns_;
  bool open_ = true;
};

[[noreturn]] void throw_timeout(const char* what, int64_t timeout_ns);

}  // namespace fdprof
