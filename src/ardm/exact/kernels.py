"""The integer operations of exact networks for CPUs, compiled by Numba.

Each gives the same integers as its namesake in `operations.TorchOperations`, in one pass over its data.
A float32 product is followed by a rounding and never by a sum, so that nothing can be contracted.
"""

from typing import no_type_check

import numpy as np

from ardm.exact.vector_product import TILE_COLUMNS, TILE_ROWS, tile_product
from ardm.runtime.jit import compiled

kernel = compiled(nogil=True, error_model="numpy")


@kernel
@no_type_check
def norm(x, gain, limit, out):
    """out[i] = x[i] * float32(gain / |x[i]|), rounded and clamped to +-limit; gain is float64, x int32, out int16."""
    rows, width = x.shape
    for i in range(rows):
        row = x[i]
        total = np.int64(0)
        for c in range(width):
            value = np.int64(row[c])
            total += value * value
        scale = np.float32(gain / np.sqrt(np.float64(max(total, 1))))
        for c in range(width):
            y = np.rint(np.float32(row[c]) * scale)
            out[i, c] = np.int16(min(max(y, -limit), limit))


@kernel
@no_type_check
def depthwise(x, weight, scale, out):
    """out = the depthwise convolution of x (B, H, W, C) with weight (rows, columns, C), rescaled to +-127."""
    batch, height, width, channels = x.shape
    rows, columns = weight.shape[0], weight.shape[1]
    total = np.empty(channels, np.int32)
    for b in range(batch):
        for i in range(height):
            for j in range(width):
                total[:] = 0
                for p in range(max(0, rows // 2 - i), min(rows, height + rows // 2 - i)):
                    for q in range(max(0, columns // 2 - j), min(columns, width + columns // 2 - j)):
                        pixel, tap = x[b, i + p - rows // 2, j + q - columns // 2], weight[p, q]
                        for c in range(channels):
                            total[c] += np.int32(pixel[c]) * np.int32(tap[c])
                row = out[b, i, j]
                for c in range(channels):
                    y = np.rint(np.float32(total[c]) * scale[c])
                    row[c] = np.int8(min(max(y, np.float32(-127)), np.float32(127)))


@kernel
@no_type_check
def rescale(x, scale, low, out):
    """out = x (N, C) times the scale of each channel, rounded and clamped to low..127."""
    rows, width = x.shape
    for i in range(rows):
        for c in range(width):
            y = np.rint(np.float32(x[i, c]) * scale[c])
            out[i, c] = np.int8(min(max(y, low), np.float32(127)))


@kernel
@no_type_check
def rescale_squared(x, scale, out):
    """out = the square of x (N, C) times the scale of each channel, at most 127; 0 where x is negative."""
    rows, width = x.shape
    for i in range(rows):
        for c in range(width):
            y = max(np.float32(x[i, c]) * scale[c], np.float32(0))
            out[i, c] = np.int8(min(np.rint(y * y), np.float32(127)))


@kernel
@no_type_check
def gate(x, scale, bias, logistic, out_scale, one, out):
    """out = tanh(u) sigmoid(v), rescaled to +-127; u and v are the halves of x (N, 2C) scaled, rounded, plus the bias.

    Both come from a table of the logistic function in units of 1/one, with the argument 0 in its middle.
    """
    rows, width = out.shape
    middle = np.int32(len(logistic) // 2)
    places = np.empty(2 * width, np.int32)
    for i in range(rows):
        for c in range(2 * width):
            y = np.int32(np.rint(np.float32(x[i, c]) * scale[c])) + bias[c]
            places[c] = min(max(y, -middle), middle - np.int32(1)) + middle
        for c in range(2 * width):  # only this loop is not vectorised
            places[c] = logistic[places[c]]
        for c in range(width):
            value = (np.int32(2) * places[c] - one) * places[width + c]
            y = np.rint(np.float32(value) * out_scale[c])
            out[i, c] = np.int8(min(max(y, np.float32(-127)), np.float32(127)))


@kernel
@no_type_check
def multiply(x, factor):
    """Multiply x by the factor in place, rounded."""
    rows, width = x.shape
    for i in range(rows):
        for c in range(width):
            x[i, c] = np.int32(np.rint(np.float32(x[i, c]) * factor))


@kernel
@no_type_check
def rotate(x, cos, sin, scale, limit, out):
    """out = pairs of channels of x (B, D, H, C) turned by the angles of their position, rescaled to +-limit."""
    batch, length, heads, channels = x.shape
    half = channels // 2
    for b in range(batch):
        for d in range(length):
            for h in range(heads):
                row, turned = x[b, d, h], out[b, d, h]
                for c in range(half):
                    first, second = np.int32(row[c]), np.int32(row[half + c])
                    y = np.rint(np.float64(first * cos[d, c] - second * sin[d, c]) * scale)
                    z = np.rint(np.float64(first * sin[d, c] + second * cos[d, c]) * scale)
                    turned[c] = np.int8(min(max(y, -limit), limit))
                    turned[half + c] = np.int8(min(max(z, -limit), limit))


@kernel
@no_type_check
def attention_weights(scores, exponential, scale, halves, totals):
    """Weights exponential[(peak - score) * scale, rounded] as 64 high + low, and their sums; the peak is per row.

    H heads of G rows: scores (H, G, D), halves (H, 2 G, D) with the high ones first, totals (H, G).
    """
    heads, rows, length = scores.shape
    last = np.float32(len(exponential) - 1)
    weights = np.empty(length, np.int32)
    for h in range(heads):
        for i in range(rows):
            row, high, low = scores[h, i], halves[h, i], halves[h, rows + i]
            peak = np.int32(row[0])  # integers, whose comparisons are vectorised
            for j in range(length):
                peak = max(peak, np.int32(row[j]))
            for j in range(length):
                weights[j] = np.int32(min(np.rint(np.float32(peak - np.int32(row[j])) * scale), last))
            for j in range(length):  # only this loop is not vectorised
                weights[j] = exponential[weights[j]]
            total = np.int32(0)
            for j in range(length):
                total += weights[j]
                high[j] = np.int8(weights[j] >> 6)
                low[j] = np.int8(weights[j] & 63)
            totals[h, i] = total


@kernel
@no_type_check
def attention_means(sums, totals, scale, out):
    """out (G, C) = sums 64 high + low (C, 2 G) over their totals, times the scale of each channel, rounded to +-127."""
    channels, length = len(sums), len(totals)
    means = np.empty(length, np.int8)
    for c in range(channels):
        for d in range(length):
            total = np.float64(64 * sums[c, d] + sums[c, length + d])
            y = np.rint(total / totals[d] * scale[c])
            means[d] = np.int8(min(max(y, -127.0), 127.0))
        for d in range(length):
            out[d, c] = means[d]


@kernel
@no_type_check
def attend_visible(query, keys, values, blocks, number, exponential, score_scale, scale, out):
    """Attention of rows (R, H, C) to their item's rows up to their own number; keys (B, H, C, M), values (B, H, M, C').

    `blocks` are runs of rows of one item: item, first row, end, and the rows that the last one sees.
    """
    heads, channels = query.shape[1:]
    most = np.int64(0)
    for block in range(len(blocks)):
        most = max(most, blocks[block, 2] - blocks[block, 1])
    rows = (most + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS
    capacity, padded = keys.shape[3], values.shape[3]
    queries, scores = np.zeros((rows, channels), np.int16), np.empty((rows, capacity), np.int32)
    weights, totals = np.zeros((rows, capacity), np.int16), np.empty(rows)
    sums = np.empty((rows, padded), np.int32)
    for block in range(len(blocks)):
        item, start, end, seen = blocks[block]
        count, length = end - start, (seen + TILE_COLUMNS - 1) // TILE_COLUMNS * TILE_COLUMNS
        for h in range(heads):
            for i in range(count):
                for c in range(channels):
                    queries[i, c] = query[start + i, h, c]
            multiply_tiles(queries, keys[item, h], count, channels, length, scores)
            for i in range(count):
                totals[i] = visible_weights(
                    scores[i], number[start + i] + 1, length, exponential, score_scale, weights[i]
                )
            multiply_tiles(weights, values[item, h], count, length, padded, sums)
            for i in range(count):
                row, total = out[start + i, h], totals[i]
                for c in range(channels):
                    y = np.rint(np.float64(sums[i, c]) / total * scale[h, c])
                    row[c] = np.int8(min(max(y, -127.0), 127.0))


@kernel
@no_type_check
def multiply_tiles(x, y, rows, depth, columns, out):
    """out = x y for the first rows of x (int16), their first `depth` columns, and the first columns of y (int8).

    Rows are rounded up to whole tiles; `depth` is even, `columns` a multiple of a tile's.
    """
    x_at, y_at, out_at = np.int64(x.ctypes.data), np.int64(y.ctypes.data), np.int64(out.ctypes.data)
    x_stride, y_stride, out_stride = x.shape[1], y.shape[1], out.shape[1]
    for c in range(0, columns, TILE_COLUMNS):
        for i in range(0, rows, TILE_ROWS):
            place = out_at + 4 * (i * out_stride + c)
            tile_product(x_at + 2 * i * x_stride, x_stride, y_at + c, y_stride, depth, place, out_stride)


@kernel
@no_type_check
def visible_weights(scores, visible, length, exponential, scale, weights):
    """Set the weights exponential[(peak - score) * scale, rounded] of visible scores, zero others; return their sum."""
    last = np.float32(len(exponential) - 1)
    peak = scores[0]
    for j in range(visible):
        peak = max(peak, scores[j])
    for j in range(visible):
        scores[j] = np.int32(min(np.rint(np.float32(peak - scores[j]) * scale), last))
    for j in range(visible):  # only this loop is not vectorised
        weights[j] = exponential[scores[j]]
    for j in range(visible, length):
        weights[j] = 0
    total = np.int32(0)
    for j in range(visible):
        total += np.int32(weights[j])
    return np.float64(total)


@kernel
@no_type_check
def remember(blocks, number, key, value, keys, values):
    """Write key and value (R, H, C) of new rows to the memories of their items, (B, H, C, M) and (B, H, M, C').

    `blocks` are those of `attend_visible`. The rows of an item have numbers that follow each other.
    """
    heads, channels = key.shape[1:]
    for block in range(len(blocks)):
        item, start, end, _ = blocks[block]
        first = number[start]
        for h in range(heads):
            for c in range(channels):
                column = keys[item, h, c]
                for i in range(start, end):
                    column[first + i - start] = key[i, h, c]
            for i in range(start, end):
                row, new = values[item, h, first + i - start], value[i, h]
                for c in range(channels):
                    row[c] = new[c]


@kernel
@no_type_check
def depthwise_before(seen, item, taps, weight, scale, out):
    """out = the convolution of the rows taps (R, K) of seen (B, M, C) with weight (K, C), rescaled to +-127."""
    rows, size = taps.shape
    channels = weight.shape[1]
    total = np.empty(channels, np.int32)
    for i in range(rows):
        total[:] = 0
        for k in range(size):
            if taps[i, k] >= 0:
                row, tap = seen[item[i], taps[i, k]], weight[k]
                for c in range(channels):
                    total[c] += np.int32(row[c]) * np.int32(tap[c])
        for c in range(channels):
            y = np.rint(np.float32(total[c]) * scale[c])
            out[i, c] = np.int8(min(max(y, np.float32(-127)), np.float32(127)))


@kernel
@no_type_check
def add_rescaled(x, y, scale, limit):
    """Add y times the scale of each channel, rounded, to x in place; clamped to +-limit."""
    rows, width = x.shape
    for i in range(rows):
        for c in range(width):
            total = x[i, c] + np.int32(np.rint(np.float32(y[i, c]) * scale[c]))
            x[i, c] = min(max(total, -limit), limit)


@kernel
@no_type_check
def embed(index, table, out):
    """out[i] = the sum over groups g of row index[i, g] of table[g]."""
    rows, groups = index.shape
    for i in range(rows):
        row = out[i]
        row[:] = 0
        for g in range(groups):
            entry = table[g, index[i, g]]
            for c in range(len(row)):
                row[c] += entry[c]


@kernel
@no_type_check
def head(x, group, weight, scale, bias, out):
    """out[i] = weight[group[i]] x[i] times the scale of each output (float64), rounded, plus the bias."""
    rows, width = x.shape
    outputs = weight.shape[1]
    for i in range(rows):
        g, row = group[i], x[i]
        for o in range(outputs):
            column, total = weight[g, o], np.int64(0)
            for c in range(width):
                total += np.int64(np.int32(row[c]) * np.int32(column[c]))
            out[i, o] = np.int32(np.rint(np.float64(total) * scale[g, o])) + bias[g, o]
