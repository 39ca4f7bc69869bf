#include "publication.h"

#include <sched.h>

#include <atomic>

#include "failure.h"
#include "host_clock.h"
#include "watchdog.h"

namespace fdprof {

// How many looks lie between two at the watch: few enough to end soon, many enough to cost nothing.
static constexpr int kLooksPerWatch = 256;

// How long the abort word stays set when the watch has fired: kernels look at it every 0.2 ms, and the values that
// they hold back then come.  Where none come, nothing was launched.
static constexpr int64_t kAbortNs = 200000000;

Publication::Publication(const std::string& group, const SequenceWord* word, WaitStyle wait)
    : what_("poll: the wait for the published values of group '" + group + "'"),
      word_(word),
      yields_(wait == WaitStyle::Yield) {
  if (wait == WaitStyle::Blocking) {
    throw Failure("publish: group '" + group + "' cannot be waited for in the style 'blocking': its values come with "
                  "no event on which a thread could sleep",
                  "use spin, poll or yield");
  }
}

void Publication::poll(int64_t step, int64_t timeout_ns) const {
  if (published_steps() <= step) {
    Watch watch(what_.c_str(), timeout_ns);
    int64_t end_ns = 0;
    for (int looks = 1; published_steps() <= step; ++looks) {
      if (looks == kLooksPerWatch) {
        looks = 0;
        if (watch_fired()) {
          const int64_t now_ns = host_now_ns();
          end_ns = end_ns == 0 ? now_ns + kAbortNs : end_ns;
          if (now_ns >= end_ns) {
            break;
          }
        }
      }
      if (yields_) {
        sched_yield();
      }
    }
    watch.finish();
  }
  std::atomic_thread_fence(std::memory_order_acquire);
}

}  // namespace fdprof
