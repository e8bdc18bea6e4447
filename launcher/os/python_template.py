# The template of Python ranks (rank_template.h, docs/warm-start.md). ddp-launch carries this file, and sends it as the first packet
# of a socket to `python3 -u -c BOOT WORDS...`, where WORDS are those of a rank. It runs twice:
# 1. in that process, which checks the interpreter and executes it again, as `python3 -u WORDS...`, with this file as the first
#    `sitecustomize` of PYTHONPATH, in a zip file that exists in memory alone;
# 2. there, as sitecustomize: it imports the modules, says whether the process can be copied, and makes copies on command. A copy leaves
#    this file as if there were no sitecustomize. From there on CPython itself starts the script: __main__, sys.path[0], traceback, -m and
#    exit code are its own.
# A template that stays warm between jobs is in warm_template.py, and what makes one unfit in template_fitness.py. Both are sent before this
# text, in one packet.
# Trap: a copy is made by clone(2), not fork(3), as the agent shall be its parent (CLONE_PARENT) where the template is of one job alone. So
# handlers of pthread_atfork(3) do not run. That is sound because nothing holds a lock: there is one thread.
# BOOT has set `n`, the socket, and `s`, this text. In the second process also `words`: what the first one has read and found.
import os
import sys

OLDEST, NEWEST = (3, 9), (3, 14)
FIT = ("accelerate", "numpy", "torch", "torchvision", "tqdm", "transformers")  # of --preload auto
# What a script needs that has this name: wrapping the first model imports it, or the name of a module that is imported late.
LATE = {"DistributedDataParallel": ("torch", "_dynamo"), "Trainer": ("transformers", "trainer")}
# Both tables are kept true by tests/integration/preload_test.py and tests/interop/libraries_test.py, and so is this one:
ITERATES = ("fsspec.config", "tqdm.utils")  # over the environment, for names with a prefix of their own
MOST_PRINTED = 1 << 20  # bytes, which each rank prints
NUMBERS = {"x86_64": (56, 273, 274), "aarch64": (220, 99, 100)}  # of clone, set_robust_list, get_robust_list


def tell(kind, text=""):
    os.write(n, f"{kind} {text}".encode(errors="replace")[:4000])


def refuse(text):
    """Ends this process, whatever has become of the socket: it must never go on to the script."""
    try:
        tell("unfit", " ".join(text.split()))
    finally:
        os._exit(0)


def tasks():
    return len(os.listdir("/proc/self/task"))


def receive():
    """A packet's words, and the descriptors behind the first one, which holds them; or the words of a short packet, without descriptors.
    Nothing at the end of the agent."""
    import _socket as socket

    connection = socket.socket(fileno=n)
    try:
        short, parts, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(4 * 16), socket.MSG_CMSG_CLOEXEC)
    finally:
        connection.detach()
    fds = []
    for _, _, data in parts:
        fds += [int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data), 4)]
    if not fds:
        return short.decode(errors="replace").split() or None, []
    try:
        text = read_all(fds[0])
    except OSError:
        close_all(fds)
        raise
    os.close(fds[0])
    return [os.fsdecode(word) for word in text.split(b"\0")], fds[1:]


def close_all(fds):
    for fd in fds:
        os.close(fd)


def read_all(fd):
    pieces, size = [], 0
    while piece := os.pread(fd, 1 << 20, size):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def split_environment(entries):
    return dict(entry.split("=", 1) for entry in entries)


# --- The first process.


