"""SQL that only reads, and SQL that may do more in one of the dialects that agents write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.policy.statements import MAX_BRACKETS, MAX_STATEMENT, only_reads

READING = [
    "select 1",
    "SELECT count(*) FROM usage.edit_events WHERE happened_at >= date '2026-10-01';",
    "select date_trunc('week', a) as w, count(*) filter (where b) from t group by 1 order by 1 desc limit 8",
    "select percentile_cont(array[0.5, 0.9]) within group (order by a) from t where a > 0",
    "with x as (select a from t) select max(a) from x",
    "select a from t union select b from u",
    "explain query plan select a from t",
    "explain (analyze, buffers) select id from loans where returned_at is null",
    "select * from (select a, row_number() over (partition by b order by c) n from t) x where n = 1",
    "select coalesce(lower(a), 'x'), a::int, json_extract(b, '$.x') from \"T\" t join u using (id)",
    "select * from generate_series(1, 3)",
    "select relname, pg_size_pretty(pg_relation_size(oid)) from pg_class",
]
DOING_MORE = [
    "", "x", "delete from t", "select 1; delete from t", "with x as (delete from t returning a) select a from x",
    "select * into n from t", "select * from t for update", "select 1 where exists (select 1 from t for share)",
    "select pg_terminate_backend(1)", "select setval('a', 1)", "select nextval('a')", "select lo_import('/etc/passwd')",
    "select load_extension('x')", "select writefile('x', 1)", "select readfile('x')", "select dblink('x', 'y')",
    "select pg_read_file('x')", "select * from read_csv('x')", "select * from t into outfile '/tmp/x'",
    "select sleep(100)", "select pg_sleep(10)", "select set_config('a', 'b', false)", "copy t to '/x'",
    "explain analyze delete from t", "explain (analyze) select pg_terminate_backend(1)",
    "select /*! into outfile 'x' */ 1", "select 1 /* */; drop table x", "select load_file('x')", "select @a := 1",
    "select query_to_xml('delete from t', true, true, '')", "select pg_notify('a', 'b')", "select my_func(1)",
    "with a as (select 1) insert into t select * from a", r"select 'a\'; drop table x; --'", "select get_lock('a', 1)",
    "select * from t where x = $$;drop table t$$", "select * from '/etc/passwd'", "select * from 's3://b/x.parquet'",
    "select * from file('x')", "select * from \"/etc/passwd\"", "select ':x' || :x", "select ?", "call x()",
    "select a from t where a = (select my_func(1))", "begin", "pragma x", "select 1 #; \n; delete from t",
    "explain explain select 1", "select * from t, lateral my_func(t.a)", "explain (format json, x) select 1",
    "select 1" + " " * MAX_STATEMENT, "select " + "(" * (MAX_BRACKETS + 1) + "1" + ")" * (MAX_BRACKETS + 1),
]  # fmt: skip


@loop_over("statement", READING)
def test_a_query_only_reads(statement: str) -> None:
    assert only_reads(statement)


@loop_over("statement", DOING_MORE)
def test_everything_else_may_do_more(statement: str) -> None:
    assert not only_reads(statement)


@given(st.text("selct*frominw(),;'\"-/ \n1`$\\", max_size=60))
def test_any_text_has_an_answer(text: str) -> None:
    assert only_reads("select " + text) in {True, False}


WRITES = ["delete from t", "drop table t", "update t set a = 1", "select my_func(1)", "insert into t values (1)"]


@pytest.mark.parametrize("write", WRITES)
@given(st.sampled_from(READING), st.sampled_from([";", "; --\n", ";/**/", " union ", " where a in (", " /* */ "]))
def test_no_query_reads_with_a_write_behind_it(write: str, query: str, joint: str) -> None:
    assert not only_reads(f"{query.rstrip(';')}{joint}{write}{')' if '(' in joint else ''}")
