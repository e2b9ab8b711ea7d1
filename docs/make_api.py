"""Writes docs/api.md from the signatures and docstrings of the source: `python docs/make_api.py`."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ardm

TARGET = Path(__file__).with_name("api.md")
SOURCE = Path(ardm.__file__).parent
Function = ast.FunctionDef
Definition = ast.ClassDef | ast.FunctionDef | ast.Assign


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A chapter: what it is about, and the names it explains."""

    title: str
    text: str
    """With an example; those of all topics run one after another."""
    names: tuple[str, ...] = ()
    """Where each name is defined, below `ardm`."""
    types: tuple[str, ...] = ()
    """Where names for types are defined that stand in their signatures."""
    modules: tuple[str, ...] = ()
    """Modules whose docstrings belong here too."""


PREFACE = """\
# API

What `import ardm` offers, and the classes that it returns. Signatures are those of the source: `Int[Tensor, "N D"]` is
a tensor of integers, N rows of D variables, and a letter means the same in all arguments of a function. Names are
imported when first used, so that `import ardm` takes no time.

The examples are one program. It needs a run of text in `run` (`ardm train text`), a text `more.txt`, an exact model of
images `my.model` (`ardm export`) and an image `photo.png`.

This page is written by `docs/make_api.py`; `tests/test_docs.py` runs the examples and fails if it is out of date."""

