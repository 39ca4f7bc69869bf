#include "event.h"

#include <sched.h>

#include <cmath>

#include "cuda_check.h"
#include "failure.h"
#include "host_clock.h"
#include "watchdog.h"

namespace fdprof {

#ifdef PADDLE_WITH_CUDA

static cudaEvent_t raw(const Event& event) { return static_cast<cudaEvent_t>(event.handle()); }

static bool complete(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // not an error: keep it from the check of the next launch
    return false;
  }
  FDPROF_CUDA(status);
  return true;
}

Event::Event(bool timing, WaitStyle wait) : timing_(timing), style_(wait) {
  use_device();
  const unsigned flags =
      (timing ? 0u : cudaEventDisableTiming) | (wait == WaitStyle::Blocking ? cudaEventBlockingSync : 0u);
  cudaEvent_t event = nullptr;
  FDPROF_CUDA(cudaEventCreateWithFlags(&event, flags));
  handle_ = event;
}

Event::~Event() { cudaEventDestroy(raw(*this)); }

void Event::record(StreamHandle stream) {
  FDPROF_CUDA(cudaEventRecord(raw(*this), reinterpret_cast<cudaStream_t>(stream)));
  recorded_ = true;
}

bool Event::query() const {
  require_recorded("Event.query");
  return complete(raw(*this));
}

void Event::wait(int64_t timeout_ns) const {
  require_recorded("Event.wait");
  Watch watch("Event.wait: the wait for the event", timeout_ns);
  cudaError_t status = cudaSuccess;
  if (style_ == WaitStyle::Spin || style_ == WaitStyle::Blocking) {
    status = cudaEventSynchronize(raw(*this));
  } else {
    // Needs no clock: when the watch fires, the kernels end, and then the event is complete.
    while (!complete(raw(*this))) {
      if (style_ == WaitStyle::Yield) {
        sched_yield();
      }
    }
  }
  watch.finish();
  FDPROF_CUDA(status);
}

int64_t Event::elapsed_ns(const Event& start) const {
  start.require_complete("the start event");
  require_complete("the end event");
  float elapsed_ms = 0;
  FDPROF_CUDA(cudaEventElapsedTime(&elapsed_ms, raw(start), raw(*this)));
  return std::llround(static_cast<double>(elapsed_ms) * 1e6);
}

#else

Event::Event(bool timing, WaitStyle wait) : timing_(timing), style_(wait) {}

Event::~Event() = default;

void Event::record(StreamHandle) {
  recorded_at_ns_ = host_now_ns();
  recorded_ = true;
}

bool Event::query() const {
  require_recorded("Event.query");
  return true;
}

void Event::wait(int64_t) const { require_recorded("Event.wait"); }

int64_t Event::elapsed_ns(const Event& start) const {
  start.require_complete("the start event");
  require_complete("the end event");
  return recorded_at_ns_ - start.recorded_at_ns_;
}

#endif

void Event::require_recorded(const char* call) const {
  if (!recorded_) {
    throw Failure(std::string(call) + ": the event was never recorded, so nothing can be known of it",
                  "call record() first");
  }
}

void Event::require_complete(const char* which) const {
  const std::string subject = std::string("Event.elapsed_ns: ") + which;
  if (!timing_) {
    throw Failure(subject + " was made without timing", "make both events with timing=True");
  }
  if (!recorded_) {
    throw Failure(subject + " was never recorded", "call record() first");
  }
#ifdef PADDLE_WITH_CUDA
  if (!complete(raw(*this))) {
    throw Failure(subject + " is not complete yet", "wait for it first");
  }
#endif
}

}  // namespace fdprof
