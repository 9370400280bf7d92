"""SQL statements in calls: whether one certainly only reads. sqlglot parses them; what it does not know is no read."""

from __future__ import annotations

import logging
import re
from functools import lru_cache

MAX_STATEMENT = 2 * 1024  # characters
MAX_BRACKETS = 200
DIALECTS = ("", "postgres", "sqlite", "mysql")  # comments and quotes differ
_EXPLAIN = re.compile(
    r"\s*explain\s+(?:query\s+plan\s+|analyze\s+|verbose\s+|\(\s*(?:(?:analyze|verbose|buffers|costs|timing|settings|wal|"
    r"summary|format\s+(?:json|text|yaml|xml))(?:\s+(?:on|off|true|false))?\s*,?\s*)+\)\s*)?(?=select\b|with\b)",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"\s*(?:select|with|explain)\b", re.IGNORECASE)
_BRACKETS = re.compile(r"[(\[{]|\b(?:not|case|select)\b", re.IGNORECASE)
_TABLE_NAME = re.compile(r"[\w$ ]{1,128}")  # another one may be a file or an address
# Some servers need no sign between statements, so none of these words may occur, not even as a name or in a text.
_HARMFUL_SIGNS = re.compile(
    r"\\|/\*!|\$\$|--\s*\+|\0|\b(?:delete|insert|update|drop|truncate|merge|exec|execute|alter|create|grant|revoke|call|"
    r"into|copy|attach|detach|vacuum|replace\s+into|declare|begin|commit|shutdown|kill|backup|restore|waitfor)\b",
    re.IGNORECASE,
)
# Functions that sqlglot has no class for and that only read.
_READ_FUNCTIONS_TEXT = (
    "pg_size_pretty pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size pg_database_size "
    "obj_description col_description format_type pg_get_indexdef pg_get_constraintdef pg_get_viewdef to_regclass "
    "age now width_bucket date_bin jsonb_array_length json_array_length jsonb_typeof json_typeof "
    "jsonb_extract_path_text jsonb_object_keys array_position cardinality percent_rank cume_dist octet_length "
    "char_length btrim strpos current_database current_schema version pg_typeof isfinite justify_hours "
    "justify_days make_date total group_concat julianday unixepoch printf typeof instr ifnull likelihood "
    "json_each json_tree json_extract"
)
_READ_FUNCTIONS = frozenset(_READ_FUNCTIONS_TEXT.split())


def only_reads(statement: str) -> bool:
    """Return whether a text is one SQL query that only reads.

    In any of the usual dialects: a query with WITH … DELETE, INTO, FOR UPDATE, or a function that is not known to read
    does not count, and neither do several statements.
    """
    if len(statement) > MAX_STATEMENT or len(_BRACKETS.findall(statement)) > MAX_BRACKETS:
        return False
    if not _BEGINS.match(statement) or _HARMFUL_SIGNS.search(statement):
        return False
    return _only_reads(statement)


@lru_cache(maxsize=512)
def _only_reads(statement: str) -> bool:
    # Loaded with the first statement: most servers see none, and it takes a tenth of a second.
    import sqlglot
    from sqlglot import errors, exp

    writes = (
        exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Command, exp.Into,
        exp.Lock, exp.Set, exp.Use, exp.Pragma, exp.Transaction, exp.NextValueFor, exp.ReadCSV, exp.ReadParquet,
        exp.SessionParameter, exp.Parameter, exp.Placeholder, exp.XMLTable,
    )  # fmt: skip
    readers = (exp.Anonymous, exp.GenerateSeries, exp.Unnest)
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it reports what it does not understand
    text = _EXPLAIN.sub("", statement, count=1)
    is_read = False
    for dialect in DIALECTS:
        try:
            trees = sqlglot.parse(text, read=dialect)
        except (errors.SqlglotError, RecursionError, ValueError, AttributeError, IndexError):
            continue
        queries = [tree for tree in trees if tree is not None]
        if len(queries) != 1 or not isinstance(queries[0], exp.Query):
            return False
        nodes = list(queries[0].walk())
        names = {str(node.this).lower() for node in nodes if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc)}
        tables = [node.this for node in nodes if isinstance(node, exp.Table)]
        is_called = any(isinstance(node, exp.TableAlias) and node.columns and not node.this for node in nodes)
        are_tables = all(
            (isinstance(table, exp.Identifier) and _TABLE_NAME.fullmatch(table.name)) or isinstance(table, readers)
            for table in tables
        )
        if (
            any(isinstance(node, writes) for node in nodes)
            or not names <= _READ_FUNCTIONS
            or not are_tables
            or is_called
        ):
            return False
        is_read = True
    return is_read
