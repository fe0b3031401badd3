"""Counts lines of code by room and holds the totals under the limits in .ci/size.toml: `python .ci/size.py`.

Code is every line that is not blank, a comment, an import or a docstring. In files other than Python it is
every line that is not blank. A limit only falls: `--lower` writes the present totals as the new ones.
"""

import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / ".ci" / "size.toml"
SUFFIXES = {".py", ".c", ".h", ".jinja", ".html", ".css", ".js", ".toml", ".sh"}
LEFT_OUT = {"build", "environments", "node_modules", "golden"}
PARTS = {
    "product": ("tunekit",),
    "tests": ("tests", "simgpu/tests"),
    "beside": ("simgpu", "benchmarks", ".ci"),
}


def main() -> int:
    """Print the table and return 1 if a total is over its limit."""
    limits = tomllib.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    totals = {}
    for part, folders in PARTS.items():
        rooms: Counter[str] = Counter()
        for path in (path for folder in folders for path in (ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            is_counted_there = part == "beside" and name.parts[:2] == ("simgpu", "tests")
            if path.suffix in SUFFIXES and not is_counted_there and not LEFT_OUT.intersection(name.parts):
                rooms["/".join(name.parts[:2])] += code_lines(path)
        totals[part] = rooms.total()
        print("".join(f"{room:45}{count:8,}\n" for room, count in sorted(rooms.items())), end="")
        print(f"{part:45}{totals[part]:8,}  limit {limits.get(part, 0):,}\n")
    if "--lower" in sys.argv[1:]:
        lowered = {part: min(total, limits.get(part, total)) for part, total in totals.items()}
        LIMITS.write_text("".join(f"{part} = {limit}\n" for part, limit in lowered.items()))
        return 0
    over = {part: total - limits[part] for part, total in totals.items() if total > limits[part]}
    for part, lines in over.items():
        print(f"{part}: {lines} lines of code over its limit in .ci/size.toml; delete some")
    return 1 if over else 0


def code_lines(path: Path) -> int:
    """Lines of code of one file."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    other = {number for number, line in enumerate(lines, 1) if not line.strip()}
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            is_import = isinstance(node, ast.Import | ast.ImportFrom)
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_import or (is_text and isinstance(node.value.value, str)):
                other.update(range(node.lineno, node.end_lineno + 1))
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and lines[token.start[0] - 1].strip().startswith("#"):
                other.add(token.start[0])
    return len(lines) - len(other)


if __name__ == "__main__":
    sys.exit(main())
