"""Writes the reference in docs/job-file.md, below its marker, from configs/job.schema.json, which is what `ddp-launch --schema` prints.

Usage: python3 docs/job_file.py [--check]    --check: exit 1 when the page is not what would be written
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "job-file.md"
SCHEMA = ROOT / "configs" / "job.schema.json"
MARKER = "<!-- What follows is written by docs/job_file.py. -->\n"
# Kinds of values that the schema tells by a pattern: how it begins and ends, and what a reader types.
PATTERNS = {
    ("^[0-9]+", "(ms|s|min|h|d)$"): "a time, as `90s`",
    ("^[0-9]+", "B$"): "a size, as `25MiB`",
    ("^[A-Za-z0-9_]", "$"): "letters, digits, `_`, `.`, `-`",
    ("^[-+]?", "[eE][-+]?[0-9]+$"): None,  # a number as 1e-4, which YAML takes for text
}


def number(value):
    return f"{value:.10g}"


def limits(kind, key):
    low, above, high = key.get("minimum"), key.get("exclusiveMinimum"), key.get("maximum")
    if low is not None and low == high:
        return f"`{number(low)}`"
    text = kind
    if above is not None:
        text += f" above {number(above)}"
    if low is not None and high is not None and high < 1e6:
        return f"{text} from {number(low)} to {number(high)}"
    if low is not None:
        text += f" from {number(low)}"
    elif high is not None and high < 1e6:
        text += f" to {number(high)}"
    return text


def values(key):
    """What may stand there, in words."""
    if "anyOf" in key:
        return " or ".join(dict.fromkeys(filter(None, map(values, key["anyOf"]))))
    if "const" in key:
        return f"`{json.dumps(key['const'])}`"
    if "enum" in key:
        return ", ".join(dict.fromkeys(f"`{choice if isinstance(choice, str) else json.dumps(choice)}`" for choice in key["enum"]))
    if "pattern" in key:
        (text,) = [text for (begin, end), text in PATTERNS.items() if key["pattern"].startswith(begin) and key["pattern"].endswith(end)]
        return text
    kind = key["type"]
    if kind in ("integer", "number"):
        return limits("a whole number" if kind == "integer" else "a number", key)
    if kind == "boolean":
        return "`true`, `false`"
    if kind == "array":
        return "a list"
    if kind == "object":
        return "names with values"
    return "`null`" if kind == "null" else "text"


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def row(name, key):
    default = key["default"]
    shown = default if isinstance(default, str) else json.dumps(default)
    return f"| `{name}` | {cell(key['description'])} | `{shown}` | {cell(values(key))} |\n"


def keys(section, path=""):
    for name, key in section["properties"].items():
        if "properties" in key:
            yield from keys(key, f"{path}{name}.")
        else:
            yield path + name, key


def table(rows):
    return "\n| key | what | default | values |\n|---|---|---|---|\n" + "".join(row(*each) for each in rows)


def reference(schema):
    sections = {name: key for name, key in schema["properties"].items() if "properties" in key}
    text = "\n## All keys\n" + table((name, key) for name, key in schema["properties"].items() if name not in sections)
    for name, section in sections.items():
        text += f"\n### {name}\n" + table(keys(section, name + "."))
    return text


def main():
    page = PAGE.read_text(encoding="utf-8")
    head, found, _ = page.partition(MARKER)
    assert found, f"{PAGE} has no line: {MARKER}"
    wanted = head + MARKER + reference(json.loads(SCHEMA.read_text(encoding="utf-8")))
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted, encoding="utf-8")
    elif page != wanted:
        sys.exit("docs/job-file.md is not what configs/job.schema.json says. Write it again: python3 docs/job_file.py")


if __name__ == "__main__":
    main()
