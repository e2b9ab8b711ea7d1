#!/bin/sh
# The text8 tables of docs/results.md, on one NVIDIA H200: sh runs/text8.sh DATA OUT
# DATA holds the text8 file. 25 minutes for each preset, about 3 for the tables.
set -eu
data=$1
out=$2

ardm train text8 --data "$data" --out "$out/text8" --resume --minutes 25
ardm train text8-paper --data "$data" --out "$out/text8-paper" --resume --minutes 25
for run in text8 text8-paper; do
    ardm eval "$out/$run" "$data" --items 20000 --batch-size 512
done
ardm report calls "$out/text8" "$data" --items 200 --batch-size 512 -o "$out/calls.md"
cat "$out/calls.md"
