# How our own code is compiled: linked PRIVATE by our targets only, so that no library sees our warnings.
add_library(ddp_settings INTERFACE)
target_compile_features(ddp_settings INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)
target_include_directories(ddp_settings INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include/ddp>")
# Texts of errors name files (__FILE__), ours and LibTorch's headers: without the directories of the machine that builds. Debug information
# keeps them. ddp_torch_places: for what includes LibTorch; apart, so that the launcher is compiled alike (ccache) without it.
add_library(ddp_torch_places INTERFACE)
function(ddp_leave_out target directory)
  if(directory)
    file(REAL_PATH "${directory}" real)
    target_compile_options(${target} INTERFACE "$<BUILD_INTERFACE:-fmacro-prefix-map=${directory}/=>" "$<BUILD_INTERFACE:-fmacro-prefix-map=${real}/=>")
  endif()
endfunction()
ddp_leave_out(ddp_settings "${PROJECT_SOURCE_DIR}")
ddp_leave_out(ddp_torch_places "${DDP_TORCH}")
ddp_leave_out(ddp_torch_places "${DDP_CUDA_HEADERS}")
if(DDP_SANITIZE)
  target_compile_options(ddp_settings INTERFACE -fsanitize=${DDP_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ddp_settings INTERFACE -fsanitize=${DDP_SANITIZE})
  if(DDP_SANITIZE MATCHES "undefined")
    target_compile_options(ddp_settings INTERFACE -fno-sanitize-recover=undefined)
  endif()
  if(DDP_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(ddp_settings INTERFACE -Wno-tsan)  # Asio's fences
  endif()
  if(DDP_SANITIZE MATCHES "address")
    # Misuse of a coroutine's frame is seen only when frames are not recycled.
    target_compile_definitions(ddp_settings INTERFACE BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING)
  endif()
endif()
if(DDP_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "DDP_FUZZ needs clang (libFuzzer), this is ${CMAKE_CXX_COMPILER_ID}. Use the preset: cmake --preset fuzz")
  endif()
  # Every library is instrumented, or the fuzzer would not see which input reaches new code; only the targets get its main.
  target_compile_options(ddp_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(ddp_warnings INTERFACE)
target_compile_options(ddp_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  $<$<BOOL:${DDP_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A coroutine's frame that holds what one of its batch's files keeps to itself.
  target_compile_options(ddp_warnings INTERFACE -Wno-subobject-linkage)
endif()

# Programs lie at the top of the build directory, where users, tests and each other look for them.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(DDP_CCACHE ccache)
if(DDP_CCACHE)
  # A precompiled header is cached only with these; see ccache(1), "Precompiled headers". The base directory lets one checkout use
  # what another has compiled: paths below it are hashed relative to where the compiler runs.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env"
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "CCACHE_NOHASHDIR=1" "${DDP_CCACHE}")
endif()
find_program(DDP_MOLD mold)
if(DDP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# A file with Torch or Asio takes up to 2 GB to compile: as many at once as fit into memory, no matter who calls ninja.
function(ddp_limit_compile_jobs)
  cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
  if(EXISTS /sys/fs/cgroup/memory.max)
    file(STRINGS /sys/fs/cgroup/memory.max limit LIMIT_COUNT 1)
    if(limit MATCHES "^[0-9]+$")
      math(EXPR limit_mib "${limit} / 1048576")
      if(limit_mib LESS memory_mib)
        set(memory_mib ${limit_mib})
      endif()
    endif()
  endif()
  cmake_host_system_information(RESULT jobs QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR fitting "${memory_mib} / 2048")
  if(fitting LESS jobs)
    set(jobs ${fitting})
  endif()
  if(jobs LESS 1)
    set(jobs 1)
  endif()
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS compile=${jobs})
  message(STATUS "Compiles at once: ${jobs}")
endfunction()
ddp_limit_compile_jobs()
set(CMAKE_JOB_POOL_COMPILE compile)
set(CMAKE_JOB_POOL_PRECOMPILE_HEADER compile)
