"""A web page on localhost to try models: fill gaps, watch, compress, restore. `app.py` is the server."""
