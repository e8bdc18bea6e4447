"""ddp-worker, for the torch of this environment. The program is bin/ddp-worker; here is what a program of one's own is built with."""

import os

#: For `cmake -DCMAKE_PREFIX_PATH=...`, so that find_package(ddp) finds the library that fits this environment's torch.
cmake_prefix_path = os.path.dirname(os.path.abspath(__file__))
