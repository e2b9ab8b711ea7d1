"""Options: the model, order and schedule that an entry was coded with; decoding needs nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass

from ardm.codec.format.fields import check_range
from ardm.codec.format.wire import Cursor, varint
from ardm.errors import UnknownModelError
from ardm.names import ORDER_NAMES

IDENTITY_BYTES = 16
MODEL_BYTES = 6
MAX_SEED = 2**32 - 1
MAX_SCHEDULE = 2**16 - 1


@dataclass(frozen=True, kw_only=True)
class OrderChoice:
    """An order that its name and an integer determine."""

    name: str
    seed: int = 0
    """Seed of the pseudorandom order."""

    def __post_init__(self) -> None:
        if self.name not in ORDER_NAMES:
            raise ValueError(f"an order in a file is one of {', '.join(ORDER_NAMES)}, got {self.name}")
        check_range(f"the seed of order {self.name}", self.seed, 0, MAX_SEED if self.name == "pseudorandom" else 0)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The settings that decoding needs besides the payloads."""

    model: bytes
    """The first MODEL_BYTES of the model's identity."""
    order: OrderChoice | None = None
    """The order; None: the model's default."""
    schedule: int | None = None
    """Number of the model's schedule; None: the model's default."""

    def __post_init__(self) -> None:
        check_range("the bytes of a short identity", len(self.model), MODEL_BYTES, MODEL_BYTES)
        if self.schedule is not None:
            check_range("a schedule's number", self.schedule, 0, MAX_SCHEDULE)

    @property
    def is_default(self) -> bool:
        """Whether order and schedule are the model's defaults."""
        return self.order is None and self.schedule is None


def short_identity(identity: bytes) -> bytes:
    """The part of a model's identity that files store."""
    check_range("the bytes of a model's identity", len(identity), IDENTITY_BYTES, IDENTITY_BYTES)
    return identity[:MODEL_BYTES]


def find_identity(digits: str, identities: Iterable[bytes]) -> bytes:
    """The only identity that starts with a file's hexadecimal digits; an UnknownModelError if none or several do."""
    found = sorted({identity for identity in identities if identity.hex().startswith(digits)})
    if len(found) == 1:
        return found[0]
    problem = "matches several models" if found else "is not available"
    raise UnknownModelError(f"made with model {digits}, which {problem}; give the right one with --model")


def encode_options(options: Options) -> bytes:
    """The options as bytes: model, order, schedule."""
    order, schedule = options.order, 0 if options.schedule is None else options.schedule + 1
    encoded = options.model + varint(0 if order is None else 1 + ORDER_NAMES.index(order.name))
    if order is not None and order.name == "pseudorandom":
        encoded += varint(order.seed)
    return encoded + varint(schedule)


def decode_options(cursor: Cursor) -> Options:
    """The options that come next."""
    model, number, order = cursor.take(MODEL_BYTES), cursor.varint(0, len(ORDER_NAMES)), None
    if number:
        name = ORDER_NAMES[number - 1]
        order = OrderChoice(name=name, seed=cursor.varint(0, MAX_SEED) if name == "pseudorandom" else 0)
    schedule = cursor.varint(0, MAX_SCHEDULE + 1)
    return Options(model=model, order=order, schedule=schedule - 1 if schedule else None)
