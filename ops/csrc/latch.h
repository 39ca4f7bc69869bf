// A kernel that blocks a stream until the host releases it: makes "returned before the device was done" provable.
#pragma once

#include <cstdint>

#include "device.h"

namespace fdprof {

// In mapped memory, each word written by one side only.
struct LatchWords {
  volatile uint32_t released;   // by the host
  volatile uint32_t timed_out;  // by the kernel
};

class Latch {
 public:
  explicit Latch(int64_t timeout_ns);
  ~Latch();
  Latch(const Latch&) = delete;
  Latch& operator=(const Latch&) = delete;

  void launch(StreamHandle stream);
  void release();
  bool timed_out() const;

 private:
  int64_t timeout_ns_;
  struct Cell;
  Cell* cell_ = nullptr;
  bool is_launched_ = false;
};

}  // namespace fdprof
