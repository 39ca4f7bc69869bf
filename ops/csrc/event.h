// A CUDA event that knows whether it was recorded: CUDA says "complete" of one that never was (CUDA runtime,
// cudaEventQuery; eyalroz/cuda-api-wrappers #226), which would turn a forgotten record into a silent stale read.
#pragma once

#include <cstdint>

#include "device.h"
#include "wait_style.h"

namespace fdprof {

class Event {
 public:
  Event(bool timing, WaitStyle wait);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(StreamHandle stream);
  bool query() const;
  void wait(int64_t timeout_ns) const;
  int64_t elapsed_ns(const Event& start) const;
  bool recorded() const { return recorded_; }
  void* handle() const { return handle_; }

 private:
  void require_recorded(const char* call) const;
  void require_complete(const char* which) const;

  void* handle_ = nullptr;
  int64_t recorded_at_ns_ = 0;  // CPU build only
  bool timing_;
  WaitStyle style_;
  bool recorded_ = false;
};

}  // namespace fdprof
