#include "clock_alignment.h"

#include <atomic>
#include <limits>
#include <mutex>

#include "cuda/kernels.h"
#include "cuda_check.h"
#include "failure.h"
#include "host_clock.h"
#include "mapped_memory.h"
#include "stream.h"
#include "watchdog.h"

namespace fdprof {

#ifdef PADDLE_WITH_CUDA

namespace {

constexpr int64_t kDeviceTickNs = 32;  // %globaltimer of an H200 advances in steps of 32 ns

// Made once and kept: allocation is slow, and a stream of its own lets the ping-pong run beside queued work.
struct Server {
  Mapped<ClockMailbox> mailbox = mapped_new<ClockMailbox>();
  Stream stream;
};

// Plays the rounds; false if the deadline passed first.
bool play(ClockMailbox* mailbox, int64_t rounds, int64_t deadline_ns, ClockPair* best) {
  int64_t best_round_trip_ns = std::numeric_limits<int64_t>::max();
  for (int64_t round = 1; round <= rounds; ++round) {
    const int64_t before_ns = host_now_ns();
    mailbox->request = static_cast<uint64_t>(round);
    while (mailbox->answer != static_cast<uint64_t>(round)) {
      if (host_now_ns() > deadline_ns) {
        return false;
      }
    }
    const int64_t after_ns = host_now_ns();
    std::atomic_thread_fence(std::memory_order_acquire);
    const int64_t round_trip_ns = after_ns - before_ns;
    if (round_trip_ns < best_round_trip_ns) {
      best_round_trip_ns = round_trip_ns;
      *best = {before_ns + round_trip_ns / 2, mailbox->device_ns, (round_trip_ns + 1) / 2 + kDeviceTickNs};
    }
  }
  return true;
}

}  // namespace

ClockPair align_clocks(int64_t rounds, int64_t timeout_ns) {
  static auto* const busy = new std::mutex;
  const std::lock_guard<std::mutex> lock(*busy);
  use_device();
  static auto* const server = new Server;
  cuda::load_kernels();
  ClockMailbox* const mailbox = server->mailbox.host;
  mailbox->request = 0;
  mailbox->quit = 0;
  mailbox->answer = 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const int64_t deadline_ns = host_now_ns() + timeout_ns;
  cuda::launch_clock_server(server->stream.handle(), server->mailbox.device, rounds, timeout_ns,
                            abort_word().device);
  FDPROF_CUDA(cudaGetLastError());
  ClockPair best{0, 0, 0};
  const bool is_played = play(mailbox, rounds, deadline_ns, &best);
  mailbox->quit = 1;
  server->stream.synchronize(timeout_ns);
  if (!is_played) {
    throw_timeout("align_clocks: the ping-pong with the device", timeout_ns);
  }
  return best;
}

#else

ClockPair align_clocks(int64_t, int64_t) {
  const int64_t now_ns = host_now_ns();
  return {now_ns, now_ns, 0};
}

#endif

}  // namespace fdprof
