"""Every value of a frame reaches the handler of ``run`` unchanged, in any time zone, and is in the result again."""

import datetime as dt
import decimal
import json
import math
import random
import string
import sys
from decimal import Decimal

import pytest
from pyspark import cloudpickle
from pyspark.sql import types as t

import holdfast
from holdfast.spark import run
from holdfast.spark.row_values import make_row_reader
from tests.spark.conftest import OPTIONS

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import the tests


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def time_zone(spark):
    """A function that sets the time zone of the session."""
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


def payloads(url):
    """The payloads of all jobs, as the handler of a run would get them."""
    with holdfast.connect(url) as store:
        return [job.payload for job in store.find(limit=10_000).items]


EVERY_TYPE = {
    "decimal": ("cast('12345678901234567890123456789.12345678' as decimal(38,8))", "Decimal"),
    "instant": ("timestamp'2026-03-29 01:30:00.123456Z'", "datetime"),
    "far_instant": ("timestamp'12026-03-29 01:30:00.123456Z'", "str"),
    "local": ("timestamp_ntz'2026-03-29 02:30:00.123456'", "datetime"),
    "day": ("date'2026-03-29'", "date"),
    "far_day": ("date'-0044-03-15'", "str"),
    "length": ("interval '-1 2:03:04.000005' day to second", "timedelta"),
    "months": ("interval '-1-2' year to month", "str"),
    "calendar": ("make_interval(1, 2, 3, 4, 5, 6, -7.000008)", "str"),
    "bytes": ("X'00ff80'", "bytes"),
    "nan": ("double('NaN')", "float"),
    "infinity": ("float('-inf')", "float"),
    "nothing": ("null", "NoneType"),
    "text": ("'ünï \"cøde\" \\n'", "str"),
    "floats": ("array(1.5D, double('NaN'), null)", "list"),
    "by_text": ("map('b', date'2026-01-02', 'a', null)", "dict"),
    "by_day": ("map(date'2026-01-02', 1, date'2026-01-03', null)", "dict"),
    "by_instant": ("map(timestamp'2026-01-02 00:00:00.000001Z', double('inf'))", "dict"),
    "by_decimal": ("map(1.10BD, 'x')", "dict"),
    "by_struct": ("map(named_struct('a', 1.5BD), interval '2' month)", "list"),
    "nested": ("named_struct('a', array(named_struct('b', X'01', 'c', cast(null as date))), 'd', map(1, 2BD))", "dict"),
    "variant": ('parse_json(\'{"a": [1, 2.50, "x", null]}\')', "VariantVal"),
    "variants": ("array(parse_json('1'), null)", "list"),
}


def test_a_handler_gets_a_column_of_times(spark, url):
    if not hasattr(t, "TimeType"):
        pytest.skip("this Spark has no TIME")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        times = "time'10:11:12.123456' as at, cast(null as time) as never, array(cast('23:59' as time)) as all"
        df = spark.sql(f"select 1 as id, {times}")
        handler = lambda row: [repr(row[name]) for name in ("at", "never", "all")]  # noqa: E731
        ok, dead = run(df, handler, key="id", url=url, slots=1, options=OPTIONS)
        [row] = ok.collect()
        assert (dead.count(), row["at"]) == (0, dt.time(10, 11, 12, 123456))
        assert json.loads(row["holdfast"]["result"]) == [
            "datetime.time(10, 11, 12, 123456)",
            "None",
            "[datetime.time(23, 59)]",
        ]
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


def show(value):
    if isinstance(value, t.VariantVal):
        return value.toJson()
    if isinstance(value, dict):
        return {f"{type(key).__name__} {key}": show(item) for key, item in value.items()}
    return [show(item) for item in value] if isinstance(value, list) else f"{type(value).__name__} {value}"