def find_refusal(command):
    version = sys.version_info[:2]
    if sys.implementation.name != "cpython" or not OLDEST <= version <= NEWEST:
        return f"{sys.implementation.name} {version[0]}.{version[1]} is not CPython 3.9 to 3.14"
    if "t" in sys.abiflags:
        return "this Python is free-threaded"
    if os.uname().machine not in NUMBERS or sys.maxsize < 1 << 32 or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return "this system is not Linux with glibc on x86-64 or arm64"
    if command[1:3] != ["-u", "-c"] or not sys.executable:
        return f"the interpreter is started with options of its own, as {' '.join(command[:2])}"
    if sys.gettrace() or sys.getprofile() or (version >= (3, 12) and any(map(sys.monitoring.get_tool, range(6)))):
        return "a tool like coverage watches the interpreter"
    if tasks() != 1:
        return "the start of the interpreter, by its .pth files or sitecustomize, starts a thread"
    if "usercustomize" in sys.modules:
        return "this Python has a usercustomize, which would run after the imports"
    own = getattr(sys.modules.get("sitecustomize"), "__file__", None)
    if own is not None:
        paths = sys.path[: sys.path.index(os.path.dirname(os.__file__))]
        if os.path.dirname(own) in paths and os.path.dirname(own) not in os.environ.get("PYTHONPATH", "").split(":"):
            return f"{own} comes before PYTHONPATH"
    return None


class Unfit(Exception):
    """Why there can be no template."""


