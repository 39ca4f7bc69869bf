// The prepare and the update kernel, each one block of threads, for host and device alike.
//
// `Block` is what the threads do together: cuda/decode_kernels.cu has the one of a CUDA block, decode_loop.cc the one
// of a sole thread.  All threads of the block must come to every call of it.
#pragma once

#include <cstdint>

#include "decode_row.h"

namespace fdprof {

enum class PayloadType : int32_t { Int64, Int32, Float32, Bool };

// A tensor of no meaning to the loop.
struct Payload {
  void* values;
  int64_t elements;
  uint64_t key;  // mix64(mix64(seed) ^ name_tag)
  PayloadType type;
};

constexpr int64_t kMaxPayloads = 16;

struct Payloads {
  int64_t count;
  Payload items[kMaxPayloads];
};

// What the host sent, as 4-byte words.
struct Letter {
  const uint32_t* words;
  int64_t count;
  uint64_t tag;  // name_tag
};

constexpr int64_t kMaxLetters = 40;

struct Inbox {
  const int64_t* task;  // (step, row, request, 0); null where nothing is inserted
  int64_t count;
  Letter items[kMaxLetters];
};

// A tensor to publish.  The threads share the 8-byte words of all tensors out among them; `first` is the place of
// the tensor's first word among all, at a multiple of a warp, so that the threads of a warp have the same tensor.
struct Outgoing {
  const char* source;
  char* target;  // mapped memory
  int64_t size_bytes;
  int64_t first;
};

constexpr int64_t kMaxOutgoing = 24;
constexpr int64_t kMaxPublications = 8;
constexpr int64_t kWordBytes = 8;

// The first of a kernel's arguments, and what every publication needs first in it: each 64 bytes of arguments that a
// launch is the first to read cost the kernel a trip to memory.
struct Outbox {
  int32_t count;
  int32_t publications;
  int64_t words;  // of all tensors, with what fills up the warps
  // Mapped memory for two tensors that their threads write in place, as they make them, null where they are not
  // published: a tensor among the items is read again when all threads have made their part of it.
  volatile int64_t* token_mirror;
  volatile bool* stop_mirror;
  volatile int64_t* sequence[kMaxPublications];  // mapped memory
  Outgoing items[kMaxOutgoing];
};

FDPROF_KERNEL void write_payload(const Payload& payload, int64_t element, int64_t step) {
  const uint64_t draw = mix64(payload.key + (static_cast<uint64_t>(step) << 32) + static_cast<uint64_t>(element));
  const uint64_t tag = static_cast<uint64_t>(step) % kStepTags;
  switch (payload.type) {
    case PayloadType::Int64:
      static_cast<int64_t*>(payload.values)[element] =
          static_cast<int64_t>(draw % (uint64_t{1} << 31) * kStepTags + tag);
      break;
    case PayloadType::Int32:
      static_cast<int32_t*>(payload.values)[element] =
          static_cast<int32_t>(draw % (uint64_t{1} << 27) * kStepTags + tag);
      break;
    case PayloadType::Float32:
      static_cast<float*>(payload.values)[element] =
          -static_cast<float>(draw % (uint64_t{1} << 20) * kStepTags + tag) / 65536.0f;
      break;
    case PayloadType::Bool:
      static_cast<bool*>(payload.values)[element] = draw % 2 == 1;
      break;
  }
}

template <typename Block>
FDPROF_KERNEL void write_payloads(const Payloads& payloads, int64_t step, const Block& block) {
  for (int64_t i = 0; i < payloads.count; ++i) {
    for (int64_t element = block.thread(); element < payloads.items[i].elements; element += block.threads()) {
      write_payload(payloads.items[i], element, step);
    }
  }
}

template <typename Block>
FDPROF_KERNEL void insert_request(const DecodeState& state, const Inbox& inbox, int64_t step, const Block& block) {
  if (inbox.task == nullptr || inbox.task[0] != step || step > state.last_step) {
    return;
  }
  const int64_t row = inbox.task[1];
  if (row < 0 || row >= state.rows) {
    return;
  }
  uint64_t hash = 0;
  for (int64_t i = 0; i < inbox.count; ++i) {
    const Letter& letter = inbox.items[i];
    for (int64_t word = block.thread(); word < letter.count; word += block.threads()) {
      hash += mix64(letter.tag + (static_cast<uint64_t>(word) << 32) + letter.words[word]);
    }
  }
  hash = block.sum(hash);
  if (block.thread() == 0) {
    take_request(state, row, inbox.task[2], hash);
  }
  block.barrier();
}

// One word of a tensor to publish; `size_bytes` is 0 where a thread has none.  `sequence` is that of the first group.
struct Parcel {
  const char* source;
  char* target;
  int64_t size_bytes;
  volatile int64_t* sequence;
};

FDPROF_KERNEL Parcel parcel_at(const Outbox& outbox, int64_t place) {
  if (place >= outbox.words) {
    return {nullptr, nullptr, 0, outbox.sequence[0]};
  }
  int64_t i = outbox.count - 1;
  while (outbox.items[i].first > place) {
    --i;
  }
  const Outgoing& item = outbox.items[i];
  const int64_t offset = (place - item.first) * kWordBytes;
  const int64_t left = item.size_bytes - offset;
  return {item.source + offset, item.target + offset, left < kWordBytes ? (left > 0 ? left : 0) : kWordBytes,
          outbox.sequence[0]};
}

FDPROF_KERNEL void deliver(const Parcel& parcel) {
  if (parcel.size_bytes == kWordBytes) {
    *reinterpret_cast<volatile uint64_t*>(parcel.target) = *reinterpret_cast<const uint64_t*>(parcel.source);
    return;
  }
  for (int64_t byte = 0; byte < parcel.size_bytes; ++byte) {
    reinterpret_cast<volatile char*>(parcel.target)[byte] = parcel.source[byte];
  }
}

// The values must reach the host before the number that announces them.  The barrier orders the writes of all threads
// before the first one's fence, and a fence is cumulative (PTX ISA, memory consistency model, causality order), so
// one fence serves all threads and all groups: it costs the way to the host.  `first` is the thread's own parcel,
// looked up before the values were made, because reading the kernel's arguments for it takes time.
template <typename Block>
FDPROF_KERNEL void publish(const Outbox& outbox, const Parcel& first, int64_t step, const Block& block) {
  if (outbox.publications == 0) {
    return;
  }
  // Mirrors were written before the update's last barrier, or after it by the thread that fences below.
  if (outbox.words > 0) {
    block.barrier();
    deliver(first);
    for (int64_t place = block.thread() + block.threads(); place < outbox.words; place += block.threads()) {
      deliver(parcel_at(outbox, place));
    }
    block.barrier();
  }
  if (block.thread() == 0) {
    block.fence_system();
    *first.sequence = step + 1;
    for (int32_t i = 1; i < outbox.publications; ++i) {
      *outbox.sequence[i] = step + 1;
    }
  }
}

template <typename Block>
FDPROF_KERNEL void prepare_step(const DecodeState& state, const Payloads& payloads, const Inbox& inbox,
                                const Outbox& outbox, const Block& block) {
  const int64_t start_ns = block.now_ns();
  const int64_t step = *state.sequence_number;
  const Parcel parcel = parcel_at(outbox, block.thread());
  insert_request(state, inbox, step, block);
  uint64_t active = 0;
  for (int64_t b = block.thread(); b < state.rows; b += block.threads()) {
    prepare_row(state, b, step);
    active += is_active(state, b, step) ? 1 : 0;
  }
  if (state.real_output_token_num != nullptr) {
    active = block.sum(active);
    if (block.thread() == 0) {
      *state.real_output_token_num = static_cast<int32_t>(active) * static_cast<int32_t>(state.draft_tokens + 1);
    }
  }
  write_payloads(payloads, step, block);
  publish(outbox, parcel, step, block);
  if (block.thread() == 0) {
    int64_t* stamps = stamps_of(state, step, state.kernels + 1);
    stamps[0] = start_ns;
    stamps[1] = block.now_ns();
  }
}

// `launch_tokens`: rows the host launched for, -1 for all; with too few, rows at the end are left as they are.
template <typename Block>
FDPROF_KERNEL void update_step(const DecodeState& state, const Payloads& payloads, const Outbox& outbox,
                               int64_t launch_tokens, const Block& block) {
  const int64_t start_ns = block.now_ns();
  const int64_t step = *state.sequence_number;
  const Parcel parcel = parcel_at(outbox, block.thread());
  int64_t computed_rows = state.rows;
  if (launch_tokens >= 0) {
    uint64_t mine = 0;
    for (int64_t b = block.thread(); b < state.rows; b += block.threads()) {
      mine += is_active(state, b, step) ? 1 : 0;
    }
    const auto active = static_cast<int64_t>(block.sum(mine));
    computed_rows -= launch_tokens < active ? active - launch_tokens : 0;
  }
  bool goes_on = false;
  for (int64_t b = block.thread(); b < state.rows; b += block.threads()) {
    if (b < computed_rows) {
      goes_on = step_row(state, b, step, outbox.token_mirror) || goes_on;
      continue;
    }
    goes_on = is_live(state, b, step + 1) || goes_on;
    if (outbox.token_mirror != nullptr) {
      outbox.token_mirror[b] = state.sampled_token_ids[b];
    }
  }
  write_payloads(payloads, step, block);
  goes_on = block.any(goes_on);
  if (block.thread() == 0) {
    *state.not_need_stop = goes_on;
    if (outbox.stop_mirror != nullptr) {
      *outbox.stop_mirror = goes_on;
    }
  }
  publish(outbox, parcel, step, block);
  if (block.thread() == 0) {
    *state.sequence_number = step + 1;
    int64_t* stamps = stamps_of(state, step, state.kernels);
    stamps[0] = start_ns;
    stamps[1] = block.now_ns();
  }
}

}  // namespace fdprof
