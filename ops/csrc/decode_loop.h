// The device side of a decode step: a kernel for pre-processing, `kernels` spinning kernels for the model, and one for
// sampling and update.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "decode_step.h"
#include "device.h"
#include "forward_graph.h"
#include "publication.h"

namespace fdprof {

// The kernel that makes a tensor.
enum class Producer { Prepare, Update };

// A tensor to publish: from where, and where to in each slot, all as the kernels address it.
struct PublishedTensor {
  const void* source;
  std::vector<void*> slots;
  int64_t size_bytes;
};

class DecodeLoop {
 public:
  // `payloads` by Producer.
  DecodeLoop(const DecodeState& state, const std::array<Payloads, 2>& payloads, const Inbox& inbox, int64_t max_steps,
             bool as_graph);
  DecodeLoop(const DecodeLoop&) = delete;
  DecodeLoop& operator=(const DecodeLoop&) = delete;

  void prepare(StreamHandle stream);
  void forward(StreamHandle stream);
  void update(StreamHandle stream, int64_t launch_tokens);

  // Only before the first step.  Every tensor has the same number of slots.
  std::unique_ptr<Publication> publish(const std::string& group, Producer producer,
                                       const std::vector<PublishedTensor>& tensors, WaitStyle wait);

  int64_t launched_steps() const { return launched_steps_; }

 private:
  // What one kernel publishes; a kernel gets the addresses of its step's slots only, so that they fit its parameters.
  struct Mail {
    Outbox outbox{};
    std::vector<std::vector<void*>> slots;  // by item of the outbox
    std::vector<void*> token_slots;         // of the mirrors; empty where there is none
    std::vector<void*> stop_slots;
  };

  void require_place_in_stamps(const char* call) const;
  const Outbox& outbox_of_step(Producer producer);
  int64_t work_of(Producer producer) const;

  DecodeState state_;
  std::array<Payloads, 2> payloads_;
  Inbox inbox_;
  int64_t max_steps_;
  std::unique_ptr<ForwardGraph> graph_;
  std::array<Mail, 2> mail_;
  Mapped<SequenceWord> words_;
  int64_t publications_ = 0;
  std::array<int64_t, 2> work_{};
  int64_t launched_steps_ = 0;
};

}  // namespace fdprof
