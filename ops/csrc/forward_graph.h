// The kernels of a forward pass as one CUDA graph: captured, instantiated and uploaded when made.
#pragma once

#include <cstdint>

#include "decode_row.h"
#include "device.h"

namespace fdprof {

class ForwardGraph {
 public:
  // The CPU build captures nothing.
  explicit ForwardGraph(const DecodeState& state);
  ~ForwardGraph();
  ForwardGraph(const ForwardGraph&) = delete;
  ForwardGraph& operator=(const ForwardGraph&) = delete;

  void launch(StreamHandle stream) const;

 private:
  void* executable_ = nullptr;
};

}  // namespace fdprof
