"""L3 to L10, L15: traps of coroutines, exceptions, processes and headers, found by their text."""

import re

from source import Checkout, File, Finding


def each_match(rule: str, pattern: str, what: str, applies=lambda file: file.is_cpp):
    compiled = re.compile(pattern, re.MULTILINE)

    def find(checkout: Checkout):
        for file in checkout.files:
            if applies(file):
                for match in compiled.finditer(file.bare):
                    yield file.find(match.start(), rule, what.format(match.group().strip()))

    return find


NOT_HEARD = "{}: anyone who starts it must hear of its end"
detached = each_match("L3", r"\bdetached\b", NOT_HEARD)
detach = each_match("L3", r"\.\s*detach\s*\(", NOT_HEARD, lambda file: file.is_cpp and not file.path.startswith("worker/"))


def detach_in_worker(checkout: Checkout):
    """In the worker, tensors have a detach() too; theirs is part of an expression, a thread's is a whole statement."""
    for file in checkout.cpp:
        if file.path.startswith("worker/"):
            for match in re.finditer(r"(?:^|(?<=[;{}]))(?!\s*return\b)[^;{}=#]*(?P<call>\.\s*detach\s*\(\s*\))\s*;", file.bare):
                yield file.find(match.start("call"), "L3", NOT_HEARD.format(match["call"]))




def is_lambda(text: str, bracket: int) -> bool:
    """Whether the [ begins a lambda, and is not a subscript or an attribute."""
    before = text[:bracket].rstrip()
    if text.startswith("[[", bracket) or before.endswith("["):
        return False
    return not before or not (before[-1].isalnum() or before[-1] in "_)]\"") or re.search(r"\b(return|co_return)$", before) is not None


def awaited(checkout: Checkout):
    """L4: GCC 12 destroys temporaries of these kinds twice."""
    for file in checkout.cpp:
        text = file.bare
        for start in re.finditer(r"\bco_await\b", text):
            depth = 0
            for position in range(start.end(), len(text)):
                character = text[position]
                bad = {"{": "an aggregate or a body", "?": "a conditional"}.get(character)
                if character == "[" and is_lambda(text, position):
                    bad = "a lambda"
                if bad:
                    yield file.find(position, "L4", f"{bad} in a co_await expression: name it first")
                    break
                if character in "([":
                    depth += 1
                elif character in ")]":
                    depth -= 1
                if depth < 0 or (character == ";" and depth == 0) or character == "}":
                    break


lambda_coroutine = each_match(
    "L5",
    r"\]\s*(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?\s*(?:(?:mutable|noexcept|constexpr|static)\s*)*->[\s\w:]*\bawaitable\b",
    "a lambda coroutine loses its captures at the first suspension: make it a function",
)
stopped_io = each_match("L6", r"\bio_?\s*(?:\.|->)\s*stop\s*\(", "{}: the loop ends when nothing is left to do")


def closing_brace(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text)


def catch_all(checkout: Checkout):
    for file in checkout.cpp:
        for match in re.finditer(r"\bcatch\s*\(\s*\.\.\.\s*\)\s*\{", file.bare):
            body = file.bare[match.end():closing_brace(file.bare, match.end() - 1)]
            if not re.search(r"\bthrow(?:_with_nested)?\b|\breturn\s+explain\b|\bas_other_error\b", body):
                yield file.find(match.start(), "L6", "catch (...) that goes on: throw, return explain, or tell it by as_other_error")


def may_sleep(file: File) -> bool:
    return file.stem in ("fake_worker", "hang_script", "healthy_script", "hostile_clients", "watch_script")


sleeping_call = each_match(
    "L7",
    r"\bsleep_for\b|\bsleep_until\b|\b(?:u|nano)?sleep\s*\(|\b(?:usleep|nanosleep|clock_nanosleep)\b",
    "{}: wait for a line, a file or a state, with a deadline",
    lambda file: (file.is_cpp or file.suffix == ".py") and not may_sleep(file),
)
sleeping_command = each_match(
    "L7",
    r"(?:^|[;&|(`]|\b(?:then|do|else|exec|timeout\s+\S+|-E)\s)\s*sleep\s+[\d.$\"]",
    "sleep: wait for a line, a file or a state, with a deadline",
    lambda file: (file.is_shell or file.name == "CMakeLists.txt" or file.suffix == ".cmake") and not may_sleep(file),
)

