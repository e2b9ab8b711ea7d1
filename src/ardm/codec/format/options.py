"""Options: which model, order and schedule an entry was coded with; decoding needs nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass

from ardm.codec.format.fields import check_range
from ardm.codec.format.wire import Cursor, varint
from ardm.config import ORDER_NAMES
from ardm.errors import UnknownModelError

IDENTITY_BYTES = 16
MODEL_BYTES = 6
MAX_SEED = 2**32 - 1
MAX_SCHEDULE = 2**16 - 1


@dataclass(frozen=True, kw_only=True)
class OrderChoice:
    """One of the orders that integers alone determine."""

    name: str
    seed: int = 0
    """Of the pseudorandom order."""

    def __post_init__(self) -> None:
        if self.name not in ORDER_NAMES:
            raise ValueError(f"an order in a file is one of {', '.join(ORDER_NAMES)}, got {self.name}")
        check_range(f"the seed of order {self.name}", self.seed, 0, MAX_SEED if self.name == "pseudorandom" else 0)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What decoding must know besides the payloads."""

    model: bytes
    """The first MODEL_BYTES of the model's identity."""
    order: OrderChoice | None = None
    """None: the model's own."""
    schedule: int | None = None
    """Which of the model's schedules; None: the model's own."""

    def __post_init__(self) -> None:
        check_range("the bytes of a short identity", len(self.model), MODEL_BYTES, MODEL_BYTES)
        if self.schedule is not None:
            check_range("a schedule's number", self.schedule, 0, MAX_SCHEDULE)

    @property
    def by_default(self) -> bool:
        """Whether order and schedule are the model's own."""
        return self.order is None and self.schedule is None


def short_identity(identity: bytes) -> bytes:
    """The part of a model's identity that files carry."""
    check_range("the bytes of a model's identity", len(identity), IDENTITY_BYTES, IDENTITY_BYTES)
    return identity[:MODEL_BYTES]


def find_identity(digits: str, identities: Iterable[bytes]) -> bytes:
    """The identity, among those at hand, with the first hexadecimal digits that a file states.

    An UnknownModelError if there is none, or several.
    """
    found = sorted({identity for identity in identities if identity.hex().startswith(digits)})
    if len(found) == 1:
        return found[0]
    problem = "fits several models at hand" if found else "is not at hand"
    raise UnknownModelError(f"made with model {digits}, which {problem}; give the right one with --model")


def encode_options(options: Options) -> bytes:
    """The model and the choices."""
    schedule = 0 if options.schedule is None else options.schedule + 1
    return options.model + _encode_order(options.order) + varint(schedule)


def decode_options(cursor: Cursor) -> Options:
    """The options that come next."""
    model, order = cursor.take(MODEL_BYTES), _decode_order(cursor)
    schedule = cursor.varint(0, MAX_SCHEDULE + 1)
    return Options(model=model, order=order, schedule=schedule - 1 if schedule else None)


def _encode_order(order: OrderChoice | None) -> bytes:
    if order is None:
        return varint(0)
    seed = varint(order.seed) if order.name == "pseudorandom" else b""
    return varint(1 + ORDER_NAMES.index(order.name)) + seed


def _decode_order(cursor: Cursor) -> OrderChoice | None:
    number = cursor.varint(0, len(ORDER_NAMES))
    if number == 0:
        return None
    name = ORDER_NAMES[number - 1]
    return OrderChoice(name=name, seed=cursor.varint(0, MAX_SEED) if name == "pseudorandom" else 0)
