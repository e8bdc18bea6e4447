# How our own code is compiled: linked PRIVATE by our targets only, so that no library sees our warnings.
add_library(ddp_settings INTERFACE)
target_compile_features(ddp_settings INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)
target_include_directories(ddp_settings INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(ddp_settings INTERFACE DDP_VERSION="${PROJECT_VERSION}")
if(DDP_SANITIZE)
  target_compile_options(ddp_settings INTERFACE -fsanitize=${DDP_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ddp_settings INTERFACE -fsanitize=${DDP_SANITIZE})
  if(DDP_SANITIZE MATCHES "undefined")
    target_compile_options(ddp_settings INTERFACE -fno-sanitize-recover=undefined)
  endif()
  if(DDP_SANITIZE MATCHES "thread")
    target_compile_options(ddp_settings INTERFACE -Wno-tsan)  # Asio's fences
  endif()
  if(DDP_SANITIZE MATCHES "address")
    # Misuse of a coroutine's frame is seen only when frames are not recycled.
    target_compile_definitions(ddp_settings INTERFACE BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING)
  endif()
endif()

add_library(ddp_warnings INTERFACE)
target_compile_options(ddp_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  $<$<BOOL:${DDP_WARNINGS_AS_ERRORS}>:-Werror>)

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_program(DDP_CCACHE ccache)
if(DDP_CCACHE)
  # A precompiled header is cached only with these two; see ccache(1), "Precompiled headers".
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${DDP_CCACHE}")
endif()
find_program(DDP_MOLD mold)
if(DDP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
