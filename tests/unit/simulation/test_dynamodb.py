"""The simulated DynamoDB through its API."""

import re
from typing import Any

import pytest

from simulation.aws.dynamodb import DynamoDb
from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.world.world import World

ME = Caller("me", "root")
Item = dict[str, Any]


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.fixture
def db(world: World) -> DynamoDb:
    db = DynamoDb(world)
    db.create_table("t")
    return db


def pass_(world: World, seconds: float) -> None:
    world.after(seconds, lambda: None)
    world.run(world.now.replace(year=2027), stop=lambda: not world.busy())


def key(pk: str = "p", sk: str = "s") -> Item:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def put(db: DynamoDb, pk: str = "p", sk: str = "s", **values: Any) -> None:
    db.put_item(ME, {"TableName": "t", "Item": key(pk, sk) | values})


def get(db: DynamoDb, sk: str = "s", *, consistent: bool = True) -> Item | None:
    return db.get_item(ME, {"TableName": "t", "Key": key(sk=sk), "ConsistentRead": consistent}).get("Item")


def update(db: DynamoDb, text: str, names: Any = None, values: Any = None, **more: Any) -> Item | None:
    request = {"TableName": "t", "Key": key(), "UpdateExpression": text, **more}
    if names:
        request["ExpressionAttributeNames"] = names
    if values:
        request["ExpressionAttributeValues"] = values
    db.update_item(ME, request)
    return get(db)


def query(db: DynamoDb, condition: str = "", *edges: str, **more: Any) -> list[list[str]]:
    """Return the sks of each page."""
    values = {":p": {"S": "p"}} | {f":e{n}": {"S": edge} for n, edge in enumerate(edges)}
    request: dict[str, Any] = {
        "TableName": "t",
        "KeyConditionExpression": "pk = :p" + (f" AND {condition}" if condition else ""),
        "ExpressionAttributeValues": values,
        "ConsistentRead": True,
        **more,
    }
    pages = []
    while True:
        answer = db.query(ME, request)
        pages.append([item["sk"]["S"] for item in answer["Items"]])
        if "LastEvaluatedKey" not in answer:
            return pages
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def refused(do: Any) -> tuple[str, str]:
    with pytest.raises(ServiceError) as caught:
        do()
    return caught.value.code, caught.value.message


def holds(db: DynamoDb, condition: str, names: Any = None, values: Any = None) -> bool:
    """Return True if the condition holds for the row (p, s)."""
    check: dict[str, Any] = {"TableName": "t", "Key": key(), "ConditionExpression": condition}
    check |= {"ExpressionAttributeNames": names} if names else {}
    check |= {"ExpressionAttributeValues": values} if values else {}
    try:
        db.transact_write_items(ME, {"TransactItems": [{"ConditionCheck": check}]})
    except ServiceError as error:
        if error.code == "TransactionCanceledException":
            return False
        raise
    return True


def test_a_row_is_put_read_and_deleted(db: DynamoDb) -> None:
    assert get(db) is None
    put(db, a={"S": "1"})
    assert get(db) == key() | {"a": {"S": "1"}}
    put(db, b={"BOOL": True})
    assert get(db) == key() | {"b": {"BOOL": True}}
    db.delete_item(ME, {"TableName": "t", "Key": key()})
    assert get(db) is None
    db.delete_item(ME, {"TableName": "t", "Key": key()})


