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

}  // namespace fdprof::cuda
