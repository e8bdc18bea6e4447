# LibTorch as IMPORTED targets of our own, from the unpacked wheels. Never find_package(Torch): it wants nvcc and an exact toolkit.
# Turns the user's choice DDP_BUILD_WORKER (AUTO, ON, OFF) into a plain ON or OFF; the cache keeps the choice. ON: there is ddp_torch.
# Trap: c10d's classes change between releases; torch_versions.txt has those with which the tests pass.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/torch_versions.txt" ddp_torch_rows REGEX "^[0-9]")
list(TRANSFORM ddp_torch_rows REPLACE " .*" "" OUTPUT_VARIABLE DDP_TORCH_TESTED_VERSIONS)

if(NOT DDP_BUILD_WORKER MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DDP_BUILD_WORKER is '${DDP_BUILD_WORKER}'. Give AUTO, ON or OFF.")
endif()
if(DDP_BUILD_WORKER STREQUAL "OFF")
  message(STATUS "ddp-worker: not built, DDP_BUILD_WORKER=OFF")
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

if(DDP_TORCH MATCHES "[:;]")
  message(FATAL_ERROR "DDP_TORCH='${DDP_TORCH}': a program's list of directories (RPATH) cannot hold a path with ':' or ';'. Move torch, or name it "
    "by a link without them.")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${DDP_TORCH}/torch/version.py")
set(ddp_torch_line "")
if(EXISTS "${DDP_TORCH}/torch/version.py")
  file(STRINGS "${DDP_TORCH}/torch/version.py" ddp_torch_line REGEX "^__version__ = ")
endif()
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+[^'+]*" DDP_TORCH_VERSION "${ddp_torch_line}")
if(NOT DDP_TORCH_VERSION IN_LIST DDP_TORCH_TESTED_VERSIONS)
  list(JOIN DDP_TORCH_TESTED_VERSIONS ", " ddp_torch_tested)
  message(WARNING "DDP_TORCH='${DDP_TORCH}' holds torch '${DDP_TORCH_VERSION}', tested are: ${ddp_torch_tested}. It may not compile, and may "
    "not be right. ./make.sh deps gets a tested one; DDP_BUILD_WORKER=OFF builds the launcher alone.")
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" DDP_TORCH_MINOR "${DDP_TORCH_VERSION}")
set(DDP_BUILD_WORKER ON)
message(STATUS "LibTorch ${DDP_TORCH_VERSION} at ${DDP_TORCH}")

add_library(ddp_c10 SHARED IMPORTED GLOBAL)
set_target_properties(ddp_c10 PROPERTIES IMPORTED_LOCATION "${DDP_TORCH}/torch/lib/libc10.so")
add_library(ddp_torch_cpu SHARED IMPORTED GLOBAL)
set_target_properties(ddp_torch_cpu PROPERTIES IMPORTED_LOCATION "${DDP_TORCH}/torch/lib/libtorch_cpu.so")

add_library(ddp_torch INTERFACE IMPORTED GLOBAL)
# Torch's headers come last (-idirafter): the wheel carries its own fmt 12, which must not shadow the system's.
target_compile_options(ddp_torch INTERFACE
  "SHELL:-idirafter ${DDP_TORCH}/torch/include"
  "SHELL:-idirafter ${DDP_TORCH}/torch/include/torch/csrc/api/include")
# Without the first two the c10d headers are silently empty. LibTorch is built with NDEBUG: without it at::RecordFunction has a member
# more here than there. So assert() does nothing in code that includes Torch, in any build.
target_compile_definitions(ddp_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO $<$<NOT:$<CONFIG:Release>>:NDEBUG>)
# stdc++ first: libtorch_cpu exports an older copy of std::filesystem, which must not win (a test reads `readelf -d`).
# RPATH, not RUNPATH, as torch's own libraries have it: LD_LIBRARY_PATH must not put another release in their place.
target_link_options(ddp_torch INTERFACE "LINKER:--no-as-needed" "LINKER:--disable-new-dtags" "LINKER:-rpath-link,${DDP_TORCH}/nvidia/cu13/lib")
target_link_libraries(ddp_torch INTERFACE stdc++ ddp_torch_cpu ddp_c10)

# Lets `target` compile from a precompiled torch/torch.h (7.7 s instead of 21 s per file). The first target owns the header
# (36 s, 2 GB of memory, 724 MB on disk); the others share it and so must have the same compile options.
function(ddp_precompile_torch target)
  get_property(owner GLOBAL PROPERTY ddp_torch_header_owner)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    # GCC takes a header only with the definitions that it was made with.
    target_link_libraries(${target} PRIVATE Boost::json ddp_spdlog)
  else()
    target_precompile_headers(${target} PRIVATE <torch/torch.h>)
    set_property(GLOBAL PROPERTY ddp_torch_header_owner ${target})
  endif()
endfunction()
