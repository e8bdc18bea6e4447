// What fake GPUs are asked for while a LaunchRecord lives.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp::worker::late {

void note_allocation(std::int64_t block, std::size_t size);

/// `values` are the arguments that are no tensors.
void note_launch(const std::string& name,
                 const std::vector<at::Tensor>& tensors,
                 const std::string& values);

/// `host` is where the bytes of the host lie.
void note_copy(const std::string& name, const at::Tensor& there, const void* host);

}  // namespace ddp::worker::late
