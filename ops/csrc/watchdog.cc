#include "watchdog.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "failure.h"
#include "host_clock.h"
#include "mapped_memory.h"

namespace fdprof {
namespace {

constexpr int64_t kIdle = 0;
constexpr int64_t kFired = -1;
constexpr int kExitCode = 4;  // ScenarioFailed.exit_code
constexpr size_t kThreads = 64;
// The longest a deadline is noticed late.  Fifty wake-ups a second of another core disturb no measurement.
constexpr auto kTick = std::chrono::milliseconds(20);

// On its own cache line, so that a waiting thread shares none with another.
struct alignas(64) Slot {
  std::atomic<int64_t> deadline_ns{kIdle};
  std::atomic<int64_t> timeout_ns{0};
  std::atomic<int64_t> fired_at_ns{0};
  std::atomic<bool> taken{false};
};

// Never destroyed: the watching thread outlives every static object.
struct State {
  std::array<Slot, kThreads> slots;
  std::mutex firing;  // orders "fired, abort word set" against "ended, abort word cleared"
  int fired = 0;
  std::atomic<int64_t> grace_ns{10000000000};
  std::atomic<bool> started{false};
  std::mutex starting;
};

State& state() {
  static State* const only = new State;
  return *only;
}

void end_process(const Slot& slot) {
  char line[256];
  const int length = std::snprintf(line, sizeof line,
                                   "fdprof: a wait did not end within %g s, nor %g s after its kernels were told to "
                                   "end: the device hangs in work that is not fdprof's; ending the process\n",
                                   static_cast<double>(slot.timeout_ns.load()) * 1e-9,
                                   static_cast<double>(state().grace_ns.load()) * 1e-9);
  const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
  static_cast<void>(written);
  // Not exit(): the exit handlers of the CUDA runtime would wait for the same device.
  _exit(kExitCode);
}

void look_at(Slot& slot, int64_t now_ns) {
  int64_t deadline_ns = slot.deadline_ns.load(std::memory_order_acquire);
  if (deadline_ns == kFired) {
    if (now_ns - slot.fired_at_ns.load() > state().grace_ns.load()) {
      end_process(slot);
    }
    return;
  }
  if (deadline_ns == kIdle || now_ns < deadline_ns) {
    return;
  }
  const std::lock_guard<std::mutex> lock(state().firing);
  slot.fired_at_ns.store(now_ns);
  if (slot.deadline_ns.compare_exchange_strong(deadline_ns, kFired)) {
    ++state().fired;
    *abort_word().host = 1;
  }
}

void keep_watch() {
  for (;;) {
    std::this_thread::sleep_for(kTick);
    const int64_t now_ns = host_now_ns();
    for (Slot& slot : state().slots) {
      look_at(slot, now_ns);
    }
  }
}

void start_once() {
  if (state().started.load(std::memory_order_acquire)) {
    return;
  }
  const std::lock_guard<std::mutex> lock(state().starting);
  if (state().started.load()) {
    return;
  }
  abort_word();  // allocated by the waiting thread: the watching thread must never block in CUDA
  static const int registered = pthread_atfork(nullptr, nullptr, [] { state().started.store(false); });
  static_cast<void>(registered);
  std::thread(keep_watch).detach();
  state().started.store(true, std::memory_order_release);
}

void close(Slot& slot, int64_t next_deadline_ns, bool* fired) noexcept {
  const int64_t before = slot.deadline_ns.exchange(next_deadline_ns, std::memory_order_acq_rel);
  *fired = before == kFired;
  if (*fired) {
    const std::lock_guard<std::mutex> lock(state().firing);
    if (--state().fired == 0) {
      *abort_word().host = 0;
    }
  }
}

struct Outer {
  int64_t deadline_ns;
  int64_t timeout_ns;
};

// The watches of one thread: its slot, and what the outer watches had in it.
class Thread {
 public:
  Thread() {
    outer_.reserve(8);
    for (Slot& slot : state().slots) {
      if (!slot.taken.exchange(true)) {
        slot_ = &slot;
        return;
      }
    }
    throw Failure("more than " + std::to_string(kThreads) + " threads wait on the device at once");
  }

  ~Thread() {
    while (!outer_.empty()) {
      end();
    }
    slot_->taken.store(false);
  }

  void begin(int64_t timeout_ns) {
    outer_.push_back({slot_->deadline_ns.load(std::memory_order_acquire), slot_->timeout_ns.load()});
    slot_->timeout_ns.store(timeout_ns, std::memory_order_relaxed);
    // An exchange: the outer watch may have fired since it was read.
    outer_.back().deadline_ns = slot_->deadline_ns.exchange(host_now_ns() + timeout_ns, std::memory_order_acq_rel);
  }

  bool end() noexcept {
    if (outer_.empty()) {
      return false;
    }
    const Outer outer = outer_.back();
    outer_.pop_back();
    slot_->timeout_ns.store(outer.timeout_ns, std::memory_order_relaxed);
    bool fired = false;
    close(*slot_, outer.deadline_ns, &fired);
    return fired;
  }

  bool fired() const { return slot_->deadline_ns.load(std::memory_order_acquire) == kFired; }

 private:
  Slot* slot_ = nullptr;
  std::vector<Outer> outer_;
};

Thread& this_thread() {
  thread_local Thread thread;
  return thread;
}

}  // namespace

void watch_begin(int64_t timeout_ns) {
  start_once();
  this_thread().begin(timeout_ns);
}

bool watch_end() noexcept { return this_thread().end(); }

bool watch_fired() { return this_thread().fired(); }

void set_watch_grace(int64_t grace_ns) { state().grace_ns.store(grace_ns); }

void throw_timeout(const char* what, int64_t timeout_ns) {
  throw Failure(std::string(what) + " did not end within " + seconds_text(timeout_ns),
                "the queued kernels were told to end; look for a latch that is never released, or raise the timeout");
}

void Watch::finish() {
  open_ = false;
  if (watch_end()) {
    throw_timeout(what_, timeout_ns_);
  }
}

}  // namespace fdprof
