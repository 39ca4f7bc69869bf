// One row's step of the token stream, for host and device alike; the plain reference is fdprof/tokens.py.
#pragma once

#include <cstdint>

// Code of a kernel: nvcc compiles it for the device, and the CPU build runs it in the calling thread.
#ifdef __CUDACC__
#define FDPROF_KERNEL __device__ inline
#else
#define FDPROF_KERNEL inline
#endif

namespace fdprof {

constexpr int64_t kIdleToken = -1;
constexpr int64_t kNoRequest = -1;
constexpr uint64_t kStepTags = 8;
constexpr uint64_t kTokenValues = 16383;
constexpr uint64_t kMaxPromptTokens = 4096;
constexpr uint64_t kAcceptSalt = 0x414343455054;
constexpr uint64_t kPromptSalt = 0x50524F4D5054;

// Raw pointers to the decode state, and its constants.  Passed to the kernels by value.
struct DecodeState {
  // Of each row, and the step's number.
  int64_t* sequence_number;
  int64_t* request;
  int32_t* position;
  int32_t* length;
  int64_t* prompt_hash;
  bool* blocked;
  // Made by the prepare kernel; null where no group has them.
  int32_t* seq_lens_this_time;
  bool* is_block_step;
  int32_t* real_output_token_num;
  // Made by the update kernel; from accept_tokens on null where no group has them.
  int64_t* sampled_token_ids;
  bool* not_need_stop;
  int64_t* accept_tokens;
  int32_t* accept_num;
  int32_t* seq_lens_decoder;
  int64_t* prompt_lens;
  // [max_steps, kernels + 2, 2] and [max_steps].
  int64_t* stamps;
  const int64_t* kernel_ns;
  int64_t rows;
  int64_t kernels;
  uint64_t seed;
  uint64_t mean_length;
  int64_t last_step;
  int64_t kv_block_tokens;
  int64_t draft_tokens;
};

// Start and end stamp of kernel `kernel` of step `step`: the forward kernels, then update, then prepare.
FDPROF_KERNEL int64_t* stamps_of(const DecodeState& state, int64_t step, int64_t kernel) {
  return state.stamps + (step * (state.kernels + 2) + kernel) * 2;
}

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
FDPROF_KERNEL uint64_t mix64(uint64_t value) {
  uint64_t z = value + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

FDPROF_KERNEL int32_t output_length(uint64_t seed, uint64_t request, uint64_t mean_length) {
  const uint64_t draw = mix64(mix64(seed) ^ (request * 2 + 1));
  return static_cast<int32_t>(1 + draw % (2 * mean_length - 1));
}

FDPROF_KERNEL int32_t prompt_length(uint64_t seed, uint64_t request) {
  return static_cast<int32_t>(1 + mix64(mix64(seed ^ kPromptSalt) ^ request) % kMaxPromptTokens);
}

FDPROF_KERNEL int32_t accepted_tokens(uint64_t seed, uint64_t row, uint64_t step, uint64_t draft_tokens) {
  const uint64_t draw = mix64(mix64(seed ^ kAcceptSalt) + (row << 32) + step);
  return static_cast<int32_t>(1 + draw % (draft_tokens + 1));
}

FDPROF_KERNEL int64_t ordinary_token(uint64_t request_key, uint64_t position, uint64_t step) {
  const uint64_t draw = mix64(request_key + position);
  return static_cast<int64_t>((draw % kTokenValues + 1) * kStepTags + step % kStepTags);
}

// Past last_step no row has a request, also one that was not computed there.
FDPROF_KERNEL bool is_live(const DecodeState& state, int64_t b, int64_t step) {
  return step <= state.last_step && state.request[b] != kNoRequest;
}

FDPROF_KERNEL bool is_active(const DecodeState& state, int64_t b, int64_t step) {
  return is_live(state, b, step) && !state.blocked[b];
}

// Gives row b a request, whatever the row was doing.
FDPROF_KERNEL void take_request(const DecodeState& state, int64_t b, int64_t request, uint64_t prompt_hash) {
  state.request[b] = request;
  state.position[b] = 0;
  state.length[b] = output_length(state.seed, static_cast<uint64_t>(request), state.mean_length);
  state.prompt_hash[b] = static_cast<int64_t>(prompt_hash);
  state.blocked[b] = false;
}

FDPROF_KERNEL void prepare_row(const DecodeState& state, int64_t b, int64_t step) {
  if (state.seq_lens_this_time != nullptr) {
    state.seq_lens_this_time[b] = is_active(state, b, step) ? 1 : 0;
  }
  if (state.is_block_step != nullptr) {
    state.is_block_step[b] = is_live(state, b, step) && state.blocked[b];
  }
}

// Advances row b at step `step` and returns whether it still has a request.  `mirror`, if any, gets the rows'
// sampled_token_ids too.
FDPROF_KERNEL bool step_row(const DecodeState& state, int64_t b, int64_t step, volatile int64_t* mirror) {
  const bool was_live = is_live(state, b, step);
  const int64_t request = state.request[b];
  const int32_t first = state.position[b];
  const int32_t length = state.length[b];
  const bool is_budget_used = step >= state.last_step;
  int32_t made = 0;
  if (was_live && !state.blocked[b]) {
    made = is_budget_used || state.draft_tokens == 0
               ? 1
               : accepted_tokens(state.seed, static_cast<uint64_t>(b), static_cast<uint64_t>(step),
                                 static_cast<uint64_t>(state.draft_tokens));
    made = made < length - first ? made : length - first;
  }
  const int32_t upto = first + made;

  const int64_t end_token = static_cast<int64_t>(static_cast<uint64_t>(step) % kStepTags);
  const uint64_t request_key = mix64(mix64(state.seed ^ static_cast<uint64_t>(state.prompt_hash[b])) ^
                                     (static_cast<uint64_t>(request) * 2));
  const int64_t shown = state.accept_tokens != nullptr ? state.draft_tokens + 1 : 1;
  for (int64_t draft = 0; draft < shown; ++draft) {
    const int64_t position = first + draft;
    int64_t token = kIdleToken;
    if (position < upto) {
      token = position == length - 1 || is_budget_used
                  ? end_token
                  : ordinary_token(request_key, static_cast<uint64_t>(position), static_cast<uint64_t>(step));
    }
    if (draft == 0) {
      state.sampled_token_ids[b] = token;
      if (mirror != nullptr) {
        mirror[b] = token;
      }
    }
    if (state.accept_tokens != nullptr) {
      state.accept_tokens[b * shown + draft] = token;
    }
  }
  if (state.accept_num != nullptr) {
    state.accept_num[b] = made;
  }
  if (state.seq_lens_decoder != nullptr || state.prompt_lens != nullptr) {
    const int32_t prompt = was_live ? prompt_length(state.seed, static_cast<uint64_t>(request)) : 0;
    if (state.seq_lens_decoder != nullptr) {
      state.seq_lens_decoder[b] = was_live ? prompt + upto : 0;
    }
    if (state.prompt_lens != nullptr) {
      state.prompt_lens[b] = prompt;
    }
  }

  if (is_budget_used) {
    state.request[b] = kNoRequest;
    state.blocked[b] = false;
  } else if (made > 0 && upto == length) {
    take_request(state, b, request + state.rows, 0);
  } else {
    state.position[b] = upto;
    // A row waits for a block once: the step that it waited makes nothing, so it does not wait again.
    state.blocked[b] = made > 0 && state.draft_tokens == 0 && state.kv_block_tokens > 0 &&
                       upto % state.kv_block_tokens == 0;
  }
  return state.request[b] != kNoRequest;
}

}  // namespace fdprof