def find_imports(script):
    """What the script imports at its top level, of what is known to be fit. It is read, not run."""
    import ast

    found = set()
    try:
        if not os.path.isfile(script):  # a pipe is read once
            return []
        with open(script, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    first = None  # what runs before an import, which it may change: the environment, sys.path
    for statement in tree.body:
        names = set()
        if isinstance(statement, ast.Import):
            names = {alias.name.split(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            names = {statement.module.split(".")[0]}
        elif not is_declaration(statement):
            first = first or f"line {statement.lineno}"
        late = names & set(FIT) - found  # a second import of a package adds nothing to the template
        if first and late:
            raise Unfit(f"auto: {first} of {script} runs before the import of {min(late)}")
        found |= names
        first = first or next((f"its own {name}" for name in sorted(names) if is_beside(script, name)), None)
    chosen = [name for name in FIT if name in found]
    names = {getattr(node, "name", getattr(node, "attr", None)) for node in ast.walk(tree)}
    return chosen + [f"{package}.{module}" for name, (package, module) in LATE.items() if name in names and package in chosen and has(package, module)]


def is_declaration(statement):
    """Whether it changes nothing that an import sees."""
    import ast

    if isinstance(statement, ast.Assign):
        return isinstance(statement.value, ast.Constant) and all(isinstance(target, ast.Name) for target in statement.targets)
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or (isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and not statement.decorator_list)


def is_beside(script, name):
    path = os.path.join(os.path.dirname(script), name)
    return os.path.isfile(path + ".py") or os.path.isdir(path)


def has(package, module):
    """Whether there is that module in the package. Nothing is imported."""
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec(package)
    folders = found.submodule_search_locations or () if found else ()
    return any(os.path.isdir(f"{folder}/{module}") or os.path.isfile(f"{folder}/{module}.py") for folder in folders)


def choose_modules(modules, arguments):
    if modules != ["auto"]:
        return modules
    script = arguments[2]  # after "-u"
    if script == "-m":
        path = arguments[3].replace(".", "/")
        script = path + ".py" if os.path.isfile(path + ".py") else path + "/__main__.py"
    chosen = find_imports(script)
    if not chosen:
        raise Unfit(f"auto finds none of {', '.join(FIT)} among the imports of {script}")
    return chosen


def stored_zip(name, data):
    """A zip file of one file, not compressed. zipimport compares no checksum."""
    head = (20).to_bytes(2, "little") + bytes(12) + len(data).to_bytes(4, "little") * 2
    head += len(name).to_bytes(2, "little") + bytes(2)
    central = b"PK\1\2" + bytes([20, 0]) + head + bytes(14) + name
    start = 30 + len(name) + len(data)
    end = b"PK\5\6" + bytes(4) + b"\1\0\1\0" + len(central).to_bytes(4, "little") + start.to_bytes(4, "little") + bytes(2)
    return b"PK\3\4" + head + name + data + central + end


def execute_again():
    with open("/proc/self/cmdline", "rb") as file:
        command = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    packet, listener = receive()  # before anything is told: an end with unread packets would take back what was (unix(7))
    if packet is None:
        os._exit(0)
    refusal = find_refusal(command)
    if refusal:
        refuse(refusal)
    end = packet.index("", 4)
    asked = packet[4:end]
    try:
        modules = choose_modules(asked, sys.argv)
    except Unfit as unfit:
        refuse(str(unfit))
    if asked == ["auto"]:
        tell("chosen", ", ".join(modules))
    watched = packet[end + 1 : packet.index("", end + 1)]
    base = split_environment(packet[packet.index("", end + 1) + 1 :])
    pool = None
    if listener:
        import time

        os.set_inheritable(listener[0], True)
        pool = (listener[0], *packet[:4], asked, time.time_ns())
    found = (n, modules, watched, base, os.environ.get("PYTHONPATH"), pool)
    text = f"n, *words = {ascii(found)}\n".encode() + s
    archive = os.memfd_create("ddp-template", 0)
    with open(archive, "wb", closefd=False) as file:
        file.write(stored_zip(b"sitecustomize.py", text))
    path = f"/proc/self/fd/{archive}"
    if "LC_CTYPE" not in base:
        os.environ.pop("LC_CTYPE", None)  # the interpreter's own, where there is no locale (PEP 538); it says so again
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = path + ":" + before if before else path
    os.execv(sys.executable, command[:1] + sys.argv[1:])


# --- The second process.


def restore_start(archive):
    """Takes this file out of the interpreter's view, and imports what is sitecustomize without it. Returns its exception."""
    path = os.path.dirname(__file__)
    sys.path.remove(path)
    sys.path_importer_cache.pop(path, None)
    sys.modules["zipimport"]._zip_directory_cache.pop(path, None)
    os.close(archive)
    if words[3] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = words[3]
    own = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except Exception as error:
        sys.modules["sitecustomize"] = own  # zipimport of Python 3.9 wants to remove it itself
        return error
    return None


def script_folder():
    """What CPython will put before sys.path."""
    if getattr(sys.flags, "safe_path", False):
        return None
    return os.getcwd() if sys.argv[0] == "-m" else os.path.dirname(os.path.realpath(sys.argv[0]))


class Cloner:
    """Makes copies of this process. They are children of its parent, or its own in a job's template."""

    def __init__(self):
        import ctypes

        self.ctypes = ctypes
        self.clone, self.set_robust_list, get_robust_list = NUMBERS[os.uname().machine]
        self.libc = ctypes.PyDLL(None, use_errno=True)  # it keeps the GIL
        self.libc.syscall.restype = ctypes.c_long
        # glibc keeps the thread's id there, and the kernel writes the copy's (set_tid_address(2)).
        self.tid = ctypes.c_void_p()
        if self.libc.prctl(40, ctypes.byref(self.tid), 0, 0, 0) != 0 or ctypes.c_int.from_address(self.tid.value).value != os.getpid():
            refuse("this kernel does not tell where glibc keeps the id of a thread (PR_GET_TID_ADDRESS)")
        self.before, self.after = ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Parent
        self.after_in_copy = ctypes.pythonapi.PyOS_AfterFork_Child
        self.robust = (ctypes.c_void_p(), ctypes.c_size_t())
        self.has_own_children = False
        self.call(get_robust_list, 0, ctypes.addressof(self.robust[0]), ctypes.addressof(self.robust[1]))

    def call(self, *numbers):
        return self.libc.syscall(*map(self.ctypes.c_long, numbers))

    def arguments(self, cgroup):
        flags = 0x1000000 | 0x200000  # CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID
        flags |= 0 if self.has_own_children else 0x8000  # CLONE_PARENT, whose exit signal must be 0
        end = 17 if self.has_own_children else 0  # SIGCHLD
        into = 0 if cgroup is None else 0x200000000  # CLONE_INTO_CGROUP
        # flags, pidfd, child_tid, parent_tid, exit_signal, stack, its size, tls, set_tid, its size, cgroup
        return flags, (self.ctypes.c_uint64 * 11)(flags | into, 0, self.tid.value, 0, end, 0, 0, 0, 0, 0, cgroup or 0)

    def copy(self, cgroup):
        """As os.fork(), and whether it is in the cgroup. Errors: OSError."""
        plans = [self.arguments(cgroup)] + ([self.arguments(None)] if cgroup is not None else [])
        is_x86 = self.clone == 56
        self.before()
        for flags, block in plans:
            pid = self.call(435, self.ctypes.addressof(block), self.ctypes.sizeof(block))
            is_inside = cgroup is not None and block is plans[0][1]
            if pid >= 0:
                break
        if pid < 0:  # older kernels and containers refuse clone3(2); none refuses clone(2)
            tid = self.tid.value
            pid = self.call(self.clone, flags | 17, 0, 0, tid if is_x86 else 0, 0 if is_x86 else tid)
        if pid == 0:
            self.after_in_copy()
            self.call(self.set_robust_list, self.robust[0].value, self.robust[1].value)
            return 0, is_inside
        number = self.ctypes.get_errno()
        self.after()
        if pid < 0:
            raise OSError(number, os.strerror(number))
        return pid, is_inside

    def end_with(self, parent):
        """The kernel kills this process when that one ends."""
        self.libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
        if os.getppid() != parent:
            os._exit(127)

    def end_alone(self):
        self.libc.prctl(1, 0, 0, 0, 0)

    def become_job_template(self):
        """From now on copies are our children, and so are their orphans."""
        self.has_own_children = True
        self.libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def place_descriptors(channel, targets):
    """Leaves open what a rank has: streams and `targets`, by number. Returns the channel's new number."""
    import fcntl

    least = max(targets) + 1
    moved = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least) for number, fd in targets.items()}
    channel = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, least)
    for number in descriptors():
        if number > 2 and number not in moved.values() and number != channel:
            os.close(number)
    for number, fd in moved.items():
        os.dup2(fd, number)
        os.close(fd)
    return channel


