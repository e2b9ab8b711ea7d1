"""Triton kernels for softmax weights and for the entropy decoder, so that decoding need not wait for a CPU.

The rules are in `frequencies` and `encoder`. A program computes the weights of a tile of rows, or reads one stream
symbol by symbol in one warp; the GPU reads many streams at a time.

Each kernel is compiled once per width of rows and never specialised on other arguments, so that the tested code is the
code in use.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Int, Int32, Int64, Integer
from torch import Tensor

from ardm.codec.tables import WEIGHT_BITS

TILE = 1024
"""Weights per program."""


def softmax_weights(
    outputs: Integer[Tensor, "N O"], first: Int[Tensor, "N"], count: Int[Tensor, "N"], width: int, table: Tensor
) -> Int32[Tensor, "N C"]:
    """Rows of `width` weights for the softmax of outputs[first : first + count], with `first` and `count` per row."""
    assert outputs.stride(1) == first.stride(0) == count.stride(0) == 1 or not len(outputs)
    weights = torch.empty(len(outputs), width, dtype=torch.int32, device=outputs.device)
    columns = triton.next_power_of_2(width)
    rows = max(1, TILE // columns)
    grid = (triton.cdiv(len(outputs), rows),)
    if len(outputs):
        _weights[grid](
            outputs, first, count, table, weights, len(outputs), outputs.stride(0), width, len(table), WEIGHT_BITS,
            rows, columns,
        )  # fmt: skip
    return weights


@triton.jit(do_not_specialize=["rows", "stride"], do_not_specialize_on_alignment=["outputs_at", "first_at", "count_at"])
@no_type_check
def _weights(
    outputs_at, first_at, count_at, table_at, weights_at, rows, stride,
    width: tl.constexpr, entries: tl.constexpr, bits: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    symbol = tl.arange(0, COLUMNS)[None, :]
    first = tl.load(first_at + row, mask=row < rows, other=0)[:, None]
    count = tl.load(count_at + row, mask=row < rows, other=1)[:, None]
    is_reachable = (row < rows)[:, None] & (symbol < count)
    logits = tl.load(outputs_at + row[:, None] * stride + first + symbol, mask=is_reachable, other=-2147483648)
    logits = logits.to(tl.int64)
    distance = tl.minimum(tl.max(logits, 1)[:, None] - logits, entries - 1)
    shares = tl.load(table_at + distance, mask=is_reachable, other=0)
    total = tl.maximum(tl.sum(shares, 1), 1)[:, None]  # 0 in rows beyond the last
    weights = tl.where(is_reachable, shares * ((1 << bits) - count) // total + 1, 0)
    key = shares * COLUMNS - symbol  # the first one on ties
    missing = (1 << bits) - tl.sum(weights, 1)[:, None]
    weights += tl.where(key == tl.max(key, 1)[:, None], missing, 0)
    tl.store(weights_at + row[:, None] * width + symbol, weights, mask=(row < rows)[:, None] & (symbol < width))


def read(
    weights: Int32[Tensor, "N C"],
    stream: Int[Tensor, "S"],
    begin: Int[Tensor, "S"],
    end: Int[Tensor, "S"],
    state: Int64[Tensor, "P"],
    words: Int32[Tensor, "W"],
    first_word: Int64[Tensor, "P"],
    end_word: Int64[Tensor, "P"],
) -> Int64[Tensor, "N"]:
    """The next symbols of some streams, one for each of their rows begin..end-1; other rows get 0.

    All symbols must be reachable. `state` (unsigned, in 64 bits) and `end_word` of the P streams are updated in place.
    """
    symbols = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
    width = weights.shape[1]
    starts = weights.cumsum(1, dtype=torch.int32) - weights
    _read[(len(stream),)](
        starts, stream, begin, end, state, words, first_word, end_word, symbols, width, WEIGHT_BITS,
        triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip
    return symbols


@triton.jit(do_not_specialize_on_alignment=["stream_at", "begin_at", "end_at"])
@no_type_check
def _read(
    starts_at, stream_at, begin_at, end_at, state_at, words_at, first_word_at, end_word_at, symbols_at,
    width: tl.constexpr, bits: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    stream = tl.load(stream_at + number)
    begin, end = tl.load(begin_at + number), tl.load(end_at + number)
    state = tl.load(state_at + stream).to(tl.uint64, bitcast=True)
    first_word, end_word = tl.load(first_word_at + stream), tl.load(end_word_at + stream)
    column = tl.arange(0, COLUMNS)
    is_column, place = column < width, begin * width + column
    starts = tl.load(starts_at + place, mask=is_column & (place < end * width), other=1 << bits)
    for row in range(begin, end):
        place += width
        ahead = tl.load(starts_at + place, mask=is_column & (place < end * width), other=1 << bits)
        word = tl.load(words_at + end_word - 1, mask=end_word > first_word, other=0)
        quantile = (state & ((1 << bits) - 1)).to(tl.int32)
        symbol = tl.sum((starts <= quantile).to(tl.int32), 0) - 1
        start = tl.max(tl.where(starts <= quantile, starts, 0), 0)
        stop = tl.min(tl.where(starts <= quantile, 1 << bits, starts), 0)
        state = (state >> bits) * (stop - start).to(tl.uint64) + (quantile - start).to(tl.uint64)
        takes_word = (state >> 32 == 0) & (end_word > first_word)
        low = word.to(tl.uint32, bitcast=True).to(tl.uint64)
        state = tl.where(takes_word, (state << 32) + low, state)
        end_word = tl.where(takes_word, end_word - 1, end_word)
        tl.store(symbols_at + row, symbol.to(tl.int64))
        starts = ahead
    tl.store(state_at + stream, state.to(tl.int64, bitcast=True))
    tl.store(end_word_at + stream, end_word)
