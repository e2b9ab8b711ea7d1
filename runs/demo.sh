#!/bin/sh
# The demo: a text model of this package's own source code, from training to infilling, on a CPU.
set -eu
out=runs/out/demo
rm -rf "$out"
mkdir -p "$out"
find src -name '*.py' | LC_ALL=C sort | xargs cat | LC_ALL=C tr -cd '\11\12\40-\176' > "$out/source.txt"

echo "== train a small model of $(wc -c < "$out/source.txt") characters of Python (ardm train)"
ardm train text --data "$out/source.txt" --out "$out/run" --item-length 128 --steps 600 --eval-every 200
echo "== bits per character: the bound over random orders, then exactly from left to right (ardm eval)"
ardm eval "$out/run" "$out/source.txt"
ardm eval "$out/run" "$out/source.txt" --order raster --items 20
echo "== the best schedule of 20 calls for 128 characters (ardm plan; drawn to $out/plan.png)"
ardm plan "$out/run" --calls 20 -o "$out/plan.png"
echo "== a sample in 32 calls, as it is filled in (ardm sample --chain)"
ardm sample "$out/run" --calls 32 --chain --temperature 0.7
echo "== gaps filled three times (ardm infill)"
ardm infill "$out/run" '    """The ______ of a schedule."""' -n 3
