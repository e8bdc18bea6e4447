// The release of both programs and of the library. CMakeLists.txt reads it here, so that another
// one compiles only what tells it.
#pragma once

#define DDP_VERSION "0.2.0"