def test_a_handler_gets_every_type_of_spark_with_its_exact_value(spark, url, time_zone):
    time_zone("America/New_York")
    df = spark.sql("select 1 as id, " + ", ".join(f"{sql} as `{name}`" for name, (sql, _) in EVERY_TYPE.items()))
    ok, dead = run(
        df, lambda row: {name: [type(row[name]).__name__, show(row[name])] for name in row}, key="id", url=url, slots=1
    )
    assert dead.count() == 0
    [row] = ok.selectExpr("holdfast.result").collect()
    result = holdfast.wire.codec.JSON.decode(row["result"].encode())
    assert {name: kind for name, (kind, _) in result.items() if name != "id"} == {
        name: kind for name, (_, kind) in EVERY_TYPE.items()
    }
    shown = {name: value for name, (_, value) in result.items()}
    assert shown["decimal"] == "Decimal 12345678901234567890123456789.12345678"
    assert shown["instant"] == "datetime 2026-03-29 01:30:00.123456+00:00"
    assert shown["far_instant"] == "str 12026-03-29T01:30:00.123456Z"
    assert shown["local"] == "datetime 2026-03-29 02:30:00.123456"
    assert (shown["day"], shown["far_day"]) == ("date 2026-03-29", "str -0044-03-15")
    assert shown["length"] == f"timedelta {-dt.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=5)}"
    assert (shown["months"], shown["calendar"]) == ("str P-14M", "str P14M25DT18352.999992S")
    assert shown["bytes"] == "bytes b'\\x00\\xff\\x80'"
    assert (shown["nan"], shown["infinity"]) == ("float nan", "float -inf")
    assert shown["text"] == 'str ünï "cøde" \n'
    assert shown["floats"] == ["float 1.5", "float nan", "NoneType None"]
    assert shown["by_text"] == {"str b": "date 2026-01-02", "str a": "NoneType None"}
    assert shown["by_day"] == {"date 2026-01-02": "int 1", "date 2026-01-03": "NoneType None"}
    assert shown["by_instant"] == {"datetime 2026-01-02 00:00:00.000001+00:00": "float inf"}
    assert shown["by_decimal"] == {"Decimal 1.10": "str x"}
    assert shown["by_struct"] == ["tuple ({'a': Decimal('1.5')}, 'P2M')"]
    assert shown["nested"] == {
        "str a": [{"str b": "bytes b'\\x01'", "str c": "NoneType None"}],
        "str d": {"int 1": "Decimal 2"},
    }
    assert (shown["variant"], shown["variants"]) == ('{"a":[1,2.50,"x",null]}', ["1", "NoneType None"])
    # Back: the columns of the result are those of the input.
    assert ok.drop("holdfast").schema == df.schema
    texts = [f"cast(`{name}` as string)" for name in df.columns]
    assert ok.selectExpr(texts).collect() == df.selectExpr(texts).collect()


def test_a_run_continues_in_another_time_zone(spark, url, time_zone):
    df = spark.range(3).selectExpr(
        "timestamp_micros(1767323045000000 + id) as at", "cast(timestamp_micros(id) as timestamp_ntz) as local", "id"
    )
    time_zone("UTC")
    df = df.localCheckpoint()
    run(df, lambda row: row["id"], key="at,local", run="zones", url=url, slots=1, options=OPTIONS)
    time_zone("Asia/Tokyo")
    ok, _ = run(df, lambda row: row["id"], key=["at", "local"], run="zones", url=url, slots=1, options=OPTIONS)
    assert (ok.count(), len(payloads(url))) == (3, 3)  # rows that differ in microseconds are separate jobs
    assert ok.where("holdfast.attempts = 1").count() == 3


# Random schemas ---------------------------------------------------------------------------------------------

SCALARS = (
    *(t.BooleanType(), t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType(), t.FloatType(), t.DoubleType()),
    *(t.StringType(), t.BinaryType(), t.DateType(), t.TimestampType(), t.TimestampNTZType(), t.DecimalType(38, 8)),
    *(t.DecimalType(5, 0), t.DayTimeIntervalType()),
)
KEYS = tuple(kind for kind in SCALARS if not isinstance(kind, t.FloatType | t.DoubleType | t.BinaryType))
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp_ntz has no time zone


