"""L1 rooms, L2 wrappers, L13 lists: what may be included where, and that every file is built and every named one is there."""

import posixpath
import re

from source import ROOMS, Checkout, File

INCLUDE = re.compile(r'(?m)^[ \t]*#[ \t]*include[ \t]*(?P<quote>[<"])(?P<target>[^">]+)[">]')

# A room may include itself, common, and these.
OPEN_TO = {
    "common": [],
    "launcher/plan": [],
    "launcher/os": ["launcher/plan"],
    "launcher/net": ["launcher/plan", "launcher/os"],
    "launcher/run": ["launcher"],
    "launcher/main.cpp": ["launcher"],
    "worker/plan": [],
    "worker/image": [],
    "worker/data": ["worker/plan", "worker/image"],
    "worker/model": ["worker/plan", "worker/data"],
    "worker/dist": ["worker/plan", "worker/data", "worker/model"],
    "worker/cuda": ["worker/dist"],
    "worker/shm": ["worker/dist"],
    "worker/task": ["worker/plan", "worker/image", "worker/data", "worker/model", "worker/dist"],
    "worker/save": ["worker/plan", "worker/data", "worker/model", "worker/dist"],
    "worker/python": ["worker/plan", "worker/data", "worker/model", "worker/save"],
    "worker/fetch": ["worker/plan", "worker/data", "worker/save"],
    "worker/train": ["worker"],
    "worker/user_loop": ["worker"],
    "worker/include": ["worker"],
    "worker/start": [],
    "worker/program.h": ["worker"],
    "worker/program.cpp": ["worker"],
    "worker/main.cpp": ["worker"],
}


def room_of(path: str) -> str:
    parts = path.split("/")
    return "common" if parts[0] == "common" else "/".join(parts[:2])


def is_inside(path: str, room: str) -> bool:
    return path == room or path.startswith(room + "/")


def rooms(checkout: Checkout):
    for file in checkout.cpp:
        if not file.path.startswith(tuple(room + "/" for room in ROOMS)):
            continue
        room = room_of(file.path)
        if room not in OPEN_TO:
            yield file.find(0, "L1", f"{room} is not a room; the rooms are {', '.join(OPEN_TO)}")
            continue
        allowed = [room, "common", *OPEN_TO[room]]
        for include in INCLUDE.finditer(file.code):
            target = include["target"]
            if target.startswith(tuple(place + "/" for place in (*ROOMS, "tests"))):
                if not any(is_inside(target, place) for place in allowed):
                    yield file.find(include.start(), "L1", f"{room} may not include {target}; open to it: {', '.join(allowed)}")
            elif include["quote"] == '"':
                yield file.find(include.start(), "L1", f'"{target}" is not a path from the root')


def cycles(checkout: Checkout):
    files = {file.path: file for file in checkout.cpp}
    includes = {
        path: [(match["target"], match.start()) for match in INCLUDE.finditer(file.code) if match["target"] in files]
        for path, file in files.items()
    }
    done = set()

    def walk(path, trail):
        for target, position in includes[path]:
            if target in trail:
                loop = [*trail[trail.index(target):], target]
                yield files[path].find(position, "L1", "include cycle: " + " -> ".join(loop))
            elif target not in done:
                yield from walk(target, [*trail, target])
        done.add(path)

    for path in files:
        if path not in done:
            yield from walk(path, [path])


def folder_cycles(checkout: Checkout):
    """Folders inside rooms have an order, too: of two, one alone includes the other, by whatever way."""
    includes = {}  # folder to folders, each with the first place
    for file in checkout.cpp:
        if file.path.startswith(tuple(room + "/" for room in ROOMS)):
            here = posixpath.dirname(file.path)
            for match in INCLUDE.finditer(file.code):
                there = posixpath.dirname(match["target"])
                if there != here and there.startswith(ROOMS):
                    includes.setdefault(here, {}).setdefault(there, (file, match.start()))
    done = set()

    def walk(folder, trail):
        for there, (file, position) in includes.get(folder, {}).items():
            if there in trail:
                yield file.find(position, "L1", "cycle of folders: " + " -> ".join([*trail[trail.index(there):], there]))
            elif there not in done:
                yield from walk(there, [*trail, there])
        done.add(folder)

    for folder in sorted(includes):
        if folder not in done:
            yield from walk(folder, [folder])


