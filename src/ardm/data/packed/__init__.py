"""Packed data sets: a description and shards on disk that are read through memory maps, never held in memory.

A packed folder holds
    ardm-packed.json        the description, written last: without it the packing was not finished
    values-00000.ardmpack   all values (classes of a text, sub-pixels, samples) of train, then valid, then test, as one
    values-00001.ardmpack   run that is cut into equal lengths
    sizes-00000.ardmpack    heights and widths of images, or lengths of sounds, in the same order
"""
