# What the CUDA module needs beside LibTorch: headers of NCCL and of the CUDA runtime, from the wheels that torch's metadata names.
# They are looked for where LibTorch is, then beside the torch of DDP_PYTHON. No nvcc. There: ddp_torch_cuda. Not there: the worker
# is built all the same, and computes on CPUs.
if(NOT DDP_BUILD_WORKER)
  return()
endif()

function(ddp_find_cuda_wheels result)
  set(places "${DDP_TORCH}")
  if(DDP_PYTHON)
    execute_process(
      COMMAND "${DDP_PYTHON}" -c "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parents[1])"
      OUTPUT_VARIABLE site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(APPEND places "${site}")
  endif()
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
  message(STATUS "ddp-worker-cuda: not built, no nvidia/nccl/include/nccl.h beside DDP_TORCH='${DDP_TORCH}' or the torch of DDP_PYTHON='${DDP_PYTHON}'")
  return()
endif()
# Some of its headers are in a wheel that torch does not ask for.
include(CheckIncludeFileCXX)
unset(DDP_CUDA_RUNTIME_COMPILES CACHE)
set(CMAKE_REQUIRED_FLAGS "-idirafter ${ddp_cuda_wheels}/cu13/include")
set(CMAKE_REQUIRED_QUIET ON)
check_include_file_cxx(cuda_runtime.h DDP_CUDA_RUNTIME_COMPILES)
unset(CMAKE_REQUIRED_QUIET)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT DDP_CUDA_RUNTIME_COMPILES)
  message(STATUS "ddp-worker-cuda: not built, ${ddp_cuda_wheels}/cu13/include/cuda_runtime.h does not compile; the wheel nvidia-cuda-crt has what it includes")
  return()
endif()
message(STATUS "ddp-worker-cuda: built with ${ddp_cuda_wheels}")

add_library(ddp_torch_cuda INTERFACE)
target_compile_definitions(ddp_torch_cuda INTERFACE USE_C10D_NCCL)
target_compile_options(ddp_torch_cuda INTERFACE
  "SHELL:-idirafter ${ddp_cuda_wheels}/nccl/include"
  "SHELL:-idirafter ${ddp_cuda_wheels}/cu13/include")
# --no-as-needed: kernels register themselves, no symbol asks for them. The wheels' libraries may be absent where we build. RPATH,
# not RUNPATH: it counts for what libtorch_cuda.so loads, too, when LibTorch's own directory lacks those wheels.
target_link_options(ddp_torch_cuda INTERFACE "LINKER:--no-as-needed" "LINKER:--allow-shlib-undefined" "LINKER:--disable-new-dtags")
target_link_libraries(ddp_torch_cuda INTERFACE ddp_torch "${DDP_TORCH}/torch/lib/libtorch_cuda.so" "${DDP_TORCH}/torch/lib/libc10_cuda.so")
set(ddp_cuda_libraries "")
foreach(wheel nccl cudnn nvshmem cusparselt cu13)
  list(APPEND ddp_cuda_libraries "${ddp_cuda_wheels}/${wheel}/lib")
endforeach()
