// Host memory behind CPU-place tensors: page-locked where there is CUDA, page-aligned otherwise.
//
// A CPU-place tensor over pinned memory is copied to asynchronously like Paddle's own pinned tensor, but is never
// moved to the device when Python indexes it.  The memory is owned here and not by a deleter of the tensor, because
// up to Paddle 2.6 from_blob keeps the first deleter of a thread for ever (fixed by Paddle #68859).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paddle/phi/api/include/tensor.h"

namespace fdprof {

// Zeroed.  Also frees the memory of earlier tensors to which nothing refers any more.
paddle::Tensor pinned_tensor(const std::vector<int64_t>& shape, const std::string& dtype, bool mapped);

// Frees the memory and leaves the tensor uninitialised; refuses memory that another tensor shares.
void free_pinned(const paddle::Tensor& tensor);

// How many blocks are held: of living tensors, and of dead ones not yet freed.
int64_t pinned_count();

// The device's address of a tensor of pinned_tensor(mapped=True).
std::uintptr_t device_pointer(const paddle::Tensor& tensor);

// "pageable", "pinned" or "device".
std::string memory_kind(const paddle::Tensor& tensor);

// Queues a copy of equally many bytes on the stream; keeps no reference to either tensor.
void copy_async(const paddle::Tensor& target, const paddle::Tensor& source, std::uintptr_t stream);

// Overwrites all bytes of a tensor in host memory, with no fence; refuse one on the device, or another size.
void write_host(const paddle::Tensor& tensor, const void* values, int64_t size_bytes);
void poison(const paddle::Tensor& tensor, uint8_t byte);

}  // namespace fdprof
