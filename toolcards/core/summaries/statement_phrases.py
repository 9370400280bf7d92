"""SQL statements as sentences: what sqlglot reads in the same way in each of the usual dialects, and nothing else."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

from toolcards.core.policy.statements import DIALECTS, MAX_BRACKETS, MAX_STATEMENT, only_reads

_BEGINS = re.compile(r"\s*(?:select|delete|update|insert|drop|truncate)\b", re.I)
_UNCLEAR = re.compile(
    r"--|/\*|[#\\$;`]|\b(?:with|returning|on\s+conflict|union|intersect|except|for\s+update|into\s+out)\b", re.I
)
_BRACKETS = re.compile(r"[(\[{]|\b(?:not|case|select)\b", re.I)
_WHERE = re.compile(r"\bwhere\b", re.I)
_AGE = re.compile(
    r"\w*(?:_at|_on|date|time|created|updated|day)\s*<\s*now\(\)\s*-\s*interval\s*'?(\d+)\s*'?\s*(\w+)'?", re.I
)


@lru_cache(maxsize=512)
def describe_statement(text: str) -> str:
    """Return one SQL statement as a sentence, "" without one."""
    statement = text.strip().removesuffix(";").rstrip()
    is_long = len(statement) > MAX_STATEMENT or len(_BRACKETS.findall(statement)) > MAX_BRACKETS
    if is_long or not _BEGINS.match(statement) or _UNCLEAR.search(statement):
        return ""
    try:
        sentences = {_describe(statement, dialect) for dialect in DIALECTS} - {None}
    except Exception:  # sqlglot has read it in a way that it does not expect itself; people read the statement
        return ""
    return sentences.pop() or "" if len(sentences) == 1 else ""


def _describe(statement: str, dialect: str) -> str | None:
    """Return the sentence in this dialect, None if it is no statement there."""
    # Loaded with the first statement: most servers see none, and it takes a tenth of a second.
    import sqlglot
    from sqlglot import errors, exp

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it reports what it does not understand
    try:
        trees = sqlglot.parse(statement, read=dialect)
    except (errors.SqlglotError, RecursionError, ValueError, AttributeError, IndexError):
        return None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        return ""
    parts = {name for name, value in tree.args.items() if value}
    condition = _read_condition(statement) if "where" in parts else ""
    if "where" in parts and not condition:
        return ""
    match tree:
        case exp.Delete() if parts <= {"this", "where"}:
            rows = "rows" if condition else "all rows"
            return _join(f"Delete {rows} from", [tree.this], condition)
        case exp.Update() if parts <= {"this", "expressions", "where"}:
            columns = ", ".join(each.this.name for each in tree.expressions if isinstance(each, exp.EQ))
            rows = "" if condition else " in all rows"
            return _join(f"Set {columns}{rows} of", [tree.this], condition) if columns else ""
        case exp.Insert() if parts <= {"this", "expression"} and isinstance(tree.expression, exp.Values):
            count = len(tree.expression.expressions)
            table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
            return _join(f"Insert {count} row{'s' * (count > 1)} into", [table])
        case exp.Drop() if parts <= {"tables", "this", "kind", "exists", "cascade"}:
            kind = str(tree.args["kind"]).lower()
            end = " and what depends on it" if "cascade" in parts else ""
            return _join(f"Drop {kind}", tree.args.get("tables") or [tree.this], end)
        case exp.TruncateTable() if parts <= {"expressions"}:
            return _join("Delete all rows from", tree.expressions)
        case exp.Select() if only_reads(statement):
            tables = list(tree.find_all(exp.Table))
            return _join("Read", tables, condition) if tables and len(list(tree.find_all(exp.Select))) == 1 else ""
    return ""


def _join(start: str, tables: list[Any], end: str = "") -> str:
    """Return the sentence, "" if a table has no plain name."""
    names = [".".join(part.name for part in table.parts) if hasattr(table, "parts") else "" for table in tables]
    return f"{start} {', '.join(names)}{end}" if all(names) else ""


def _read_condition(statement: str) -> str:
    """Return the condition as it is written, "" if there are several."""
    pieces = _WHERE.split(statement)
    if len(pieces) != 2:
        return ""
    condition = " ".join(pieces[1].split())
    age = _AGE.fullmatch(condition)
    return f" older than {age[1]} {age[2].lower()}" if age else f" where {condition}"