@pytest.mark.parametrize(
    ("written", "read"),
    [("1.50", "1.5"), ("3.0", "3"), ("1E+2", "100"), ("-0", "0"), ("007", "7"), ("0.1", "0.1")],
)
def test_numbers_come_back_as_dynamodb_writes_them(db: DynamoDb, written: str, read: str) -> None:
    put(db, n={"N": written}, list={"L": [{"M": {"n": {"N": written}}}]})
    item = get(db)
    assert item is not None
    assert (item["n"], item["list"]) == ({"N": read}, {"L": [{"M": {"n": {"N": read}}}]})
    assert list(db.rows("t")) == [{"pk": "p", "sk": "s", "n": float(read), "list": [{"n": float(read)}]}]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("attribute_exists(#a)", True),
        ("attribute_exists(#none)", False),
        ("attribute_not_exists(pk)", False),
        ("attribute_not_exists(pk) OR #a IN (:x, :a)", True),
        ("#a = :a", True),
        ("#a = :x", False),
        ("#a <> :x", True),
        ("#none <> :x", True),
        ("#none = :x", False),
        ("#none < :x", False),
        ("#n = :one", True),
        ("#n > :a", False),
        ("#n BETWEEN :one AND :one", True),
        ("NOT (#a = :a AND #n = :one)", False),
        ("begins_with(#a, :a)", True),
        ("#m.#a = :a", True),
        ("#l[1] = :a", True),
        ("#l[9] = :a", False),
        ("contains(#l, :a)", True),
        ("attribute_not_exists(#none) and attribute_exists(#a)", True),
        ("size(#a) = :one", True),
    ],
)
def test_conditions(db: DynamoDb, condition: str, expected: bool) -> None:
    inner = {"L": [{"S": "x"}, {"S": "a"}]}
    put(db, a={"S": "a"}, n={"N": "1"}, m={"M": {"a": {"S": "a"}}}, l=inner)
    names = {word: word[1:] for word in re.findall(r"#\w+", condition)}
    defined = {":a": {"S": "a"}, ":x": {"S": "x"}, ":one": {"N": "1.0"}}
    values = {word: value for word, value in defined.items() if word in condition}
    assert holds(db, condition, names, values) is expected


def test_the_first_writer_creates_a_row(db: DynamoDb) -> None:
    request = {"TableName": "t", "Item": key(), "ConditionExpression": "attribute_not_exists(pk)"}
    db.put_item(ME, dict(request))
    assert refused(lambda: db.put_item(ME, dict(request))) == (
        "ConditionalCheckFailedException",
        "The conditional request failed",
    )


def test_an_update_makes_the_row_and_changes_what_it_names(db: DynamoDb) -> None:
    assert update(db, "SET #a = :a", {"#a": "a"}, {":a": {"N": "1"}}) == key() | {"a": {"N": "1"}}
    text = "SET #b = #a + :a, #c = if_not_exists(#c, :a)"
    after = update(db, text, {"#a": "a", "#b": "b", "#c": "c"}, {":a": {"N": "2"}})
    assert after == key() | {"a": {"N": "1"}, "b": {"N": "3"}, "c": {"N": "2"}}
    assert update(db, "REMOVE #a, #b", {"#a": "a", "#b": "b"}) == key() | {"c": {"N": "2"}}


def test_an_update_within_a_row_leaves_older_readers_what_they_have(db: DynamoDb) -> None:
    put(db, m={"M": {"a": {"S": "old"}, "l": {"L": [{"S": "1"}]}}})
    before = get(db)
    names = {"#m": "m", "#a": "a", "#l": "l"}
    after = update(db, "SET #m.#a = :a, #m.#l[0] = :a", names, {":a": {"S": "new"}})
    assert after == key() | {"m": {"M": {"a": {"S": "new"}, "l": {"L": [{"S": "new"}]}}}}
    assert before == key() | {"m": {"M": {"a": {"S": "old"}, "l": {"L": [{"S": "1"}]}}}}


@pytest.mark.parametrize(
    ("text", "names", "values", "message"),
    [
        ("SET #a = :a", None, {":a": {"S": ""}}, "attribute name used in the document path is not defined"),
        ("SET #a = :a", {"#a": "a"}, None, "attribute value used in expression is not defined"),
        ("SET #a = :a", {"#a": "a", "#b": "b"}, {":a": {"S": ""}}, "unused in expressions: keys: {#b}"),
        ("SET #a = :a", {"#a": "pk"}, {":a": {"S": ""}}, "Cannot update attribute pk"),
        ("SET #a = :a, #b = :a", {"#a": "a", "#b": "a"}, {":a": {"S": ""}}, "paths overlap"),
        ("SET #a = #b", {"#a": "a", "#b": "b"}, None, "does not exist in the item"),
        ("SET #a :a", {"#a": "a"}, {":a": {"S": ""}}, "Syntax error"),
        ("", None, None, "can not be empty"),
    ],
)
def test_a_wrong_update_is_refused(db: DynamoDb, text: str, names: Any, values: Any, message: str) -> None:
    code, said = refused(lambda: update(db, text, names, values))
    assert code == "ValidationException"
    assert message in said


def test_unsupported_parameters_are_refused(db: DynamoDb) -> None:
    assert refused(lambda: update(db, "ADD #a :a", {"#a": "a"}, {":a": {"N": "1"}}))[0] == "NotSimulated"
    assert refused(lambda: update(db, "SET status = :a", None, {":a": {"N": "1"}}))[0] == "NotSimulated"
    assert refused(lambda: query(db, FilterExpression="#a = :a"))[0] == "NotSimulated"


