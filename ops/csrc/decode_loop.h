// The device side of a decode step: `kernels` spinning kernels for the model, one kernel for sampling and update.
#pragma once

#include <cstdint>

#include "decode_row.h"
#include "device.h"

namespace fdprof {

class DecodeLoop {
 public:
  // stamps: int64 [max_steps, kernels + 1, 2], on the same device as the state.
  DecodeLoop(const DecodeState& state, int64_t* stamps, int64_t max_steps, int64_t kernels, int64_t kernel_ns);

  void forward(StreamHandle stream);
  void update(StreamHandle stream);
  int64_t launched_steps() const { return launched_steps_; }

 private:
  int64_t* stamps_of_step(const char* call) const;

  DecodeState state_;
  int64_t* stamps_;
  int64_t max_steps_;
  int64_t kernels_;
  int64_t kernel_ns_;
  int64_t launched_steps_ = 0;
};

}  // namespace fdprof