def set_environment(wanted, changes):
    for name, value in changes.items():
        if value is None:
            wanted.pop(name, None)
        else:
            wanted[name] = value
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def set_arguments(arguments):
    sys.argv[1:] = arguments[4:] if sys.argv[0] == "-m" else arguments[3:]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[1:] = arguments[1:]


def draw_again():
    """What a start draws by chance. `random` does so itself (os.register_at_fork)."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "torch.random" in sys.modules:
        sys.modules["torch.random"].default_generator.seed()
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "threading" in sys.modules:
        sys.modules["threading"].main_thread()._set_native_id()


def freeze(ctypes):
    """Or the next collection writes into every page, and no two processes share it. The namespace of the script is to be collected."""
    import gc

    main = ctypes.py_object(vars(sys.modules["__main__"]))
    ctypes.pythonapi.PyObject_GC_UnTrack(main)
    gc.freeze()
    ctypes.pythonapi.PyObject_GC_Track(main)


def end_quickly(ctypes):
    """CPython takes all modules down when the script has ended, those of torch in more than a second. In a copy those that there are now stay:
    just before, CPython drops `sys.__interactivehook__`, which then takes them out of `sys.modules`. The others, and what the script has
    made, go as usual. What is then left of that is held by an import, and would have gone with it: it gets its finalizer, which writes a
    file, and namespaces are emptied. CPython starts that when it empties the namespace of the last module."""
    import atexit
    import gc

    finalize = ctypes.pythonapi.PyObject_CallFinalizer
    finalize.argtypes, finalize.restype = [ctypes.py_object], None
    modules, kind, bound = sys.modules, type(sys), find_nanobind_types()
    last = kind("ddp_last")
    kept = {name: module for name, module in modules.items() if name != "__main__"}
    spaces = [kind.__getattribute__(module, "__dict__") for module in [*kept.values(), last] if isinstance(module, kind)]
    sizes = {id(space): (space, len(space)) for space in spaces}
    is_foreign = any(not one.__module__.startswith("triton.") for one in bound)

    class Begins:
        def __del__(self):
            if self.is_usual or any(one is tell for one in gc.get_objects()):  # the script may have unfrozen all
                return gc.unfreeze()
            ctypes.pythonapi.Py_IncRef(ctypes.py_object((kept, last)))  # for ever
            modules.update([(name, None) for name, module in kept.items() if modules.get(name) is module])
            last.ends, modules["ddp_last"] = Ends(), last

    class Ends:
        def __del__(self):
            left = [one for one in gc.get_objects() if one is not self]
            any(map(finalize, left))
            others = [(one, 0) for one in left if type(one) is dict and "__spec__" in one and id(one) not in sizes]
            for space, size in [*sizes.values(), *others]:
                if len(space) > size:
                    space.update([(name, None) for name in list(space)[size:] if name != "__builtins__"])
            for one, name in [(one, name) for one in bound for name, value in vars(one).items() if type(value).__module__ == "nanobind"]:
                delattr(one, name)  # a function, whose default arguments nanobind reports as leaked

    def prepare():
        """Before the imports' own functions. They must go where a thread uses them, where only they hold a process group, and where nanobind
        would report their objects as leaked, as it does not for triton, of which torch._dynamo makes none."""
        groups = modules.get("torch.distributed.distributed_c10d")
        begins = sys.__interactivehook__ = Begins()
        begins.is_usual = len(sys._current_frames()) > 1 or (groups and groups.is_initialized()) or is_foreign

    atexit.register(prepare)


def find_nanobind_types():
    kinds = [object]
    for kind in kinds:
        kinds += [one for one in type.__subclasses__(kind) if type(one).__name__.startswith("nb_type")]
    return kinds[1:]


def skip_exit_handlers(libc):
    """exit(3) calls what the imports' libraries have registered, for 0.3 s with torch, and for those of `auto` without an effect outside the
    process. What is registered from now on is called before."""
    if all(module.partition(".")[0] in FIT for module in words[0]) and "LD_PRELOAD" not in os.environ:
        libc.on_exit(libc._exit, None)  # it gets the exit code
        libc.on_exit(libc.fcloseall, None)  # before it: what C has printed


def become_rank(cloner, is_inside, packet, fds, changes, thresholds, signals):
    """The copy, until it is the rank. The agent takes it by one byte; else it ends."""
    import gc

    parent, optional, page, lock, cpus, count = packet[:6]
    end = 6 + int(count)
    channel, output, errors = fds[:3]
    try:
        os.setsid()
        cloner.end_with(int(parent))
        set_signals(signals)
        if cpus:
            os.sched_setaffinity(0, map(int, cpus.split(",")))
        others = dict(zip(optional, fds[3:]))
        targets = {1: output, 2: errors}
        targets.update({int(number): others[kind] for kind, number in (("p", page), ("l", lock)) if kind in others})
        printed = [(stream, read_all(stream)) for stream in (1, 2)]
        channel = place_descriptors(channel, targets)
        set_environment(split_environment(packet[end:]), changes)
        set_arguments(packet[6:end])
        draw_again()
        if gc.get_threshold()[0] == 0:
            gc.set_threshold(*thresholds)
        os.write(channel, f"{os.getpid()} {int(is_inside)}".encode())
        if os.read(channel, 1) != b"g":
            os._exit(127)
        os.close(channel)
    except BaseException as error:
        try:
            os.write(channel, f"{type(error).__name__}: {error}".encode(errors="replace")[:1000])
        finally:
            os._exit(127)  # the agent has given this copy up
    try:
        for stream, text in printed:  # what the imports have printed, each rank would have
            while text:
                text = text[os.write(stream, text) :]
    except OSError:
        pass  # nobody reads it


def follow(verb, pid, ranks):
    """Tells how a copy of a job's template has ended, or reaps it and the orphans that have ended."""
    if verb == "look":
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        return ("ended", f"{end.si_code} {end.si_status}") if end else ("runs", "")
    if pid in ranks:
        ranks.remove(pid)
        os.waitpid(pid, 0)
    for child in children():
        if child not in ranks:
            os.waitpid(child, os.WNOHANG)
    return ("reaped", "")