# What may be included only in places that match; tests may include everything.
WRAPPERS = [
    (re.compile(r"boost/asio\b"), re.compile(r"launcher/(os|net|run)/"), "Asio is for launcher/os, net and run"),
    (re.compile(r"(torch|c10|ATen|caffe2)/"), re.compile(r"worker/(?!(plan|image)/)"), "Torch is for worker/, and not its plan/ and image/"),
    (re.compile(r"boost/beast\b"), re.compile(r"launcher/net/http_server\.cpp$"), "its wrapper is launcher/net/http_server.cpp"),
    (re.compile(r"boost/program_options\b"), re.compile(r"(launcher/plan/command_line|worker/plan)/options\.cpp$"), "its wrapper is options.cpp"),
    (re.compile(r"yaml-cpp/"), re.compile(r"common/files/yaml\.cpp$"), "its wrapper is common/files/yaml.cpp"),
    (re.compile(r"curl/"), re.compile(r"worker/fetch/(download|kubeflow_status)\.cpp$"), "its wrappers are worker/fetch/download.cpp and kubeflow_status.cpp"),
    (re.compile(r"spdlog/"), re.compile(r"common/cli/log\."), "its wrapper is common/cli/log"),
    (re.compile(r"(jpeglib|jerror)\.h$"), re.compile(r"worker/image/jpeg\.cpp$"), "its wrapper is worker/image/jpeg.cpp"),
    (re.compile(r"png\.h$"), re.compile(r"worker/image/png\.cpp$"), "its wrapper is worker/image/png.cpp"),
    (re.compile(r"webp/"), re.compile(r"worker/image/webp\.cpp$"), "its wrapper is worker/image/webp.cpp"),
    (re.compile(r"(?!worker/)(.*/)?(nccl|cuda[^/]*)\.h$"), re.compile(r"worker/(.*/)?cuda"), "CUDA is for the CUDA module, worker/**/cuda*"),
]
NOW = re.compile(r"::\s*now\s*\(")


def wrappers(checkout: Checkout):
    for file in checkout.cpp:
        if file.is_test:
            continue
        for include in INCLUDE.finditer(file.code):
            for library, place, what in WRAPPERS:
                if library.match(include["target"]) and not place.match(file.path):
                    yield file.find(include.start(), "L2", f"{include['target']}: {what}")
        if re.match(r"(launcher|worker)/plan/", file.path):
            for match in NOW.finditer(file.bare):
                yield file.find(match.start(), "L2", "plan/ has no clock: take the time as an argument")


CMAKE_WORD = re.compile(r"[^\s()\";]+\.(?:cpp|h|py|sh)\b")


def built_files(checkout: Checkout):
    for file in checkout.files:
        if file.name == "CMakeLists.txt":
            here = posixpath.dirname(file.path)
            for word in CMAKE_WORD.findall(file.code):
                word = re.sub(r"^\$\{(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}/", "", word)
                from_root = re.sub(r"^\$\{(PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR)\}/", "/", word)
                yield from_root[1:] if from_root.startswith("/") else posixpath.normpath(posixpath.join(here, word))


def is_listed(file: File) -> bool:
    """Sources of every room and of the tests, and the tests that are scripts."""
    if file.is_cpp:
        return file.path.startswith(tuple(room + "/" for room in (*ROOMS, "tests")))
    return file.suffix in (".py", ".sh") and re.match(r"tests/(unit|integration|fault|interop)/", file.path) is not None


# What a page calls by a path of ours: `launcher/plan/round/round` is round.h or round.cpp, `tests/fuzz/` a folder.
NAMED = re.compile(r"`(?P<what>(?:common|launcher|worker|tests|configs|deploy|docs|cmake)/[\w./-]*[\w/])`")
PAGE = re.compile(r"(ARCHITECTURE|CONTRIBUTING|README|docs/[\w-]+)\.md")


def is_there(what: str, checkout: Checkout) -> bool:
    folder = what.rstrip("/") + "/"
    return any(file.path in (what, what + ".h", what + ".cpp") or file.path.startswith(folder) for file in checkout.files)


def lists(checkout: Checkout):
    built = set(built_files(checkout))
    for file in checkout.files:
        if is_listed(file) and file.path not in built:
            yield file.find(0, "L13", "is named in no CMakeLists.txt")
    for page in (file for file in checkout.files if PAGE.fullmatch(file.path)):
        for name in NAMED.finditer(page.text):
            if not is_there(name["what"], checkout):
                yield page.find(name.start("what"), "L13", f"{name['what']}: there is no such file")


RULES = [rooms, cycles, folder_cycles, wrappers, lists]
