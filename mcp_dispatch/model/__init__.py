"""Values that every package uses: frozen dataclasses and Protocols, without I/O."""
