"""SQL statements as sentences, where every usual dialect reads the same."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.summaries.statement_phrases import describe_statement


@loop_over(
    ("statement", "sentence"),
    [
        ("DELETE FROM orders WHERE created_at < now() - interval '2 years'",
         "Delete rows from orders older than 2 years"),
        ("delete from shop.orders where id = 5;", "Delete rows from shop.orders where id = 5"),
        ("delete from orders", "Delete all rows from orders"),
        ("update orders set status = 'x', total = 0 where id = 5", "Set status, total of orders where id = 5"),
        ("update orders set status = 'x'", "Set status in all rows of orders"),
        ("insert into t (a, b) values (1, 2), (3, 4)", "Insert 2 rows into t"),
        ("insert into t values (1)", "Insert 1 row into t"),
        ("drop table if exists users", "Drop table users"),
        ("drop table users cascade", "Drop table users and what depends on it"),
        ("truncate table users", "Delete all rows from users"),
        ("select status from orders where customer = 8", "Read orders where customer = 8"),
        ("select * from a join b on a.id = b.id", "Read a, b"),
    ],
)  # fmt: skip
def test_a_plain_statement_has_a_sentence(statement: str, sentence: str) -> None:
    assert describe_statement(statement) == sentence


@loop_over(
    ("statement",),
    [
        ("",), ("hello",), ("where are the orders?",), ("delete from orders; drop table users",),
        ("delete from orders -- where id = 5",), ("delete from orders /* where id = 5 */",),
        ("delete from orders # where id = 5\n",), ("delete from orders where id in (select id from x where y)",),
        ("delete from orders using x where a = b",), ("delete from orders where id = 5 returning *",),
        ("with x as (delete from a) select 1",), ("select * into x from y",), ("select pg_read_file('x') from t",),
        ("select 1",), ("insert into t select * from u",), ("insert into t values (1) on conflict do nothing",),
        ("update t set a = 1 from u where t.id = u.id",), ("drop",), ("delete from (select 1)",),
        ("select * from a union select * from b",), ("select * from (select * from b) as a",), ("delete" + "(" * 500,),
        ("grant all on t to u",), ("delete from orders where a = 'x\\' or 1=1'",),
    ],
)  # fmt: skip
def test_any_other_statement_is_shown_as_it_is(statement: str) -> None:
    assert describe_statement(statement) == ""
