#!/bin/sh
# The SC09 tables of docs/results.md, on one NVIDIA H200: sh runs/sc09.sh DATA OUT
# DATA holds speech_commands. About 40 minutes, and as long again on a CPU for the last command.
set -eu
data=$1
out=$2

train() { # NAME FLAGS...
    name=$1
    shift
    ardm train sc09 --data "$data" --out "$out/$name" --resume --steps 1900 --eval-every 250 --checkpoint-every 100000 "$@"
    ardm eval "$out/$name" "$data" --items 1000 --passes 8 --batch-size 100
}

ardm bench train --presets sc09 --seconds 2
ardm bench train --presets sc09 --base 4 --seconds 2
ardm bench train --presets sc09-paper sc09-small --batch-size 16 --seconds 2
train oa
train oa-clipped --min-log-scale -7
train oa-linear --parametrization logistic
train oa-linear-clipped --parametrization logistic --min-log-scale -7
train upscale4 --base 4
train upscale16 --base 16
ardm report calls "$out/oa" "$data" --items 12 --batch-size 100 --planned-in raster halton --passes 1000 -o "$out/oa-calls.md"
ardm report calls "$out/upscale4" "$data" --items 12 --batch-size 100 --schedules planned uniform --planned-in \
    --passes 2000 -o "$out/upscale4-calls.md"
ardm sample "$out/upscale4" -n 4 --calls 400 -o "$out/sample.wav"
python runs/spectrograms.py "$out/samples.png" "$out"/sample-*.wav
ardm export "$out/oa" -o "$out/oa.model" --data "$data" --order pseudorandom:0 --calls 50 --items 16
ardm bench codec --model "$out/oa.model" --data "$data" --items 1000 --calls 50

# The bundled model `audio`: 16 minutes more, and the coding of its card on a CPU.
ardm train sc09 --data "$data" --out "$out/bundled" --resume --base 4 --widths 96 192 256 384 --depths 2 2 2 4 \
    --augmentation flips --steps 20500 --eval-every 1000
ardm eval "$out/bundled" "$data" --items 1000 --passes 16 --batch-size 100
ardm export "$out/bundled" -o "$out/audio.model" --data "$data" --calls 200 --order halton
ardm bench codec --model "$out/audio.model" --data "$data" --items 48