def children():
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return list(map(int, file.read().split()))
    except OSError:
        return []  # not in every kernel


def set_signals(handlers):
    import _signal

    for number, handler in handlers.items():
        _signal.signal(number, handler)


def make_copies(cloner, changes, thresholds, signals):
    """Serves the agent until it ends. Returns in a copy."""
    ranks = set()
    while True:
        packet, fds = receive()
        if packet is None:
            os._exit(0)
        if not fds:
            tell(*follow(packet[0], int(packet[1]), ranks))
            continue
        cgroup = dict(zip(packet[1], fds[3:])).get("c")
        try:
            if tasks() != 1:
                raise OSError(f"the template has {tasks()} threads")
            pid, is_inside = cloner.copy(cgroup)
        except BaseException as error:
            pid = -1
            try:
                os.write(fds[0], f"{type(error).__name__}: {error}".encode())
            except OSError:
                pass  # the agent has given it up
        if pid == 0:
            return become_rank(cloner, is_inside, packet, fds, changes, thresholds, signals)
        ranks.add(pid)
        close_all(fds)


def be_template():
    """Returns in a copy, with the exception of the real sitecustomize."""
    import gc

    modules, watched, base, _, pool = words
    if pool:
        del os.environ["DDP_AGENT_ID"]  # its bytes stay where /proc/PID/environ shows them
    archive = int(os.path.dirname(__file__).rpartition("/")[2])
    opened = [name for number, name in descriptors().items() if number > 2 and number not in (n, archive, pool and pool[0])]
    if opened:
        refuse(f"the start of the interpreter leaves {', '.join(opened)} open")
    unfit = find_start_files(watched)
    if unfit:
        refuse(unfit)
    for stream in (1, 2):
        printed = os.memfd_create("printed", os.MFD_CLOEXEC)
        os.dup2(printed, stream)
        os.close(printed)
    thresholds = gc.get_threshold()
    gc.set_threshold(0)  # an import makes much, and next to nothing that can go
    kind, asked = watch_environment(set(watched))
    known = {number: name for number, name in descriptors().items() if number != archive}
    outcome = restore_start(archive)
    unfit = find_unfit(known, asked, None)
    if unfit:
        refuse(f"sitecustomize {unfit}")
    cloner = Cloner()
    import_modules(modules, known, asked)
    os.environ.__class__ = os.environb.__class__ = kind
    printed = sum(os.fstat(stream).st_size for stream in (1, 2))
    if printed > MOST_PRINTED:
        refuse(f"the imports print {printed} bytes")
    changes = {name: value for name, value in os.environ.items() if base.get(name) != value}
    changes.update({name: None for name in base if name not in os.environ})
    if pool:
        os.set_inheritable(pool[0], False)
        pool = Pool(*pool)
    end_quickly(cloner.ctypes)
    skip_exit_handlers(cloner.libc)
    freeze(cloner.ctypes)
    signals = {}
    if pool:
        signals = stay_warm(pool, cloner)
    else:
        tell("ready")
    make_copies(cloner, changes, thresholds, signals)
    return outcome


if __name__ == "__main__":
    execute_again()
    os._exit(127)
try:
    outcome = be_template()
except BaseException as error:  # never on to the script: this is not a rank
    refuse(f"{type(error).__name__}: {error}")
if outcome is not None:
    raise outcome
