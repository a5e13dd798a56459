#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""circles.py CRATE...: fails where top-level modules of a crate import each other. Reads the source, without tests."""
import pathlib
import re
import sys

TEST_FILE = re.compile(r"(^|/)(tests|[a-z_]*_tests|testing|fake|robustness)(\.rs|/)")
COMMENT = re.compile(r"//[^\n]*")
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+ \{.*?^\}", re.S | re.M)
TEST_ITEM = re.compile(r"#\[cfg\(test\)\]\s*[^;{]*;")
PATH = re.compile(r"\b(crate|super(?:::super)*)::(\{|\w+)")
REEXPORT = re.compile(r"pub(?:\([a-z]+\))? use (?:self::|crate::)?(\w+)::([^;]+);")


def production(path):
    text = COMMENT.sub("", path.read_text())
    return TEST_ITEM.sub("", TEST_MODULE.sub("", text))


def group(text, start):
    """The first names of `{a, b::{c, d}, e}`, which begins at start."""
    depth, names, at = 0, [], start
    while True:
        match = re.compile(r"[{},]|\w+(?:::\w+)*").search(text, at)
        word, at = match.group(), match.end()
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
            if depth == 0:
                return names
        elif word != "," and depth == 1:
            names.append(word.split("::")[0])


def graph(crate):
    """The modules that each top-level module imports, with a file that does."""
    source = pathlib.Path(crate, "src")
    root = next(path for path in (source / "lib.rs", source / "main.rs") if path.exists())
    modules = set(re.findall(r"\bmod (\w+);", production(root)))
    origin = {}
    for module, names in REEXPORT.findall(production(root)):
        for name in re.findall(r"\w+", names):
            origin.setdefault(name, module)
    edges = {module: {} for module in modules}
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] not in modules or TEST_FILE.search(str(path.relative_to(source))):
            continue
        text = production(path)
        for match in PATH.finditer(text):
            steps, name = match.groups()
            if steps != "crate" and steps.count("super") != len(parts):
                continue
            for name in group(text, match.start(2)) if name == "{" else [name]:
                module = name if name in modules else origin.get(name)
                if module in modules and module != parts[0]:
                    edges[parts[0]].setdefault(module, path)
    return edges


def circles(edges):
    """Modules that reach each other, largest first, and the imports between them."""
    def reach(start):
        found, todo = set(), [start]
        while todo:
            for module in edges[todo.pop()]:
                if module not in found:
                    found.add(module)
                    todo.append(module)
        return found

    reached = {module: reach(module) for module in edges}
    found = {frozenset(b for b in reached[a] if a in reached[b]) for a in edges if a in reached[a]}
    return sorted(found, key=lambda circle: (-len(circle), sorted(circle)))


def main(crates):
    failed = False
    for crate in crates:
        edges = graph(crate)
        if not any(edges.values()):
            sys.exit(f"ci: no import in {crate}: the search is blind")
        for circle in circles(edges):
            failed = True
            print(f"ci: {crate}: {', '.join(sorted(circle))} import each other:", file=sys.stderr)
            for module in sorted(circle):
                for other, path in sorted(edges[module].items()):
                    if other in circle:
                        print(f"  {module} -> {other} ({path})", file=sys.stderr)
    sys.exit(failed)


main(sys.argv[1:])
