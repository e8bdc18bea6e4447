"""L14: tests/fault/CASES.md and the tests agree, both ways."""

import re

from source import Checkout, File

PAGE = "tests/fault/CASES.md"
ROW = re.compile(r"(?m)^\|(?P<cells>.*)\|[ \t]*$")
CASE = re.compile(r"(?P<letter>[A-Z])(?P<number>[1-9][0-9]*)")
CPP_TEST = re.compile(r"\bTEST(?:_F|_P)?\s*\(\s*(?P<suite>\w+)\s*,\s*(?P<name>\w+)\s*\)")
NUMBERED = re.compile(r"(?P<case>[A-Z][0-9]+)_")
QUOTED = re.compile(r"`(?P<name>[^`]*)`")
NOT_YET = re.compile(r"not yet: \S")


def cpp_tests(checkout: Checkout):
    """Name, file and place of each."""
    for file in checkout.cpp:
        if file.is_test:
            for match in CPP_TEST.finditer(file.bare):
                yield f"{match['suite']}.{match['name']}", file, match.start()


def python_tests(file: File):
    """"file_test.py Class.test_name" of every method, and "file_test.py test_name" of every function."""
    inside = ""
    for match in re.finditer(r"(?m)^(?P<indent>[ \t]*)(?P<kind>class|def)[ \t]+(?P<name>\w+)", file.bare):
        if match["kind"] == "class":
            inside = match["name"] + "."
        elif match["name"].startswith("test_"):
            yield f"{file.name} {inside if match['indent'] else ''}{match['name']}"


def rows(page: File):
    """Place and stripped cells of each row of a case, heads and rulers left out."""
    for match in ROW.finditer(page.text):
        cells = [cell.strip() for cell in match["cells"].split("|")]
        if cells[0] != "#" and not re.fullmatch(r"[-:]*", cells[0]):
            yield match.start(), cells


def gaps(found: dict):
    """Of "W1", "W3" it is "W2"."""
    highest = {}
    for case in found:
        match = CASE.fullmatch(case)
        highest[match["letter"]] = max(int(match["number"]), highest.get(match["letter"], 0))
    for letter, last in highest.items():
        yield from (f"{letter}{number}" for number in range(1, last) if f"{letter}{number}" not in found)


def cases(checkout: Checkout):
    page = next((file for file in checkout.files if file.path == PAGE), None)
    if page is None:
        if any(file.path.startswith("tests/fault/") for file in checkout.files):
            yield File(PAGE, "").find(0, "L14", "is not there: it says which test holds which fault")
        return
    in_cpp = list(cpp_tests(checkout))
    known = {name for name, _, _ in in_cpp}
    for file in checkout.files:
        if file.is_test and file.suffix == ".py":
            known.update(python_tests(file))
    named = {}  # case to the tests of its row
    for place, cells in rows(page):
        case, tests = cells[0], cells[-1]
        if not CASE.fullmatch(case):
            yield page.find(place, "L14", f"{case!r} is not the number of a case")
            continue
        if case in named:
            yield page.find(place, "L14", f"{case} is there twice")
        if len(cells) != 4 or not all(cells):
            yield page.find(place, "L14", f"{case}: number, injection, bound and tests, and none of them is empty")
        named[case] = [match["name"] for match in QUOTED.finditer(tests)]
        if bool(named[case]) == bool(NOT_YET.match(tests)):
            yield page.find(place, "L14", f"{case}: either tests, or 'not yet: ' and what is missing")
        for name in named[case]:
            if name not in known:
                yield page.find(place, "L14", f"{case}: there is no test {name}")
    for case in gaps(named):
        yield page.find(0, "L14", f"{case} has no row")
    for name, file, place in in_cpp:
        numbered = NUMBERED.match(name.partition(".")[2])
        if numbered and name not in named.get(numbered["case"], []):
            yield file.find(place, "L14", f"{name} is not in the row {numbered['case']} of {PAGE}")


RULES = [cases]
