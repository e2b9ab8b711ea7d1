"""Programs on top of the library, which the library never imports."""
