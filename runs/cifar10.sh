#!/bin/sh
# The README's CIFAR-10 tables, on one NVIDIA H200: sh runs/cifar10.sh DATA OUT MINUTES IMAGE
# DATA holds cifar-10-batches-bin, IMAGE is one of 32 x 32 pixels to inpaint. MINUTES (25) for each of three models.
set -eu
data=$1
out=$2
minutes=$3
image=$4

ardm bench train --presets cifar10 cifar10-paper
ardm bench train --presets cifar10 --base 4
ardm train cifar10 --data "$data" --out "$out/oa" --resume --minutes "$minutes" --train-on-all
ardm train cifar10 --data "$data" --out "$out/upscale4" --resume --minutes "$minutes" --train-on-all --base 4
ardm train cifar10-paper --data "$data" --out "$out/paper" --resume --minutes "$minutes"
ardm eval "$out/paper" "$data" --items 10000 --passes 4 --batch-size 256
for run in oa upscale4; do
    ardm eval "$out/$run" "$data" --items 10000 --passes 4 --batch-size 256
    ardm report calls "$out/$run" "$data" --items 64 --batch-size 256 -o "$out/$run-calls.md"
    ardm plan "$out/$run" --calls 100 -o "$out/$run-plan.png"
    ardm sample "$out/$run" -n 36 --calls 500 -o "$out/$run-samples.png"
    ardm sample "$out/$run" -n 4 --calls 500 --chain -o "$out/$run-chain.png"
    ardm infill "$out/$run" "$image" --mask 8,8,24,24 -n 8 --calls 100 -o "$out/$run-infilled.png"
done
