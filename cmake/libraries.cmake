# Debian's libraries, each behind one target; static where the distribution has it, so that ddp-launch is one file.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS program_options json)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(CURL REQUIRED)
find_package(Threads REQUIRED)

find_path(DDP_SODIUM_INCLUDE sodium.h REQUIRED)
find_library(DDP_SODIUM_STATIC libsodium.a REQUIRED)
add_library(ddp_sodium INTERFACE)
target_include_directories(ddp_sodium SYSTEM INTERFACE "${DDP_SODIUM_INCLUDE}")
target_link_libraries(ddp_sodium INTERFACE "${DDP_SODIUM_STATIC}")

find_library(DDP_YAML_CPP_STATIC libyaml-cpp.a REQUIRED)
add_library(ddp_yaml_cpp INTERFACE)
target_link_libraries(ddp_yaml_cpp INTERFACE "${DDP_YAML_CPP_STATIC}")

# Debian has no static spdlog and fmt: header-only, so nothing of them is needed at run time. Not by spdlog's own header-only
# target, which links libfmt.so.
add_library(ddp_spdlog INTERFACE)
target_compile_definitions(ddp_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(ddp_spdlog INTERFACE fmt::fmt-header-only Threads::Threads)

find_path(DDP_XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(DDP_PROTOZERO_INCLUDE protozero/pbf_writer.hpp REQUIRED)

# Readers of pictures. libjpeg itself and not TurboJPEG: its warnings have numbers, and rows come one by one, while they are in the
# cache.
find_path(DDP_JPEG_INCLUDE jpeglib.h REQUIRED)
find_path(DDP_PNG_INCLUDE png.h REQUIRED)
find_path(DDP_WEBP_INCLUDE webp/decode.h REQUIRED)
find_library(DDP_JPEG_STATIC libjpeg.a REQUIRED)
find_library(DDP_PNG_STATIC libpng16.a REQUIRED)
find_library(DDP_WEBP_STATIC libwebp.a REQUIRED)
find_library(DDP_WEBP_DEMUX_STATIC libwebpdemux.a REQUIRED)
add_library(ddp_pictures INTERFACE)
target_include_directories(ddp_pictures SYSTEM INTERFACE "$<BUILD_INTERFACE:${DDP_JPEG_INCLUDE};${DDP_PNG_INCLUDE};${DDP_WEBP_INCLUDE}>")
target_link_libraries(ddp_pictures INTERFACE "${DDP_JPEG_STATIC}" "${DDP_PNG_STATIC}" "${DDP_WEBP_DEMUX_STATIC}" "${DDP_WEBP_STATIC}" ZLIB::ZLIB Threads::Threads)
