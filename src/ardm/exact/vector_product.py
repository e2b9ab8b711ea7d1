"""Products of 16-bit and 8-bit integers for Numba's kernels, by the CPU's own instruction for them where it has one.

LLVM does not find these instructions in loops: without them attention would take six times as long.
"""

from collections.abc import Iterable
from typing import Any, no_type_check

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

TILE_ROWS = 4
TILE_COLUMNS = 32
INSTRUCTIONS = {"+avx512bw": ("llvm.x86.avx512.pmaddw.d.512", 32), "+avx2": ("llvm.x86.avx2.pmadd.wd", 16)}
"""By a CPU's feature the instruction that multiplies 16-bit integers and adds neighbours, and how many it takes."""
BYTE, HALF, WORD = ir.IntType(8), ir.IntType(16), ir.IntType(32)


@intrinsic
@no_type_check
def tile_product(typing_context, a, a_stride, b, b_stride, depth, out, out_stride):
    """out = a b for `TILE_ROWS` rows of a (int16) and `TILE_COLUMNS` columns of b (int8), as int32; depth is even.

    Matrices are given by the addresses of their first elements and by their rows' strides in elements.
    """
    return types.void(*[types.intp] * 7), _tile_product


def _tile_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Two rows of b at a time, their elements side by side, times pairs of elements of each row of a."""
    a, a_stride, b, b_stride, depth, out, out_stride = arguments
    features, kind = context.codegen()._tm_features.split(","), ir.VectorType(WORD, TILE_COLUMNS // 2)
    sums = [[cgutils.alloca_once_value(builder, ir.Constant(kind, [0] * kind.count)) for _ in "ab"] for _ in "abcd"]
    zero, two = ir.Constant(a.type, 0), ir.Constant(a.type, 2)
    with cgutils.for_range_slice(builder, zero, depth, two, a.type) as (p, _):
        pairs = _paired_rows(builder, b, b_stride, p)
        for r in range(TILE_ROWS):
            row = builder.add(a, builder.mul(two, builder.mul(a_stride, ir.Constant(a.type, r))))
            factor = _load(builder, WORD, builder.add(row, builder.mul(two, p)), 2)
            factors = _repeated(builder, factor)
            for part in range(2):
                products = _added_products(builder, features, pairs[part], factors)
                builder.store(builder.add(builder.load(sums[r][part]), products), sums[r][part])
    for r in range(TILE_ROWS):
        row = builder.add(out, builder.mul(ir.Constant(a.type, 4), builder.mul(out_stride, ir.Constant(a.type, r))))
        for part in range(2):
            address = builder.add(row, ir.Constant(a.type, 2 * TILE_COLUMNS * part))
            stored = builder.store(builder.load(sums[r][part]), builder.inttoptr(address, kind.as_pointer()))
            stored.align = 4
    return context.get_dummy_value()


def _paired_rows(builder: Any, b: Any, b_stride: Any, p: Any) -> list[Any]:
    """Rows p and p + 1 of b as 16-bit integers, their elements side by side, in two halves."""
    row, kind = builder.add(b, builder.mul(p, b_stride)), ir.VectorType(BYTE, TILE_COLUMNS)
    first, second = _load(builder, kind, row, 1), _load(builder, kind, builder.add(row, b_stride), 1)
    middle = TILE_COLUMNS // 2
    places = ([n for i in range(at, at + middle) for n in (i, TILE_COLUMNS + i)] for at in (0, middle))
    return [builder.sext(_shuffled(builder, first, second, n), ir.VectorType(HALF, TILE_COLUMNS)) for n in places]


def _repeated(builder: Any, factor: Any) -> Any:
    """A pair of 16-bit integers as often as fits."""
    kind = ir.VectorType(WORD, TILE_COLUMNS // 2)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), factor, ir.Constant(WORD, 0))
    return builder.bitcast(_shuffled(builder, first, first, [0] * kind.count), ir.VectorType(HALF, TILE_COLUMNS))


def _added_products(builder: Any, features: list[str], x: Any, y: Any) -> Any:
    """The sums of neighbouring products, as 32-bit integers."""
    found = next((INSTRUCTIONS[name] for name in INSTRUCTIONS if name in features), None)
    if found is None:
        wide = ir.VectorType(WORD, TILE_COLUMNS)
        product = builder.mul(builder.sext(x, wide), builder.sext(y, wide))
        return builder.add(*(_shuffled(builder, product, product, range(at, TILE_COLUMNS, 2)) for at in (0, 1)))
    name, size = found
    kind = ir.FunctionType(ir.VectorType(WORD, size // 2), [ir.VectorType(HALF, size)] * 2)
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    parts = []
    for at in range(0, TILE_COLUMNS, size):
        places = range(at, at + size)
        parts.append(builder.call(function, [_shuffled(builder, side, side, places) for side in (x, y)]))
    return parts[0] if len(parts) == 1 else _shuffled(builder, parts[0], parts[1], range(TILE_COLUMNS // 2))


def _shuffled(builder: Any, x: Any, y: Any, places: Iterable[int]) -> Any:
    """Elements of two vectors, those of the second counted on from the first's."""
    numbers = [*places]
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(WORD, len(numbers)), numbers))


def _load(builder: Any, kind: Any, address: Any, align: int) -> Any:
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = align
    return value
