# What the CUDA module needs beside LibTorch: headers of NCCL and of the CUDA runtime, from the wheels that torch's metadata names.
# They are looked for where LibTorch is, then beside the torch of DDP_PYTHON. No nvcc. There: ddp_torch_cuda. Not there: the worker
# is built all the same, and computes on CPUs, unless the user's choice DDP_CUDA is ON.
set(DDP_CUDA AUTO CACHE STRING "The module for GPUs: AUTO (where the CUDA wheels are found), ON, OFF")
set_property(CACHE DDP_CUDA PROPERTY STRINGS AUTO ON OFF)
set(DDP_CUDA_HEADERS "" CACHE PATH "Where nvidia-cuda-crt, or all wheels with headers, are unpacked, if not beside torch")
if(NOT DDP_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DDP_CUDA is '${DDP_CUDA}'. Give AUTO, ON or OFF.")
endif()
if(NOT DDP_BUILD_WORKER)
  return()
endif()
if(DDP_CUDA STREQUAL "OFF")
  message(STATUS "ddp-worker-cuda: not built, DDP_CUDA=OFF")
  return()
endif()

function(ddp_without_cuda why)
  if(DDP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ddp-worker-cuda: DDP_CUDA=ON, but ${why}. Run DDP_CUDA=ON ./make.sh deps, or go without: DDP_CUDA=OFF.")
  endif()
  message(STATUS "ddp-worker-cuda: not built, ${why}")
endfunction()

function(ddp_find_cuda_wheels result)
  set(places "${DDP_TORCH}")
  if(DDP_PYTHON)
    execute_process(
      COMMAND "${DDP_PYTHON}" -c "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parents[1])"
      OUTPUT_VARIABLE site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET TIMEOUT 60 RESULT_VARIABLE ended)
    if(ended MATCHES "timeout")
      message(FATAL_ERROR "DDP_PYTHON=${DDP_PYTHON} has not answered within 60 s where its torch is. Mend it, or give another one.")
    endif()
    list(APPEND places "${site}")
  endif()
  list(APPEND places "${DDP_CUDA_HEADERS}")  # headers alone: what is built with them is run elsewhere
  foreach(place IN LISTS places)
    if(EXISTS "${place}/nvidia/nccl/include/nccl.h" AND EXISTS "${place}/nvidia/cu13/include/cuda_runtime_api.h")
      set(${result} "${place}/nvidia" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

ddp_find_cuda_wheels(ddp_cuda_wheels)
if(NOT ddp_cuda_wheels OR NOT EXISTS "${DDP_TORCH}/torch/lib/libtorch_cuda.so")
  ddp_without_cuda("there is no nvidia/nccl/include/nccl.h beside DDP_TORCH='${DDP_TORCH}' or the torch of DDP_PYTHON='${DDP_PYTHON}', or no libtorch_cuda.so")
  return()
endif()
# Some of its headers are in a wheel that torch does not ask for.
include(CheckIncludeFileCXX)
unset(DDP_CUDA_RUNTIME_COMPILES CACHE)
# Before the system's directories: the layout of c10d's classes depends on the nccl.h of torch's own release, and a system may have another.
set(ddp_cuda_includes "-isystem ${ddp_cuda_wheels}/cu13/include")
if(DDP_CUDA_HEADERS)
  string(APPEND ddp_cuda_includes " -isystem ${DDP_CUDA_HEADERS}/nvidia/cu13/include")
endif()
set(CMAKE_REQUIRED_FLAGS "${ddp_cuda_includes}")
set(CMAKE_REQUIRED_QUIET ON)
check_include_file_cxx(cuda_runtime.h DDP_CUDA_RUNTIME_COMPILES)
unset(CMAKE_REQUIRED_QUIET)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT DDP_CUDA_RUNTIME_COMPILES)
  ddp_without_cuda("${ddp_cuda_wheels}/cu13/include/cuda_runtime.h does not compile; the wheel nvidia-cuda-crt has what it includes")
  return()
endif()
message(STATUS "ddp-worker-cuda: built with ${ddp_cuda_wheels}")

add_library(ddp_torch_cuda INTERFACE)
target_compile_definitions(ddp_torch_cuda INTERFACE USE_C10D_NCCL)
target_compile_options(ddp_torch_cuda INTERFACE
  "SHELL:-isystem ${ddp_cuda_wheels}/nccl/include"
  "SHELL:${ddp_cuda_includes}")
# --no-as-needed: kernels register themselves, no symbol asks for them. The wheels' libraries may be absent where we build. RPATH,
# not RUNPATH: it counts for what libtorch_cuda.so loads, too, when LibTorch's own directory lacks those wheels.
target_link_options(ddp_torch_cuda INTERFACE "LINKER:--no-as-needed" "LINKER:--allow-shlib-undefined" "LINKER:--disable-new-dtags")
target_link_libraries(ddp_torch_cuda INTERFACE ddp_torch "${DDP_TORCH}/torch/lib/libtorch_cuda.so" "${DDP_TORCH}/torch/lib/libc10_cuda.so")
set(ddp_cuda_libraries "")
set(ddp_nvidia_wheels nccl cudnn nvshmem cusparselt cu13)
foreach(wheel IN LISTS ddp_nvidia_wheels)
  list(APPEND ddp_cuda_libraries "${ddp_cuda_wheels}/${wheel}/lib")
endforeach()