# Libraries that a test lays below a program: the environment is all that they have.
PRELOADED = ("tests/support/fake_libcuda.cpp", "tests/support/fake_nvml.cpp", "tests/support/preload_one_owner.cpp", "tests/support/preload_suspended.cpp", "tests/support/preload_unsynced.cpp")
# Functions of C, and who may call them.
CALLS = [
    (r"exit|_exit|_Exit|quick_exit|abort", lambda file: file.name in ("main.cpp", "process.cpp", "helper_process.cpp", "probe.cpp", "program.cpp", "error_reporter.cpp", "failpoint.cpp", "rank_template.cpp", "other_user.h") or file.stem == "fake_worker",
     "only a main.cpp, probe.cpp, program.cpp, error_reporter.cpp and rank_template.cpp (ddp-worker's), failpoint.cpp, the child parts of process.cpp and helper_process.cpp and fake_worker end a process"),
    (r"v?fork|execv\w*|execl\w*|waitpid|waitid", lambda file: file.name in ("process.cpp", "helper_process.cpp", "probe_process.cpp", "process_signals.cpp") or file.path in ("worker/main.cpp", "worker/start/main.cpp") or file.is_test,
     "only process.cpp, helper_process.cpp, probe_process.cpp, process_signals.cpp and test tools start and reap processes; worker/main.cpp becomes ddp-fetch, worker/start/main.cpp ddp-worker"),
    (r"kill|killpg", lambda file: file.path in ("common/node/helper_process.cpp", "common/node/process_signals.cpp", "launcher/os/process.cpp", "launcher/os/job_lock.cpp", "worker/save/records/process.cpp", "tests/support/send_signal.h"),
     "-1 is every process of the machine: signal_process of process_signals.h, send_signal of tests/support"),
    (r"(?:secure_)?getenv", lambda file: file.path.startswith("common/node/environment.") or file.path in ("deploy/progress/ddp_progress.h", "worker/start/main.cpp", *PRELOADED),
     "common/node/environment reads the environment, once"),
]
# Words that stand before a call; any other word before it is a type, so that it is a declaration.
BEFORE_A_CALL = {"return", "co_return", "else", "do", "throw", "case", "co_await"}


def calls(checkout: Checkout):
    for names, allowed, what in CALLS:
        call = re.compile(rf"(?<![\w.>:])(?:std::|::)?(?P<name>{names})\s*\(")
        for file in checkout.cpp:
            if allowed(file):
                continue
            for match in call.finditer(file.bare):
                before = re.search(r"(\w+)[\s*&]*$", file.bare[:match.start()].rsplit("\n", 1)[-1])
                if before and before[1] not in BEFORE_A_CALL:
                    continue
                yield file.find(match.start("name"), "L8", f"{match['name']}: {what}")


environ = each_match(
    "L8", r"\benviron\b", "{}: common/node/environment reads the environment, once",
    lambda file: file.is_cpp and not file.path.startswith("common/node/environment."),
)


def headers(checkout: Checkout):
    for file in checkout.cpp:
        if file.suffix != ".h":
            continue
        if not file.text.startswith(("//", "/*")) or not re.match(r"\s*#pragma once\s*\n", file.code):
            yield file.find(0, "L9", "a header starts with its head comment, then #pragma once")
        for match in re.finditer(r"\busing\s+namespace\b", file.bare):
            yield file.find(match.start(), "L9", "using namespace in a header")


def long_files(checkout: Checkout):
    for file in checkout.files:
        lines = file.text.count("\n")
        if lines > 600 and (file.is_cpp or file.is_shell or file.suffix in (".py", ".cmake")):
            yield Finding(file.path, lines, "L10", f"{lines} lines; split before 600", is_warning=True)


BRACE = re.compile(r"[{};]")
OPENER = re.compile(r"\b(?:namespace(?:\s+(?P<space>[\w:]+))?|(?:struct|class)\s+(?P<type>\w+)(?:\s+final)?(?:\s*:(?!:)[^()]*)?)\s*\Z")


def one_meaning(checkout: Checkout):
    """L15: two classes of one name in one namespace: a program that holds both calls one in the place of the other."""
    known = {}
    for file in sorted(checkout.cpp, key=lambda file: (file.path.startswith("tests/"), file.path)):
        scopes = []  # what is open: namespaces by name, everything else None
        begin = 0
        for brace in BRACE.finditer(file.bare):
            if brace.group() == "}" and scopes:
                scopes.pop()
            elif brace.group() == "{":
                opener = OPENER.search(file.bare, begin, brace.start())
                if opener and opener["type"] and None not in scopes:
                    full = "::".join([*scopes, opener["type"]])
                    if known.setdefault(full, file.path) != file.path:
                        yield file.find(opener.start(), "L15", f"{full} is another class in {known[full]}")
                scopes.append(opener["space"] if opener else None)
            begin = brace.end()


RULES = [
    detached, detach, detach_in_worker, awaited, lambda_coroutine, stopped_io, catch_all, sleeping_call, sleeping_command, calls, environ, headers, long_files,
    one_meaning,
]
