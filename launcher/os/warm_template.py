# The template of Python ranks that stays warm between jobs (--preload-idle, docs/warm-start.md), sent with python_template.py, whose functions
# it uses. It listens at a socket of the pool (warm_pool.h) and serves each job by a fork of itself, the job's template. That one's copies are
# its own children, as no agent can be made their parent; it tells the agent how they end, and ends with the agent's connection.
import os
import sys


IMPORTED = (".py", ".so", ".pth", "-info", "-link")  # ends of names that an import or its start looks for


def stamp(path):
    """What shows that a file is another one or has changed, or that a folder has other names that can be imported."""
    try:
        if os.path.isdir(path):
            names = os.listdir(path)
            paths = {name: stamp(f"{path}/{name}") for name in names if name.endswith(".pth")}
            return paths, {name for name in names if "." not in name or name.endswith(IMPORTED)}
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def stamp_all(begin):
    """All that the imports have read, and the folders in which they have looked. What has changed since `begin` counts as another one: it is
    not known whether it was read before."""
    import site

    paths = {sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), *sys.path, site.getusersitepackages()}
    paths |= {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths |= {name for _, name in mappings() if ".so" in name}
    stamps = {path: stamp(path) for path in map(os.path.abspath, filter(lambda path: isinstance(path, str) and path, paths))}
    is_new = {path for path, one in stamps.items() if isinstance(one, tuple) and len(one) == 4 and max(one[:2]) > begin}
    return {path: "changed" if path in is_new else one for path, one in stamps.items()}


class Pool:
    """A template that stays warm. It serves one job after the other, until none has come for `idle` seconds, or its name leads elsewhere."""

    def __init__(self, listener, path, own_path, idle, key, asked, begin):
        import _socket as socket
        import time

        self.clock, self.timeout = time.monotonic, socket.timeout
        self.listener, self.path, self.own_path, self.key, self.asked = socket.socket(fileno=listener), path, own_path, key, asked
        self.idle = float(idle)
        self.stamps = stamp_all(begin - 10_000_000)  # the clock of files is coarse
        self.jobs, self.begin = 0, int(time.time())
        self.folder = os.getcwd()
        with open("/proc/self/stat") as file:
            start = int(file.read().rpartition(")")[2].split()[47])  # env_start (proc(5))
        with open("/proc/self/environ", "rb") as file:
            environment = b"\0" + file.read()
        name = b"\0DDP_AGENT_ID="
        self.agent_id = start + environment.index(name) + len(name) - 1

    def publish(self):
        self.listener.listen(16)  # by us: the agent asks the kernel who does
        self.listener.settimeout(2)
        os.rename(self.own_path, self.path)
        self.inode = os.stat(self.path).st_ino

    def is_published(self):
        try:
            return os.stat(self.path).st_ino == self.inode
        except OSError:
            return False

    def touch(self):
        """The one that was longest without a job is the oldest."""
        if self.is_published():
            os.utime(self.path)

    def leave(self):
        if self.is_published():
            os.unlink(self.path)
        os._exit(0)

    def serve(self):
        """Returns in a job's template."""
        global n
        deadline = self.clock() + self.idle
        while True:
            try:
                n = self.listener._accept()[0]
            except OSError as error:
                if not isinstance(error, self.timeout):  # as without descriptors
                    self.leave()
                if children():  # jobs run
                    deadline = self.clock() + self.idle
                    self.touch()
                if self.clock() > deadline or not self.is_published():
                    self.leave()
                continue
            fds = []
            try:
                packet, fds = self.hear()
                if packet == ["status"]:
                    left = self.idle if children() else max(deadline - self.clock(), 0)
                    facts = (os.getpid(), self.begin, int(left), self.jobs, sys.executable, ",".join(words[0]), sys.argv[0])
                    os.write(n, "\n".join(map(str, facts)).encode(errors="replace")[:4000])
                elif packet == ["key"]:
                    os.write(n, os.fsencode(self.key))
                elif packet == ["stop"]:
                    tell("stopped")
                    self.leave()
                elif fds:
                    deadline = self.clock() + self.idle
                    if self.begin_job(packet, fds[0]):
                        return
            except OSError:
                pass  # who asked is gone
            close_all([n, *fds])

    def hear(self):
        """A packet of our own user, who is quick."""
        import _socket as socket

        connection = socket.socket(fileno=n)
        try:
            user = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
            if user != os.geteuid():
                return None, []
            limit_wait(connection, 1)
        finally:
            connection.detach()
        return receive()

    def begin_job(self, packet, stdin):
        """Returns whether this is the job's template."""
        if packet[0] != self.key:
            tell("stale", "it is of another environment")
            return False
        # What changed during the imports is nothing to the job that has waited for them.
        changed = next((path for path, old in self.stamps.items() if stamp(path) != old and (self.jobs or old != "changed")), None)
        if changed or tasks() != 1:
            tell("stale", f"{changed} has changed" if changed else "it has threads")
            self.leave()
        self.jobs += 1
        self.touch()
        if os.fork() != 0:
            return False
        try:
            self.become_job_template(packet[1].encode(), packet[2:], stdin)
        except BaseException as error:
            try:
                tell("stale", f"{type(error).__name__}: {error}")
            finally:
                os._exit(0)
        return True

    def become_job_template(self, agent_id, arguments, stdin):
        import ctypes
        import _signal
        import _socket as socket

        os.setsid()
        ctypes.memmove(self.agent_id, agent_id, 32)  # in /proc/PID/environ of this process and of all that are forked from it
        os.chdir(self.folder)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        self.listener.close()
        os.dup2(stdin, 0)
        os.close(stdin)
        connection = socket.socket(fileno=n)
        limit_wait(connection, 0)
        connection.detach()
        hidden = find_hidden(script_folder())
        if hidden:
            raise Unfit(hidden)
        if self.asked != ["auto"]:
            return
        reader = os.fork()  # what reading it imports is none of the script's
        if reader == 0:
            try:
                os._exit(0 if choose_modules(self.asked, arguments) == words[0] else 1)
            finally:
                os._exit(1)
        if os.waitpid(reader, 0)[1] != 0:
            raise Unfit("auto chooses otherwise now")


def limit_wait(connection, seconds):
    """For the next packet; 0: without end."""
    import _socket as socket

    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds.to_bytes(8, sys.byteorder) + bytes(8))


def ignore_signals():
    """What is sent to all processes of a job must not end the parent of its ranks before they have. Returns the handlers of a rank."""
    import _signal

    kept = {_signal.SIGKILL, _signal.SIGSTOP, _signal.SIGCONT, _signal.SIGCHLD, _signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU}
    kept |= {_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT, _signal.SIGTRAP, _signal.SIGSYS}
    handlers = {number: _signal.getsignal(number) for number in _signal.valid_signals() if number not in kept}
    handlers = {number: handler for number, handler in handlers.items() if handler is not None}
    set_signals(dict.fromkeys(handlers, _signal.SIG_IGN))
    return handlers


def stay_warm(pool, cloner):
    """From now on no job is our parent's alone. Returns in the template of a job, with the signal handlers of its ranks."""
    import _signal

    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # jobs' templates leave no zombie
    os.chdir("/")  # a file system can be unmounted
    pool.publish()
    cloner.end_alone()
    tell("ready")
    os.close(n)
    pool.serve()
    cloner.become_job_template()
    handlers = ignore_signals()
    tell("ready", str(os.getpid()))
    return handlers
