#!/bin/sh
# The README's SC09 tables, on one NVIDIA H200: sh runs/sc09.sh DATA OUT [MINUTES]
# DATA holds speech_commands. MINUTES (6) for each of the four models.
set -eu
data=$1
out=$2
minutes=${3:-6}

train() { # NAME FLAGS...
    name=$1
    shift
    ardm train sc09 --data "$data" --out "$out/$name" --resume --minutes "$minutes" "$@"
    ardm eval "$out/$name" "$data" --items 1000 --passes 8 --batch-size 64
}

ardm bench train --presets sc09
ardm bench train --presets sc09 --base 4
ardm bench train --presets sc09-paper --batch-size 16
train oa
train oa-clipped --min-log-scale -7
train upscale4 --base 4
train upscale16 --base 16
for run in oa upscale4; do
    ardm report calls "$out/$run" "$data" --items 4 --batch-size 64 -o "$out/$run-calls.md"
    ardm sample "$out/$run" -n 4 --calls 800 -o "$out/$run-samples.png"
done
