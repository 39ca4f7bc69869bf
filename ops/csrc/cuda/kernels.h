// The launchers of the kernels.  They check nothing: the caller reads cudaGetLastError once per call of its own.
#pragma once

#include <cstdint>

#include "../clock_alignment.h"
#include "../decode_row.h"
#include "../device.h"
#include "../latch.h"

namespace fdprof::cuda {

// Spins for kernel_ns of %globaltimer and writes its start and end to stamps[0] and stamps[1].
void launch_spin(StreamHandle stream, int64_t* stamps, int64_t kernel_ns, const volatile uint32_t* abort);

// Samples and advances every row once; stamps as above.
void launch_update(StreamHandle stream, const DecodeState& state, int64_t* stamps);

void launch_latch(StreamHandle stream, LatchWords* words, int64_t timeout_ns, const volatile uint32_t* abort);

void launch_clock_server(StreamHandle stream, ClockMailbox* mailbox, int64_t rounds, int64_t timeout_ns,
                         const volatile uint32_t* abort);

void load_decode_kernels();
void load_wait_kernels();

// Loads all kernels, once.  CUDA otherwise loads a kernel at its first launch, which can wait for a running kernel to
// end (CUDA programming guide, lazy loading): behind a latch that would be a deadlock.  Throws Failure, also when the
// library holds no code for this card.
inline void load_kernels() {
  static const bool loaded = (load_decode_kernels(), load_wait_kernels(), true);
  static_cast<void>(loaded);
}

}  // namespace fdprof::cuda
