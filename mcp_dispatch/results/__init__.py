"""Tool results: their size and limits, and the files that hold what is too large to deliver."""
