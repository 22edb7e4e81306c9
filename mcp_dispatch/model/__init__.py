"""The words everyone uses: frozen, plain, no I/O."""
