"""Packed data sets: a description and shards on disk that are read through memory maps, never held in memory.

A packed folder holds
    ardm-packed.json        the description, written last: without it the packing was not finished
    values-00000.ardmpack   all values (classes of a text, sub-pixels, samples) of train, then valid, then test, as one
    values-00001.ardmpack   run that is cut at equal lengths wherever that falls
    sizes-00000.ardmpack    of images their heights and widths, of sounds their lengths, in the same order
"""
