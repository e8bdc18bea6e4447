"""L18: files that are compiled together (CMAKE_UNITY_BUILD) do not define the same thing in their unnamed namespaces.

Two of them are an error of the compiler in the one build and none in the other. Functions of one name may differ by their
parameters, and two aliases mean the same type.
"""

import posixpath
import re

from source import Checkout, File

UNNAMED = re.compile(r"\bnamespace\s*\{")
TYPE = re.compile(r"(?:struct|class|enum(?:\s+class)?|union|concept)\s+(?:alignas\([^)]*\)\s*)?(?P<name>\w+)(?!\s*::)")
ALIAS = re.compile(r"using\s+(?P<name>\w+)\s*=")
FUNCTION = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*\(")
VALUE = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:=|\{|;)")
TARGET = re.compile(r"(?:add_library|add_executable|ddp_unit_test|ddp_process_test)\((?P<target>\w+)(?P<files>[^)]*)\)")


def end_of_block(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text)


def statements(text: str, begin: int, end: int):
    """Place and text of what stands at the top of a block; bodies are left out."""
    start, position, parentheses = begin, begin, 0
    while position < end:
        character = text[position]
        parentheses += {"(": 1, ")": -1}.get(character, 0)
        if character == "{" and parentheses == 0:  # else a parameter's default
            closing = end_of_block(text, position)
            yield start, text[start:position + 1]
            start = position = closing + 1
            if text[position:position + 1] == ";":
                start = position = position + 1
            continue
        if character == ";" and parentheses == 0:
            yield start, text[start:position + 1]
            start = position + 1
        position += 1


def without_templates(text: str) -> str:
    """`<...>` blanked, as far as they are argument lists, not comparisons; and [[attributes]]."""
    text = re.sub(r"\[\[.*?\]\]", lambda match: " " * len(match.group()), text, flags=re.DOTALL)
    while True:
        blanked = re.sub(r"<[^<>;{}]*>", lambda match: " " * len(match.group()), text)
        if blanked == text:
            return text
        text = blanked


def parameters(text: str, opening: int) -> str:
    """The types of a parameter list, as they are written: `(const T& a, int b = 1)` is `const T&,int`."""
    depth, end = 0, opening
    for end in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            break
    types = []
    for parameter in re.split(r",(?![^<]*>)", text[opening + 1:end]):
        parameter = re.sub(r"\s*=.*", "", parameter, flags=re.DOTALL)
        words = re.sub(r"(?<=[\w&*>])\s+\w+\s*$", "", parameter.strip())
        types.append(re.sub(r"\s+", " ", words))
    return ",".join(types)


def name_of(statement: str):
    """What a statement defines, by name and parameters, its place in it, and what an alias means; nothing for those that define nothing
    of their own."""
    text = without_templates(re.sub(r"(?m)^[ \t]*#.*$", lambda match: " " * len(match.group()), statement))
    text = re.sub(r"\btemplate\b|\b(?:requires)\b[^({;]*", lambda match: " " * len(match.group()), text)
    head = text.lstrip()
    skipped = len(text) - len(head)
    if re.match(r"(?:namespace|static_assert|extern|friend|public|private|catch)\b|using\s+(?!\w+\s*=)|\}", head):
        return None
    alias = ALIAS.match(head)
    if alias:
        meaning = re.sub(r"\s+", "", statement[statement.index("=") + 1:].rstrip(";"))
        return (alias["name"], skipped + alias.start("name"), meaning)
    match = TYPE.match(head)
    if match:
        return (match["name"], skipped + match.start("name"), "") if head.rstrip()[-1] == "{" else None
    match = FUNCTION.search(head)
    value = VALUE.search(head)
    if match and (not value or match.start() < value.start()):
        is_definition = head.rstrip()[-1] == "{"
        is_member = re.search(r"::\s*$", head[:match.start("name")]) is not None
        name = f"{match['name']}({parameters(statement, skipped + match.end() - 1)})"
        return (name, skipped + match.start("name"), "") if is_definition and not is_member else None
    return (value["name"], skipped + value.start("name"), "") if value else None


def unnamed_names(file: File):
    for space in UNNAMED.finditer(file.bare):
        opening = space.end() - 1
        for place, statement in statements(file.bare, opening + 1, end_of_block(file.bare, opening)):
            found = name_of(statement)
            if found:
                yield found[0], place + found[1], found[2]


def batches(lists: File):
    """The .cpp files of each target that are compiled together."""
    alone = set()
    for match in re.finditer(r"set_source_files_properties\((?P<files>.*?)PROPERTIES(?P<what>[^)]*)\)", lists.code, re.DOTALL):
        if re.search(r"SKIP_UNITY_BUILD_INCLUSION|COMPILE_OPTIONS|COMPILE_DEFINITIONS", match["what"]):
            alone.update(match["files"].split())
    whole = set(re.findall(r"set_target_properties\((\w+)[^)]*UNITY_BUILD OFF", lists.code))
    for match in TARGET.finditer(lists.code):
        if match["target"] not in whole:
            yield [word for word in match["files"].split() if word.endswith(".cpp") and word not in alone]


def shared_names(checkout: Checkout):
    files = {file.path: file for file in checkout.files}
    for lists in checkout.files:
        if posixpath.basename(lists.path) != "CMakeLists.txt":
            continue
        for batch in batches(lists):
            first = {}  # name to the file that has it, and what an alias means there
            for path in (posixpath.normpath(posixpath.join(posixpath.dirname(lists.path), word)) for word in batch):
                for name, place, meaning in unnamed_names(files[path]) if path in files else []:
                    other, other_meaning = first.setdefault(name, (path, meaning))
                    if other != path and not (meaning and meaning == other_meaning):
                        yield files[path].find(place, "L18", f"{name} is in {other}, too, which may be compiled with it")


RULES = [shared_names]