def test_a_row_has_400_kb_at_most(db: DynamoDb) -> None:
    put(db, a={"S": "x" * 409_500})
    code, message = refused(lambda: put(db, a={"S": "x" * 409_600}))
    assert (code, message) == ("ValidationException", "Item size has exceeded the maximum allowed size")


def test_keys_are_strings_that_are_not_empty(db: DynamoDb) -> None:
    for wrong in (
        {"pk": {"S": "p"}},
        key() | {"a": {"S": "a"}},
        key(sk=""),
        {"pk": {"N": "1"}, "sk": {"S": "s"}},
    ):
        assert (
            refused(lambda w=wrong: db.get_item(ME, {"TableName": "t", "Key": w}))[0] == "ValidationException"
        )
    assert (
        refused(lambda: db.get_item(ME, {"TableName": "x", "Key": key()}))[0] == "ResourceNotFoundException"
    )


def test_rows_of_a_pk_in_order(db: DynamoDb) -> None:
    for sk in ("run", "plan", "event#2", "event#1", "host#i-1", "even"):
        put(db, sk=sk)
    put(db, pk="q", sk="event#3")
    assert query(db) == [["even", "event#1", "event#2", "host#i-1", "plan", "run"]]
    assert query(db, "begins_with(sk, :e0)", "event#") == [["event#1", "event#2"]]
    assert query(db, "sk < :e0", "event#") == [["even"]]
    assert query(db, "sk > :e0", "event#~") == [["host#i-1", "plan", "run"]]
    assert query(db, "sk BETWEEN :e0 AND :e1", "event#2", "plan") == [["event#2", "host#i-1", "plan"]]
    assert query(db, "sk = :e0", "run") == [["run"]]
    assert query(db, ScanIndexForward=False, Limit=5)[0] == ["run", "plan", "host#i-1", "event#2", "event#1"]


def test_a_page_ends_where_dynamodb_stops_to_look(db: DynamoDb) -> None:
    for n in range(4):
        put(db, sk=f"{n}", a={"S": "x" * 300_000})
    assert query(db) == [["0", "1", "2"], ["3"]]
    db.page_size = 2
    assert query(db) == [["0", "1"], ["2", "3"], []]
    assert query(db, ScanIndexForward=False) == [["3", "2"], ["1", "0"], []]
    assert query(db, "sk > :e0", "0") == [["1", "2"], ["3"]]


def test_a_read_that_need_not_be_consistent_may_be_a_second_old(world: World, db: DynamoDb) -> None:
    put(db, a={"S": "old"})
    pass_(world, 5)
    put(db, a={"S": "new"})
    put(db, sk="t")
    pass_(world, 0.5)
    read = [(get(db, consistent=False) or {})["a"]["S"] for _ in range(40)]
    assert set(read) == {"old", "new"}
    assert {len(query(db, ConsistentRead=False)[0]) for _ in range(40)} == {1, 2}
    assert get(db) == key() | {"a": {"S": "new"}}
    pass_(world, 0.6)
    assert all(get(db, consistent=False) == get(db) for _ in range(40))


def act(kind: str, sk: str, **more: Any) -> dict[str, Any]:
    about = {"Item": key(sk=sk)} if kind == "Put" else {"Key": key(sk=sk)}
    return {kind: {"TableName": "t", **about, **more}}


def transact(db: DynamoDb, *actions: dict[str, Any], **more: Any) -> None:
    db.transact_write_items(ME, {"TransactItems": list(actions), **more})


