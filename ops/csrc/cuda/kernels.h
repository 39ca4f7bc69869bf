// The launchers of the kernels.  They check nothing: the caller reads cudaGetLastError once per call of its own.
#pragma once

#include <cstdint>

#include "../clock_alignment.h"
#include "../decode_step.h"
#include "../device.h"
#include "../latch.h"

namespace fdprof::cuda {

// Spins for the step's kernel_ns of %globaltimer.  The step and the place of its stamps are read on the device, so
// that a captured launch can be replayed.
void launch_spin(StreamHandle stream, const DecodeState& state, int64_t kernel, const volatile uint32_t* abort);

// prepare_step and update_step in one block; `work` is the longest loop that its threads share.
void launch_prepare(StreamHandle stream, const DecodeState& state, const Payloads& payloads, const Inbox& inbox,
                    const Outbox& outbox, int64_t work);
void launch_update(StreamHandle stream, const DecodeState& state, const Payloads& payloads, const Outbox& outbox,
                   int64_t launch_tokens, int64_t work);

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