def random_kind(rng, depth=0):
    choice = rng.random()
    if depth > 2 or choice < 0.6:
        return rng.choice(SCALARS)
    if choice < 0.75:
        return t.ArrayType(random_kind(rng, depth + 1))
    if choice < 0.88:
        return t.MapType(rng.choice(KEYS), random_kind(rng, depth + 1))
    names = rng.sample(["a", "b.c", "d e", "`", "key", "state", "ü"], rng.randint(1, 3))
    return t.StructType([t.StructField(name, random_kind(rng, depth + 1)) for name in names])


def random_value(rng, kind, *, null=0.15):
    if rng.random() < null:
        return None
    match kind:
        case t.ArrayType():
            return [random_value(rng, kind.elementType) for _ in range(rng.randint(0, 3))]
        case t.MapType():
            keys = {random_value(rng, kind.keyType, null=0) for _ in range(rng.randint(0, 3))}
            return {key: random_value(rng, kind.valueType) for key in keys}
        case t.StructType():
            return {field.name: random_value(rng, field.dataType) for field in kind}
        case _:
            return random_scalar(rng, kind)


def random_scalar(rng, kind):
    micros = rng.choice([0, 1, rng.randint(-(10**16), 10**17)])
    match kind:
        case t.BooleanType():
            return rng.random() < 0.5
        case t.FloatType():
            return rng.choice([0.0, 1.5, -0.25, math.nan, math.inf, -math.inf])
        case t.DoubleType():
            return rng.choice(
                [0.1, 5e-324, 1.7976931348623157e308, rng.uniform(-1e9, 1e9), math.nan, math.inf, -math.inf]
            )
        case t.IntegralType():
            bits = {"byte": 7, "short": 15, "integer": 31, "long": 63}[kind.typeName()]
            return rng.choice([0, -(2**bits), 2**bits - 1, rng.randint(-(2**bits), 2**bits - 1)])
        case t.DecimalType():
            digits = "".join(rng.choice(string.digits) for _ in range(kind.precision))
            return Decimal(rng.choice(["", "-"]) + digits).scaleb(-kind.scale, decimal.Context(prec=50))
        case t.StringType():
            return "".join(rng.choice('aé"\\/\u2028\x01 𝄞,.`') for _ in range(rng.randint(0, 6)))
        case t.BinaryType():
            return rng.randbytes(rng.randint(0, 5))
        case t.DateType():
            return (EPOCH + dt.timedelta(microseconds=micros)).date()
        case t.TimestampType():
            return (EPOCH + dt.timedelta(microseconds=micros)).replace(tzinfo=dt.UTC)
        case t.TimestampNTZType():
            return EPOCH + dt.timedelta(microseconds=micros)
        case _:
            return dt.timedelta(microseconds=micros)


def same(one, other):
    """Equal, with NaN equal to NaN."""
    if isinstance(one, float):
        return type(other) is float and (one == other or (math.isnan(one) and math.isnan(other)))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_random_schemas_reach_the_handler_unchanged(spark, url, time_zone, seed):
    time_zone(["UTC", "America/New_York", "Asia/Kolkata"][seed])
    rng = random.Random(seed)
    schema = t.StructType([t.StructField("n", t.LongType(), nullable=False)])
    for number in range(12):
        schema.add(f"column {number}.`x`", random_kind(rng))
    rows = [
        {field.name: random_value(rng, field.dataType) for field in schema.fields[1:]} | {"n": number}
        for number in range(20)
    ]
    df = spark.createDataFrame([[row[name] for name in schema.fieldNames()] for row in rows], schema)
    run(df, lambda _row: None, key="n", url=url, slots=1, options=OPTIONS)
    read = make_row_reader(schema.fieldNames(), [field.dataType for field in schema])
    seen = {row["n"]: row for row in map(read, map(holdfast.wire.codec.JSON.decode, payloads(url)))}
    assert len(seen) == 20
    for row in rows:
        for name, value in row.items():
            assert same(value, seen[row["n"]][name]), (
                schema[name].dataType.simpleString(),
                value,
                seen[row["n"]][name],
            )
