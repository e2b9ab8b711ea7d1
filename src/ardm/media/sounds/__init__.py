"""16-bit sound: files, gaps, samples, and how the codec places samples."""
