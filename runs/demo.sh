#!/bin/sh
# The demo: the models in the box compress, restore, fill gaps and draw samples, and a report shows it; no GPU is needed.
set -eu
out=runs/out/demo
rm -rf "$out"
ardm demo -o "$out"
