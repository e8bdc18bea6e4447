# What makes the template of Python ranks unfit to be copied, sent with python_template.py, whose functions it uses: threads, descriptors,
# memory and names that an import has left, and what it has read of the environment.
import os
import sys


def watch_environment(names):
    """Notes which of `names` are asked for. They differ between ranks and are not in our environment."""
    kind, asked = type(os.environ), set()

    class Watched(kind):
        def __getitem__(self, name):
            text = os.fsdecode(name)
            if text in names:
                asked.add(text)
            return kind.__getitem__(self, name)

        def __iter__(self):
            caller = sys._getframe(1)
            while caller.f_back and caller.f_globals.get("__name__") in ("os", "collections.abc"):
                caller = caller.f_back
            if caller.f_globals.get("__name__") not in ITERATES:
                asked.add("the whole environment")
            return kind.__iter__(self)

    os.environ.__class__ = os.environb.__class__ = Watched
    return kind, asked


def descriptors():
    """By number, those that can be named: the one by which the folder is read is gone again."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass
    return found


def find_start_files(names):
    """A .pth file that names what differs between ranks: the interpreter has executed it before this file."""
    import site

    folders = site.getsitepackages() + [site.getusersitepackages()] if hasattr(site, "getsitepackages") else []
    for folder in folders:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.endswith(".pth"):
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                used = sorted(name for name in names if any(os.fsencode(quote + name + quote) in text for quote in "'\""))
                if used:
                    return f"{os.path.join(folder, name)} reads {', '.join(used)}, which differs between ranks"
    return None


def count_threads():
    """Threads that give way to fork(2), as those of OpenBLAS, are gone after one. They come again in a copy that needs them."""
    if tasks() == 1:
        return 1
    import time
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    deadline = time.monotonic() + 0.1
    while tasks() != 1 and time.monotonic() < deadline:
        os.sched_yield()  # a thread that has been joined is listed for a moment
    return tasks()


def mappings():
    """The access and the name of each piece of memory."""
    with open("/proc/self/maps") as file:
        rows = [line.split(None, 5) for line in file]
    return [(row[1], row[5].strip() if len(row) == 6 else "memory") for row in rows]


def find_unfit(known, asked, folder):
    """Why the process cannot be copied after an import; None: it can."""
    threads = count_threads()
    if threads != 1:
        return f"started {threads - 1} thread" + ("s" if threads > 2 else "")
    opened = [name for number, name in descriptors().items() if known.get(number) != name]
    if opened:
        return f"left {', '.join(opened)} open"
    for access, name in mappings():
        if name.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")) or access.startswith("rw-s"):
            return f"shares {name}"
    if children():
        return "left a process running"
    if asked:
        return f"reads {', '.join(sorted(asked))}, which differs between ranks"
    if folder is not None and sys.path[0] != folder:
        return "changes sys.path"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if folder is None or file is None or "." in name:
            continue
        home = os.path.dirname(file)
        if folder in (home, os.path.dirname(home) if os.path.basename(file).startswith("__init__.") else home):
            return f"takes {name} from the folder of the script"
    return None


def find_hidden(folder):
    """A file of the script's folder that an import would take in the place of what is imported; None: there is none."""
    for entry in sorted(os.listdir(folder)) if folder is not None else ():
        name, point, _ = entry.partition(".")
        is_module = point and entry.endswith((".py", ".pyc", ".so"))
        is_package = not point and any(os.path.isfile(f"{folder}/{entry}/__init__{end}") for end in (".py", ".pyc"))
        if name in sys.modules and name != "__main__" and (is_module or is_package):
            return f"the folder of the script has {entry}, which an import would take"
    return None


def import_modules(modules, known, asked):
    folder = script_folder()
    hidden = find_hidden(folder)
    if hidden:
        refuse(hidden)
    if folder is not None:
        sys.path.insert(0, folder)
    for module in modules:
        tell("importing", module)
        try:
            __import__(module)
        except BaseException as error:
            refuse(f"module {module} cannot be imported: {type(error).__name__}: {error}")
        unfit = find_unfit(known, asked, folder)
        if unfit:
            refuse(f"module {module} {unfit}")
    if folder is not None:
        sys.path.remove(folder)
        sys.path_importer_cache.pop(folder, None)