TOPICS = (
    Topic(
        title="Models",
        text="""\
```python
import ardm

trained = ardm.load("run")  # a run's folder, a model file, a name in the box or on the Hugging Face hub
model, alphabet = trained.model, trained.alphabet
print(trained.config.preset, trained.step, model.num_stages, model.num_variables, model.depth.num_classes)
```""",
        names=(
            "pretrained.load",
            "checkpoint.load_model",
            "checkpoint.Trained",
            "checkpoint.TrainedModel",
            "model.ARDM",
            "objective.Profile",
            "data.alphabet.Alphabet",
        ),
    ),
    Topic(
        title="Orders",
        modules=("orders",),
        text="""\
```python
import torch

from ardm.orders import halton

generator = torch.Generator().manual_seed(0)
orders = ardm.random_stage_orders(2, model.num_stages, model.num_variables, generator)  # for two items
spread = torch.from_numpy(halton(model.shape)).expand_as(orders)  # one for all items and stages
```""",
        names=(
            "orders.random_stage_orders",
            "orders.raster",
            "orders.reverse",
            "orders.spaced",
            "orders.halton",
            "orders.pseudorandom",
        ),
        types=("orders.Order", "orders.Shape"),
    ),
    Topic(
        title="Bits",
        modules=("likelihood",),
        text="""\
```python
from pathlib import Path

classes = torch.from_numpy(alphabet.encode(Path("more.txt").read_bytes())).long()
x = classes[: 2 * model.num_variables].view(2, -1)  # two items
estimate = ardm.bound(model, x, generator, num_passes=8)
print(f"{estimate.bits_per_dim:.3f} ± {estimate.half_width:.3f} bits a character, bound")

bits = ardm.exact_bits(model, x, spread, ardm.full_schedule(model.num_variables))  # of each item
print(ardm.mean_bits(bits, model.num_variables, "exact, Halton order", is_exact=True))

begin = torch.arange(model.num_variables) < 10
print(ardm.conditional_bits(model, x, target=~begin, given=begin, order=orders[0, 0]))  # p(the rest | 10 characters)
```""",
        names=(
            "likelihood.bound",
            "likelihood.exact_bits",
            "likelihood.schedule_bits_bound",
            "likelihood.conditional_bits",
            "likelihood.mean_bits",
            "likelihood.Estimate",
            "likelihood.Bound",
        ),
    ),
    Topic(
        title="Baselines",
        modules=("baselines.d3pm", "baselines.causal"),
        text="""\
Methods that ARDMs are compared with: `ardm train ... --method` trains them, and `ardm.checkpoint.load_any` loads what
it saved.

```python
from ardm.baselines import d3pm

for num_steps in (10, 1000):  # the same weights as a D3PM with the absorbing process, which tends to the ARDM
    print(d3pm.bound(d3pm.from_ardm(model, num_steps), x, generator, num_passes=8).bits_per_dim)
```""",
        names=(
            "checkpoint.load_any",
            "checkpoint.TrainedBaseline",
            "baselines.d3pm.D3PM",
            "baselines.d3pm.from_ardm",
            "baselines.d3pm.bound",
            "baselines.d3pm.bound_all_steps",
            "baselines.d3pm.sample",
            "baselines.causal.Autoregressive",
            "baselines.causal.score",
            "baselines.causal.sample",
        ),
    ),
    Topic(
        title="Schedules",
        modules=("schedule", "profiles"),
        text="""\
```python
losses = ardm.monotone(trained.profile.bits.numpy(), trained.profile.counts.numpy(), method="smooth")
plan = ardm.plan(losses, num_calls=10)
print(plan.schedule.groups(0), f"{plan.lost_bits:.2f} bits more than with every call")
for schedule in (plan.schedule, ardm.cosine_schedule(model.num_variables, 10)):
    print(ardm.schedule_bits_bound(model, x, schedule, generator))  # what it costs, an estimate for each item

table = ardm.every_budget(losses)  # all budgets of a stage at once
print(table.bits[9], table.schedule(10).calls)
```""",
        names=(
            "profiles.monotone",
            "schedule.plan",
            "schedule.every_budget",
            "schedule.full_schedule",
            "schedule.uniform_schedule",
            "schedule.cosine_schedule",
            "schedule.Schedule",
            "schedule.Plan",
            "schedule.BudgetTable",
        ),
        types=("profiles.Losses", "profiles.Counts", "profiles.Method"),
    ),
    Topic(
        title="Samples",
        text="""\
```python
items = ardm.sample_items(model, orders, plan.schedule, generator)
print(alphabet.show(items[0].numpy()))

known = begin.expand_as(x)  # keep the first 10 characters, fill the rest
schedule = ardm.plan(losses, num_calls=10, first_step=10).schedule
given = ardm.Given(values=x, mask=known)
for step in ardm.sample_chain(model, ardm.given_first(orders, known), schedule, generator, given=given):
    print(alphabet.show(step.shown(model.depth)[0].numpy()))
```""",
        names=("sample.sample_items", "sample.sample_chain", "sample.Given", "sample.given_first", "sample.Step"),
    ),
    Topic(
        title="Compression",
        text="""\
```python
data = ardm.compress("my.model", Path("photo.png"))  # what `ardm compress` writes
pixels = ardm.decompress(data, "my.model")  # a uint8 array (height, width, channels)
assert ardm.compress("my.model", pixels) == data
```""",
        names=(
            "compression.api.compress",
            "compression.api.decompress",
            "container.entries.Limits",
        ),
        types=("compression.api.Value", "compression.api.Model"),
    ),
    Topic(
        title="Errors",
        text="""\
All are `ValueError`s with a message of one line.

```python
from ardm.errors import DamagedError

try:
    ardm.decompress(data[:-1], "my.model")
except DamagedError as error:
    print(error)
```""",
        names=(
            "errors.ArdmError",
            "errors.DataError",
            "errors.CheckpointError",
            "errors.ExactError",
            "errors.DamagedError",
            "errors.UnknownVersionError",
            "errors.UnknownModelError",
            "errors.TooLargeError",
        ),
    ),
)


def reference() -> str:
    """The whole document."""
    return "\n\n".join([PREFACE, *(part for topic in TOPICS for part in chapter(topic))]) + "\n"


