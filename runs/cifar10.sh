#!/bin/sh
# The CIFAR-10 tables of docs/results.md, on one NVIDIA H200: sh runs/cifar10.sh DATA OUT IMAGE
# DATA holds cifar-10-batches-bin, IMAGE is one of 32 x 32 pixels to inpaint. About 25 minutes.
set -eu
data=$1
out=$2
image=$3

ardm bench train --presets cifar10 cifar10-paper cifar10-small --seconds 4
ardm bench train --presets cifar10 --base 4 --seconds 4
ardm train cifar10 --data "$data" --out "$out/oa" --resume --train-on-all --steps 7662 --checkpoint-every 5000
ardm train cifar10 --data "$data" --out "$out/upscale4" --resume --train-on-all --steps 7898 --checkpoint-every 5000 --base 4
ardm train cifar10-paper --data "$data" --out "$out/paper" --resume --minutes 5.2 --eval-every 100000 --checkpoint-every 100000
ardm eval "$out/paper" "$data" --items 10000 --batch-size 250
ardm report calls "$out/oa" "$data" --items 16 --batch-size 500 -o "$out/oa-calls.md"
ardm report calls "$out/upscale4" "$data" --items 12 --batch-size 500 -o "$out/upscale4-calls.md"
for run in oa upscale4; do
    ardm eval "$out/$run" "$data" --items 10000 --passes 4 --batch-size 500
    ardm plan "$out/$run" --calls 100 -o "$out/$run-plan.png"
    ardm sample "$out/$run" -n 36 --calls 500 -o "$out/$run-samples.png"
    ardm sample "$out/$run" -n 6 --calls 500 --chain -o "$out/$run-chain.png"
    ardm infill "$out/$run" "$image" --mask 8,8,24,24 -n 9 --calls 100 --order halton -o "$out/$run-infilled.png"
done
