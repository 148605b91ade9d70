"""What travels, as pydantic has it: the OpenAPI of the service is made of this. Requests say what they are, and nothing more."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from oboro.records import Record

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
# A number as a text is exact; as a JSON number it is read as the shortest decimal that prints it.
_POWER = r"([eE][+-]?[0-9]{1,3})?(/[1-9][0-9]{0,30})?$"
_PLAIN = r"^[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})" + _POWER
ABOVE_0 = r"^([0-9]{0,30}[1-9][0-9]{0,30}(\.[0-9]{0,30})?|[0-9]{0,30}\.[0-9]{0,30}[1-9][0-9]{0,30})" + _POWER
Whole = Annotated[
    int,
    BeforeValidator(lambda given: int(given) if isinstance(given, float) and given.is_integer() else given),
]
Text = Annotated[str, StringConstraints(max_length=64, pattern=_PLAIN)]
Number = Text | Whole | Annotated[float, Field(allow_inf_nan=False)]
Positive = (
    Annotated[str, StringConstraints(max_length=64, pattern=ABOVE_0)]
    | Annotated[Whole, Field(gt=0, lt=10**12)]
    | Annotated[float, Field(gt=0, lt=1e12, allow_inf_nan=False)]
)
WHO = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Who = Annotated[str, StringConstraints(pattern=WHO)]
Columns = Annotated[list[Name], Field(min_length=1, max_length=64)]
One = Annotated[list[Name], Field(min_length=1, max_length=1)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Priced(Strict):
    """What may be said with every question: eps or rho, one of them."""

    eps: Positive | None = Field(None, description="a pure guarantee, Laplace noise")
    rho: Positive | None = Field(None, description="zero-concentrated, Gaussian noise")
    expected_n: Annotated[Whole, Field(ge=1, le=2**40)] | None = None
    where: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] | None = Field(
        None, examples=["age >= 20"]
    )
    by: list[Name] = Field(default_factory=list, max_length=8)
    weight: Positive | None = Field(None, description="in a batch: its share of the whole")


class Ball(Strict):
    norm: Literal["l1", "l2"]
    radius: Positive
    origin: list[Number] | None = Field(None, max_length=64)


class Count(Priced):
    question: Literal["count", "persons"]


class Mean(Priced):
    question: Literal["sum", "mean", "covariance"]
    columns: Columns
    ball: Ball | None = None


class Variance(Priced):
    question: Literal["variance", "mode"]
    columns: One


class Median(Priced):
    question: Literal["median"]
    columns: One
    method: Literal["joint", "splitting", "independent"] | None = None


class Quantile(Priced):
    question: Literal["quantile"]
    columns: One
    quantiles: list[Number] = Field(min_length=1, max_length=32)
    method: Literal["joint", "splitting", "independent"] | None = None


class Histogram(Priced):
    question: Literal["histogram"]
    columns: Columns
    edges: dict[Name, list[Annotated[str, StringConstraints(max_length=200)] | Whole | float]] | None = None


class Top(Priced):
    question: Literal["top"]
    columns: One
    k: Annotated[Whole, Field(ge=1, le=1_000)]


class Part(Strict):
    kind: Literal["blocks", "squares", "rectangles", "cells", "marginals", "areas", "never_worse"]
    sides: list[Annotated[Whole, Field(ge=1, le=2**31)]] = Field(default_factory=list, max_length=32)
    columns: list[list[Name]] = Field(default_factory=list, max_length=32)


class Table(Strict):
    question: Literal["table"]
    eps: Positive
    delta: Positive | None = None
    columns: Columns | None = None
    workload: Annotated[list[Part], Field(min_length=1, max_length=16)] | None = None
    strategy: Literal["tree", "filtered", "wavelet"] | None = None


class Sql(Strict):
    question: Literal["sql"]
    sql: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] = Field(
        examples=["SELECT region, AVG(income) FROM people GROUP BY region"]
    )
    eps: Positive | None = None
    rho: Positive | None = None
    delta: Positive | None = None
    expected_n: Annotated[Whole, Field(ge=1, le=2**40)] | None = None


Value = Name | Whole | Annotated[float, Field(allow_inf_nan=False)]
Meets = Value | Annotated[list[Value], Field(min_length=1, max_length=1_000)]


class Synthetic(Strict):
    """A model, from which records are drawn afterwards, free. Rules stand in place of those that the dataset declares under the same word."""

    question: Literal["synthetic"]
    eps: Positive | None = None
    delta: Positive | None = None
    rho: Positive | None = None
    columns: Columns | None = None
    method: Literal["marginals", "quality", "moments"] | None = None
    impossible: Annotated[list[dict[Name, Meets]], Field(max_length=100)] | None = Field(
        None, examples=[[{"work": "retired", "age": "..29"}]]
    )
    known: Annotated[dict[Name, dict[Name, Whole]], Field(max_length=1)] | None = Field(
        None, examples=[{"sex": {"f": 2700}}]
    )
    sums: Annotated[dict[Name, Columns], Field(max_length=64)] | None = Field(
        None, examples=[{"income": ["wages", "rent"]}]
    )


Single = Annotated[
    Count | Mean | Variance | Median | Quantile | Histogram | Top, Field(discriminator="question")
]


class Batch(Strict):
    question: Literal["batch"]
    questions: list[Single] = Field(min_length=1, max_length=1_000)
    eps: Positive | None = None
    rho: Positive | None = None
    delta: Positive | None = None


Question = Annotated[
    Count | Mean | Variance | Median | Quantile | Histogram | Top | Table | Synthetic | Batch | Sql,
    Field(discriminator="question"),
]


class Target(Strict):
    """The error that is wanted, in place of a price."""

    within: Annotated[float, Field(gt=0, lt=1e300)] | Annotated[Whole, Field(gt=0, lt=10**300)]
    of: Literal["95%", "standard error"] = "95%"


class ToForecast(Strict):
    question: Question
    target: Target | None = None


class ToGrant(Strict):
    account: Annotated[str, StringConstraints(pattern=WHO)]
    eps: Positive | None = None
    delta: Positive | None = None
    rho: Positive | None = None
    per: Literal["hour", "day", "week", "month", "year"] | None = None
    approve_above: Positive | None = None


class ToRevoke(Strict):
    account: Annotated[str, StringConstraints(pattern=WHO)]


class ToAdd(Strict):
    name: Annotated[str, StringConstraints(pattern=WHO)]
    role: Literal["analyst", "steward", "auditor"] = "analyst"


class ToToken(Strict):
    name: Annotated[str, StringConstraints(pattern=WHO)]
    days: Annotated[Whole, Field(ge=1, le=3_650)] | None = None


class ToLogIn(Strict):
    name: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    password: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class ToDecline(Strict):
    why: Annotated[str, StringConstraints(max_length=200)] | None = None


# What comes back


class Refusal(BaseModel):
    """What was wrong, what was given, what is needed, and the line that fixes it."""

    error: str
    message: str
    given: str | None = None
    needed: str | None = None
    fix: str | None = None
    argument: str | None = None


class Health(BaseModel):
    status: Literal["up"] = "up"


class Forecast(BaseModel):
    title: str
    columns: list[str]
    rows: list[list[str | int]]
    notes: list[str]


class Forecasted(BaseModel):
    question: Record
    cost: Record
    forecast: Forecast
    words: str
    slot: float = Field(description="seconds from its turn to its answer")
    approval: bool = Field(description="whether a steward will have to approve it")


class Account(BaseModel):
    account: str
    amount: Record
    per: str | None
    spent: Record
    available: Record


class Listed(BaseModel):
    name: str
    edition: str


class Described(BaseModel):
    """Public facts: all that a plan is made of, and whose key signs."""

    name: str
    edition: str
    table: str = Field(description="what it is called in SQL")
    domain: Record
    unit: Record
    n: int | None
    count: str | None
    budget: Record
    remaining: Record
    account: Account | None
    ledger: str
    public_key: str
    limits: dict[str, int]
    sharing: bool
    software: str


class MadeUp(BaseModel):
    columns: dict[str, list[Any]]


class Answer(BaseModel):
    certificate: Record
    content: str = Field(
        description="the released table as Parquet, in base64: its SHA-256 stands in the certificate"
    )
    counts: list[Record] | None = Field(
        None,
        description="where not_negative was asked for: counts raw and at 0 or more, with the interval of each",
    )


class Job(BaseModel):
    id: str
    dataset: str
    account: str
    question: Record
    state: Literal["waiting", "pending", "done", "lost", "declined"]
    cost: Record
    due: str | None = Field(description="when to look again, UTC")
    due_in: float | None = Field(description="the same in seconds from now")
    why: str | None = Field(None, description="for stewards alone")
    answer: Answer | None = None


class Grant(Account):
    granted: bool
    approve_above: Record | None


class Known(BaseModel):
    name: str
    role: str
    since: str


class Token(BaseModel):
    id: str
    name: str
    since: str
    until: str | None
    revoked: str | None


class NewToken(BaseModel):
    id: str
    token: str = Field(description="shown once")


class Head(BaseModel):
    position: int
    hash: str


class Verified(BaseModel):
    verified: bool
    entries: int | None
    spent: Record | None
    refusal: Refusal | None = None


class Alert(BaseModel):
    number: int
    time: str
    job: str | None
    words: str