def chapter(topic: Topic) -> Iterator[str]:
    """The parts of a topic."""
    yield f"## {topic.title}"
    yield from (prose(read_module(module)) for module in topic.modules)
    yield topic.text
    if topic.types:
        yield "In the signatures:"
        yield code("\n".join(source_of(name) for name in topic.types))
    for name in topic.names:
        yield from explained(name)


def explained(name: str) -> Iterator[str]:
    """The parts about one name."""
    module, _, last = name.rpartition(".")
    yield f"### `ardm.{last if last in ardm.__all__ else name}`"
    node = definitions(module)[last]
    if isinstance(node, ast.ClassDef):
        yield from explained_class(module, node)
    elif isinstance(node, Function):
        yield code(signature(module, node))
        yield prose(node)


def source_of(name: str) -> str:
    """A name for a type as it is defined."""
    module, _, last = name.rpartition(".")
    return ast.get_source_segment(text_of(module), definitions(module)[last]) or ""


def explained_class(module: str, node: ast.ClassDef) -> Iterator[str]:
    """The parts about a class: how it is made, its fields, and its public methods and properties."""
    functions = [part for part in node.body if isinstance(part, Function) and not part.name.startswith("_")]
    yield code(class_head(module, node))
    yield prose(node)
    members = [f"- `{name}`: {text}" for name, text in field_docs(node)]
    members += [f"- `{part.name}` (property): {one_line(part)}" for part in functions if is_property(part)]
    if members:
        yield "\n".join(members)
    for part in functions:
        if not is_property(part):
            yield f"`{node.name}.{part.name}`"
            yield code(signature(module, part))
            yield prose(part)


def class_head(module: str, node: ast.ClassDef) -> str:
    """The head of a class with its fields or its constructor."""
    parts = [
        ast.get_source_segment(text_of(module), part) or "" for part in node.body if isinstance(part, ast.AnnAssign)
    ]
    parts += [signature(module, part) for part in node.body if isinstance(part, Function) and part.name == "__init__"]
    head = "".join(f"@{ast.unparse(decorator)}\n" for decorator in node.decorator_list)
    head += f"class {node.name}{bases(node)}"
    return head + (":\n" + textwrap.indent("\n".join(parts), "    ") if parts else "")


def bases(node: ast.ClassDef) -> str:
    """What a class inherits from, in brackets."""
    return f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""


def field_docs(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The fields of a dataclass that have a docstring, which stands below each."""
    for field, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            yield ast.unparse(field.target), " ".join(str(after.value.value).split())


def is_property(node: Function) -> bool:
    """Whether a method is called without brackets."""
    return any(ast.unparse(decorator) == "property" for decorator in node.decorator_list)


def signature(module: str, node: Function) -> str:
    """The head of a function as it stands in the source, without the colon."""
    lines = text_of(module).splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
    return inspect.cleandoc("\n".join(lines)).removesuffix(":")


def prose(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """A docstring as Markdown: what is indented in it becomes a block of its own."""
    text = ast.get_docstring(node)
    assert text, f"line {node.body[0].lineno} has no docstring"
    text = re.sub(r"^(\S.*)\n(?= {4})", r"\1\n\n", text, flags=re.MULTILINE)
    return re.sub(r"^( {4}.*)\n(?=\S)", r"\1\n\n", text, flags=re.MULTILINE)


def one_line(node: Function) -> str:
    """A docstring without its line breaks."""
    return " ".join((ast.get_docstring(node) or "").split())


def code(text: str) -> str:
    """A block of Python."""
    return f"```python\n{text}\n```"


@cache
def definitions(module: str) -> dict[str, Definition]:
    """The classes, functions and assigned names of a module."""
    found: dict[str, Definition] = {}
    for node in read_module(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


@cache
def read_module(module: str) -> ast.Module:
    """A module of ours, parsed."""
    return ast.parse(text_of(module))


@cache
def text_of(module: str) -> str:
    """The source of a module of ours."""
    path = SOURCE.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
