// One row's step of the token stream, for host and device alike; the plain reference is fdprof/tokens.py.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FDPROF_BOTH __host__ __device__ inline
#else
#define FDPROF_BOTH inline
#endif

namespace fdprof {

constexpr int64_t kIdleToken = -1;
constexpr int64_t kNoRequest = -1;
constexpr uint64_t kStepTags = 8;
constexpr uint64_t kTokenValues = 16383;
constexpr int32_t kKvBlockTokens = 64;

// Raw pointers to the decode state, and its constants.  Passed to the kernel by value.
struct DecodeState {
  int64_t* tokens;
  bool* not_need_stop;
  int32_t* seq_lens_this_time;
  bool* is_block_step;
  int64_t* sequence_number;
  int64_t* request;
  int32_t* position;
  int32_t* length;
  int64_t rows;
  uint64_t seed;
  uint64_t mean_length;
  int64_t last_step;
};

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
FDPROF_BOTH uint64_t mix64(uint64_t value) {
  uint64_t z = value + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

FDPROF_BOTH int32_t output_length(uint64_t seed, uint64_t request, uint64_t mean_length) {
  const uint64_t draw = mix64(mix64(seed) ^ (request * 2 + 1));
  return static_cast<int32_t>(1 + draw % (2 * mean_length - 1));
}

FDPROF_BOTH int64_t ordinary_token(uint64_t seed, uint64_t request, uint64_t position, uint64_t step) {
  const uint64_t draw = mix64(mix64(mix64(seed) ^ (request * 2)) + position);
  return static_cast<int64_t>((draw % kTokenValues + 1) * kStepTags + step % kStepTags);
}

// Advances row b at step `step` and returns whether it still has a request.
FDPROF_BOTH bool step_row(const DecodeState& state, int64_t b, int64_t step) {
  int64_t request = state.request[b];
  int32_t position = state.position[b];
  int64_t token = kIdleToken;
  if (request != kNoRequest) {
    const bool is_budget_used = step >= state.last_step;
    const bool is_last = position == state.length[b] - 1 || is_budget_used;
    if (is_last) {
      token = static_cast<int64_t>(static_cast<uint64_t>(step) % kStepTags);
    } else {
      token = ordinary_token(state.seed, static_cast<uint64_t>(request), static_cast<uint64_t>(position),
                             static_cast<uint64_t>(step));
    }
    if (!is_last) {
      position += 1;
    } else if (is_budget_used) {
      request = kNoRequest;
    } else {
      request += state.rows;
      position = 0;
      state.length[b] = output_length(state.seed, static_cast<uint64_t>(request), state.mean_length);
    }
    state.request[b] = request;
    state.position[b] = position;
  }
  const bool is_live = request != kNoRequest;
  state.tokens[b] = token;
  state.seq_lens_this_time[b] = is_live ? 1 : 0;
  state.is_block_step[b] = is_live && position > 0 && position % kKvBlockTokens == 0;
  return is_live;
}

}  // namespace fdprof
