"""Compiles every GPU kernel for a GPU that need not be there: `python compile_kernels.py CAPABILITY`, such as 90.

A process of its own: where `conftest` lets Triton interpret kernels, it does not compile them.
"""

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ardm.codec import gpu_kernels as codec_kernels
from ardm.codec.tables import EXPONENTIAL, WEIGHT_BITS
from ardm.exact import gpu_kernels

BYTES, WORDS, LONGS = "*i8", "*i32", "*i64"
TYPES = {
    gpu_kernels._product: [BYTES, BYTES, "*fp32"],
    gpu_kernels._depthwise: ["*i16", BYTES, "*fp32", BYTES, "i32"],
    gpu_kernels._embed: [LONGS, WORDS, WORDS, "i32"],
    codec_kernels._weights: [WORDS, LONGS, LONGS, LONGS, WORDS, "i32", "i32"],
    codec_kernels._read: [WORDS, LONGS, LONGS, LONGS, LONGS, WORDS, LONGS, LONGS, LONGS],
}
"""The types of the arguments that are not constants."""


def main(capability: int) -> None:
    """Compile all kernels for typical sizes; an error ends the process."""
    target = GPUTarget("cuda", capability, 32)
    for then, result in (("rescale", BYTES), ("square", BYTES), ("add", WORDS)):
        types = [*TYPES[gpu_kernels._product], result, result, "i32"]
        tile = (gpu_kernels.ROWS, gpu_kernels.COLUMNS, gpu_kernels.INNER)
        compile_kernel(gpu_kernels._product, types, [192, 64, 127, then, *tile], target, num_warps=8, num_stages=3)
    tile = (gpu_kernels.PIXELS, gpu_kernels.CHANNELS)
    compile_kernel(gpu_kernels._depthwise, TYPES[gpu_kernels._depthwise], [32, 32, 64, 5, 5, *tile], target)
    compile_kernel(gpu_kernels._embed, TYPES[gpu_kernels._embed], [3, 257, 64, *tile], target)
    for width in (2, 4, 27, 256, 1024):
        columns = triton.next_power_of_2(width)
        constants = [width, len(EXPONENTIAL), WEIGHT_BITS, max(1, codec_kernels.TILE // columns), columns]
        compile_kernel(codec_kernels._weights, TYPES[codec_kernels._weights], constants, target)
        types = TYPES[codec_kernels._read]
        compile_kernel(codec_kernels._read, types, [width, WEIGHT_BITS, columns], target, num_warps=1)


def compile_kernel(kernel, types, constants, target, **options) -> None:
    """Compile to machine code, without running it."""
    names = kernel.arg_names
    assert len(names) == len(types) + len(constants)
    signature = dict(zip(names, [*types, *["constexpr"] * len(constants)], strict=True))
    constexprs = {(len(types) + i,): value for i, value in enumerate(constants)}
    source = ASTSource(kernel, signature, constexprs=constexprs)
    code = triton.compile(source, target=target, options=options).asm["cubin"]
    print(f"{kernel.__name__}: {len(code)} bytes for {target}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
