"""The paper's comparisons: what is run and measured, and the report of it.

`runs`, `tables` and `figures` say what there is; commands, scripts and the report all come from them.
"""
