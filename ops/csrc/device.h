// Paddle's current device and compute stream, as plain numbers; the CPU build has device -1 and stream 0.
#pragma once

#include <cstdint>
#include <string>

namespace fdprof {

// A raw cudaStream_t.  A number, so that the CPU build and Python need no CUDA type.
using StreamHandle = std::uintptr_t;

// Makes Paddle's current device current in this thread for our CUDA runtime, once, and returns its index.
int use_device();

StreamHandle current_stream();

// name, compute_capability, driver_version, runtime_version, pci_bus_id and sm_count; empty without CUDA.
struct DeviceInfo {
  bool present = false;
  std::string name;
  std::string compute_capability;
  std::string driver_version;
  std::string runtime_version;
  std::string pci_bus_id;
  int sm_count = 0;
};
DeviceInfo device_info();

}  // namespace fdprof
