"""A page on localhost to play with models: fill gaps, watch, compress, restore. `app.py` is the server."""
