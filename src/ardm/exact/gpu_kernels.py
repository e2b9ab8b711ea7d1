"""Triton kernels for the heaviest operations of exact networks: fused products, convolutions and embeddings.

Every sum of integers is followed by one float32 product with a scale, a clamp, and a rounding to the nearest integer
(ties to even). Adding and subtracting 1.5 * 2^23 in float32, or 1.5 * 2^52 in float64, rounds below 2^22 or 2^51. The
clamp comes between product and sum, so that no compiler may contract them.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS, INNER = 128, 128, 64
"""The tile size of products."""
PIXELS, CHANNELS = 32, 64
"""The tile size of other operations."""


def rescaled_product(x: Tensor, weight: Tensor, scale: Tensor, low: int) -> Tensor:
    """x weight^T times the scale of each column, rounded and clamped to low..127, as bytes."""
    out = x.new_empty(len(x), len(weight))
    _launch_product(x, weight, scale, out, out, low, "rescale")
    return out


def squared_product(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """The square of x weight^T times the scale of each column, rounded, at most 127; 0 for negative products."""
    out = x.new_empty(len(x), len(weight))
    _launch_product(x, weight, scale, out, out, 0, "square")
    return out


def added_product(stream: Tensor, x: Tensor, weight: Tensor, scale: Tensor, limit: int) -> Tensor:
    """stream + x weight^T times the scale of each column, rounded; the sum is clamped to +-limit."""
    out = torch.empty_like(stream)
    _launch_product(x, weight, scale, stream, out, limit, "add")
    return out


def _launch_product(
    x: Tensor, weight: Tensor, scale: Tensor, stream: Tensor, out: Tensor, limit: int, then: str
) -> None:
    (rows, inner), columns = x.shape, len(weight)
    grid = (triton.cdiv(rows, ROWS) * triton.cdiv(columns, COLUMNS),)
    tile = {"ROWS": ROWS, "COLUMNS": COLUMNS, "INNER": INNER, "num_warps": 8, "num_stages": 3}
    _product[grid](x, weight, scale, stream, out, rows, inner, columns, limit, then, **tile)


@triton.jit
@no_type_check
def _product(
    x_at, weight_at, scale_at, stream_at, out_at, rows,
    inner: tl.constexpr, columns: tl.constexpr, limit: tl.constexpr, then: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(columns, COLUMNS)
    row = (tl.program_id(0) // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    is_row, is_column = (row < rows)[:, None], (column < columns)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.int32)
    for start in range(0, inner, INNER):
        k = start + tl.arange(0, INNER)
        x = tl.load(x_at + row[:, None] * inner + k[None, :], mask=is_row & (k < inner)[None, :], other=0)
        weight = tl.load(
            weight_at + column[None, :] * inner + k[:, None], mask=is_column & (k < inner)[:, None], other=0
        )
        total = tl.dot(x, weight, total, out_dtype=tl.int32)
    scaled = total.to(tl.float32) * tl.load(scale_at + column, mask=column < columns, other=0.0)[None, :]
    place = row[:, None] * columns + column[None, :]
    if then == "add":
        near = tl.minimum(tl.maximum(scaled, -33554432.0), 33554432.0)  # beyond, the sum is clamped anyway
        rounded = ((near.to(tl.float64) + 6755399441055744.0) - 6755399441055744.0).to(tl.int32)
        result = tl.load(stream_at + place, mask=is_row & is_column, other=0) + rounded
        result = tl.minimum(tl.maximum(result, -limit), limit)
    else:
        if then == "square":
            positive = tl.minimum(tl.maximum(scaled, 0.0), 128.0)
            scaled = positive * positive
        near = tl.minimum(tl.maximum(scaled, limit * 1.0), 127.0)
        result = ((near + 12582912.0) - 12582912.0).to(tl.int8)
    tl.store(out_at + place, result, mask=is_row & is_column)


def depthwise(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """The depthwise convolution of x padded with zeros, times the scale of each channel, rounded to +-127."""
    out = torch.empty_like(x, dtype=torch.int8)
    pixels, (height, width, channels) = x.numel() // x.shape[-1], x.shape[1:]
    grid = (triton.cdiv(pixels, PIXELS), triton.cdiv(channels, CHANNELS))
    _depthwise[grid](x, weight, scale, out, pixels, height, width, channels, *weight.shape[:2], PIXELS, CHANNELS)
    return out


@triton.jit
@no_type_check
def _depthwise(
    x_at, weight_at, scale_at, out_at, pixels,
    height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr, kernel_rows: tl.constexpr,
    kernel_columns: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    row, column = pixel // width % height, pixel % width
    is_channel = (channel < channels)[None, :]
    place = pixel.to(tl.int64)[:, None] * channels + channel[None, :]
    total = tl.zeros((PIXELS, CHANNELS), tl.int32)
    for p in tl.static_range(kernel_rows):
        for q in tl.static_range(kernel_columns):
            down, right = p - kernel_rows // 2, q - kernel_columns // 2
            is_inside = (row + down >= 0) & (row + down < height) & (column + right >= 0) & (column + right < width)
            mask = (is_inside & (pixel < pixels))[:, None] & is_channel
            x = tl.load(x_at + place + (down * width + right) * channels, mask=mask, other=0).to(tl.int32)
            tap = tl.load(weight_at + (p * kernel_columns + q) * channels + channel, mask=channel < channels, other=0)
            total += x * tap.to(tl.int32)[None, :]
    scaled = total.to(tl.float32) * tl.load(scale_at + channel, mask=channel < channels, other=0.0)[None, :]
    near = tl.minimum(tl.maximum(scaled, -127.0), 127.0)
    result = ((near + 12582912.0) - 12582912.0).to(tl.int8)
    tl.store(out_at + place, result, mask=(pixel < pixels)[:, None] & is_channel)


def embed(index: Tensor, table: Tensor) -> Tensor:
    """The sum over groups g of row index[:, g] of table[g]."""
    (rows, groups), (values, channels) = index.shape, table.shape[1:]
    out = table.new_empty(rows, channels)
    grid = (triton.cdiv(rows, PIXELS), triton.cdiv(channels, CHANNELS))
    _embed[grid](index, table, out, rows, groups, values, channels, PIXELS, CHANNELS)
    return out


@triton.jit
@no_type_check
def _embed(
    index_at, table_at, out_at, rows,
    groups: tl.constexpr, values: tl.constexpr, channels: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    mask = (row < rows)[:, None] & (channel < channels)[None, :]
    total = tl.zeros((PIXELS, CHANNELS), tl.int32)
    for g in tl.static_range(groups):
        value = tl.load(index_at + row * groups + g, mask=row < rows, other=0)
        total += tl.load(table_at + (g * values + value)[:, None] * channels + channel[None, :], mask=mask, other=0)
    tl.store(out_at + row[:, None] * channels + channel[None, :], total, mask=mask)
