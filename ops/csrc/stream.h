// A stream of our own, non-blocking: it never waits for the legacy default stream, nor that for it.
#pragma once

#include <cstdint>

#include "device.h"
#include "event.h"

namespace fdprof {

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const { return handle_; }
  void wait_event(const Event& event) const;
  bool query() const;
  void synchronize(int64_t timeout_ns) const;

 private:
  StreamHandle handle_ = 0;
};

// Makes later work of the stream wait for a recorded event.
void stream_wait(StreamHandle stream, const Event& event);

// cudaStreamSynchronize under the watchdog.
void synchronize_stream(StreamHandle stream, int64_t timeout_ns);

}  // namespace fdprof