def test_a_transaction_is_done_whole_or_not_at_all(db: DynamoDb) -> None:
    put(db, sk="b")
    only_new = {"ConditionExpression": "attribute_not_exists(pk)"}
    with pytest.raises(ServiceError) as caught:
        transact(db, act("Put", "a"), act("Put", "b", **only_new), act("Delete", "c"))
    assert caught.value.code == "TransactionCanceledException"
    assert caught.value.message == (
        "Transaction cancelled, please refer cancellation reasons for specific reasons "
        "[None, ConditionalCheckFailed, None]"
    )
    assert caught.value.more["CancellationReasons"] == [
        {"Code": "None"},
        {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"},
        {"Code": "None"},
    ]
    assert query(db) == [["b"]]
    transact(db, act("Put", "a", **only_new), act("Delete", "b"))
    assert query(db) == [["a"]]


def test_a_row_that_grows_too_large_cancels_the_transaction(db: DynamoDb) -> None:
    large = {
        "ExpressionAttributeValues": {":a": {"S": "x" * 409_600}},
        "ExpressionAttributeNames": {"#a": "a"},
    }
    with pytest.raises(ServiceError) as caught:
        transact(db, act("Put", "a"), act("Update", "b", UpdateExpression="SET #a = :a", **large))
    assert [reason["Code"] for reason in caught.value.more["CancellationReasons"]] == [
        "None",
        "ValidationError",
    ]


def test_two_transactions_at_once_are_in_conflict(db: DynamoDb) -> None:
    db.conflicts = lambda caller, keys: [point for point, key in enumerate(keys) if key == ("p", "b")]
    with pytest.raises(ServiceError) as caught:
        transact(db, act("Put", "a"), act("Put", "b"))
    assert caught.value.more["CancellationReasons"] == [
        {"Code": "None"},
        {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"},
    ]
    assert refused(lambda: put(db, sk="b"))[0] == "TransactionConflictException"
    put(db, sk="a")


def test_a_repeated_token_writes_once(world: World, db: DynamoDb) -> None:
    only_new = {"ConditionExpression": "attribute_not_exists(pk)"}
    transact(db, act("Put", "a", **only_new), ClientRequestToken="t")
    transact(db, act("Put", "a", **only_new), ClientRequestToken="t")
    assert (
        refused(lambda: transact(db, act("Put", "b"), ClientRequestToken="t"))[0]
        == "IdempotentParameterMismatchException"
    )
    pass_(world, 601)
    assert (
        refused(lambda: transact(db, act("Put", "a", **only_new), ClientRequestToken="t"))[0]
        == "TransactionCanceledException"
    )


def test_a_transaction_has_a_hundred_actions_on_as_many_rows(db: DynamoDb) -> None:
    transact(db, *(act("Put", f"{n}") for n in range(100)))
    assert (
        refused(lambda: transact(db, *(act("Put", f"{n}") for n in range(101))))[0] == "ValidationException"
    )
    assert (
        refused(lambda: transact(db, act("Put", "a"), act("Delete", "a")))[1]
        == "Transaction request cannot include multiple operations on one item"
    )
    huge = [
        {"Put": {"TableName": "t", "Item": key(sk=f"{n}") | {"a": {"S": "x" * 400_000}}}} for n in range(11)
    ]
    assert refused(lambda: transact(db, *huge))[0] == "ValidationException"


def test_a_batch_may_come_in_parts_and_in_no_order(db: DynamoDb) -> None:
    for n in range(20):
        put(db, sk=f"{n:02}")
    asked = {"t": {"Keys": [key(sk=f"{n:02}") for n in range(30)], "ConsistentRead": True}}
    answer = db.batch_get_item(ME, {"RequestItems": asked})
    found = [item["sk"]["S"] for item in answer["Responses"]["t"]]
    assert found != sorted(found) == [f"{n:02}" for n in range(20)]
    assert answer["UnprocessedKeys"] == {}
    db.unprocessed = lambda caller, keys: 25
    answer = db.batch_get_item(ME, {"RequestItems": asked})
    assert len(answer["Responses"]["t"]) == 5
    assert answer["UnprocessedKeys"] == {
        "t": {"Keys": [key(sk=f"{n:02}") for n in range(5, 30)], "ConsistentRead": True}
    }
    twice = {"t": {"Keys": [key(), key()]}}
    assert refused(lambda: db.batch_get_item(ME, {"RequestItems": twice}))[0] == "ValidationException"


def test_every_change_is_reported_to_listeners(db: DynamoDb) -> None:
    heard: list[Any] = []
    db.on_change.append(
        lambda table, key, before, after: heard.append((table, key, bool(before), bool(after)))
    )
    put(db)
    put(db)
    db.delete_by_hand("t", "p", "s")
    where = ("t", ("p", "s"))
    assert heard == [(*where, False, True), (*where, True, True), (*where, True, False)]


def test_a_transaction_needs_permission_for_each_kind_of_write(db: DynamoDb) -> None:
    request = {"TransactItems": [act("Put", "a"), act("Put", "b"), act("ConditionCheck", "c")]}
    found = [(check.action, check.resource) for check in db.checks(ME, "transact_write_items", request)]
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/t"
    assert found == [("dynamodb:PutItem", table), ("dynamodb:ConditionCheckItem", table)]
