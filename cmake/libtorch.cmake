# LibTorch as IMPORTED targets of our own, from the unpacked wheels. Never find_package(Torch): it wants nvcc and an exact toolkit.
# Sets DDP_BUILD_WORKER to a plain ON or OFF.
set(DDP_TORCH_TESTED_VERSIONS 2.11.0)

if(DDP_BUILD_WORKER STREQUAL "OFF")
  set(DDP_BUILD_WORKER OFF)
  return()
endif()

if(NOT EXISTS "${DDP_TORCH}/torch/lib/libtorch_cpu.so")
  if(DDP_BUILD_WORKER STREQUAL "ON")
    message(FATAL_ERROR "DDP_TORCH='${DDP_TORCH}' holds no torch/lib/libtorch_cpu.so. "
      "Run ./make.sh deps, or set DDP_TORCH to the directory in which the torch wheel is unpacked.")
  endif()
  message(STATUS "ddp-worker: not built, no LibTorch at DDP_TORCH='${DDP_TORCH}' (./make.sh deps gets it)")
  set(DDP_BUILD_WORKER OFF)
  return()
endif()

file(STRINGS "${DDP_TORCH}/torch/version.py" ddp_torch_line REGEX "^__version__ = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" DDP_TORCH_VERSION "${ddp_torch_line}")
if(NOT DDP_TORCH_VERSION IN_LIST DDP_TORCH_TESTED_VERSIONS)
  message(FATAL_ERROR "DDP_TORCH='${DDP_TORCH}' holds torch '${DDP_TORCH_VERSION}', tested are: ${DDP_TORCH_TESTED_VERSIONS}. "
    "The Reducer's constructor and the store's protocol change between releases. Use a tested version.")
endif()
set(DDP_BUILD_WORKER ON)

# Torch's headers come last (-idirafter): the wheel carries its own fmt 12, which must not shadow the system's.
add_library(ddp_c10 SHARED IMPORTED)
set_target_properties(ddp_c10 PROPERTIES IMPORTED_LOCATION "${DDP_TORCH}/torch/lib/libc10.so")
add_library(ddp_torch_cpu SHARED IMPORTED)
set_target_properties(ddp_torch_cpu PROPERTIES IMPORTED_LOCATION "${DDP_TORCH}/torch/lib/libtorch_cpu.so")

add_library(ddp_torch INTERFACE)
target_compile_options(ddp_torch INTERFACE
  "SHELL:-idirafter ${DDP_TORCH}/torch/include"
  "SHELL:-idirafter ${DDP_TORCH}/torch/include/torch/csrc/api/include")
target_compile_definitions(ddp_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# stdc++ first: libtorch_cpu exports an older copy of std::filesystem, which must not win (tests/integration checks readelf -d).
target_link_options(ddp_torch INTERFACE "LINKER:--no-as-needed" "LINKER:-rpath-link,${DDP_TORCH}/nvidia/cu13/lib")
target_link_libraries(ddp_torch INTERFACE stdc++ ddp_torch_cpu ddp_c10)
set(CMAKE_BUILD_RPATH "${DDP_TORCH}/torch/lib")
message(STATUS "LibTorch ${DDP_TORCH_VERSION} at ${DDP_TORCH}")
